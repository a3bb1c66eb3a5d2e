//! `soakd config`.
