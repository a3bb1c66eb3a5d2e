//! The one integration binary: every part of the tests is a module of it.

#[cfg(test)]
mod report;
