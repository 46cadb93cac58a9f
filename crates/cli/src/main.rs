//! The one binary: arguments, rendering, exit codes.

fn main() {}
