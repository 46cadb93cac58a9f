//! A program that uses this crate starts on a host without libibverbs: nothing asks the loader for it.

use std::process::Command;

/// This test's own binary uses the crate as the product does (generic code is instantiated in it), so it
/// stands for it.
#[test]
fn the_binary_does_not_need_libibverbs_to_start() {
    let missing = rdmascope_sys::Verbs::open(Some(std::path::Path::new("/nonexistent.so")));
    assert!(missing.is_err());
    let own = std::env::current_exe().expect("own path");
    let output =
        Command::new("readelf").arg("-d").arg(own).output().expect("readelf runs: binutils is needed");
    let dynamic = String::from_utf8_lossy(&output.stdout);
    assert!(dynamic.contains("(NEEDED)"), "a dynamic binary:\n{dynamic}");
    assert!(!dynamic.contains("ibverbs"), "{dynamic}");
    assert!(!dynamic.contains("rdmacm"), "{dynamic}");
}
