//! All fuzz targets as one program: libFuzzer's, which runs the target that RDMASCOPE_FUZZ_TARGET names.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rdmascope_tests::targets::{Target, targets};
use std::sync::OnceLock;

static TARGET: OnceLock<Target> = OnceLock::new();

fn target() -> Target {
    let wanted = std::env::var("RDMASCOPE_FUZZ_TARGET").unwrap_or_default();
    let found = targets().into_iter().find(|(name, _)| *name == wanted);
    found.unwrap_or_else(|| panic!("RDMASCOPE_FUZZ_TARGET={wanted} names no target"))
}

fuzz_target!(|bytes: &[u8]| {
    let (_, run) = TARGET.get_or_init(target);
    run(bytes);
});
