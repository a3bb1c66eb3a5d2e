//! soakd.
fn main() {}
