//! Tests that need a service; one binary, so that they link once.

mod embedded;
