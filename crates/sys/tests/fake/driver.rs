//! Builds the fake of NVIDIA's driver library.
#![expect(unsafe_code, reason = "asks the fake what it holds")]

use std::path::{Path, PathBuf};
use std::process::Command;

/// A built fake driver library.
pub(crate) struct Driver(PathBuf);

impl Driver {
    pub(crate) fn built_with(name: &str, arguments: &[&str]) -> Self {
        let path =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("cuda-{name}-{}.so", std::process::id()));
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sys/tests/fake/cuda.c");
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o"])
            .arg(&path)
            .arg(source)
            .args(arguments)
            .output()
            .expect("it is there");
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// What the driver still holds for us.
    pub(crate) fn live(&self) -> i32 {
        // SAFETY: our own library, loaded before.
        let library = unsafe { libloading::Library::new(&self.0) }.expect("it is there");
        // SAFETY: the signature is that of fake_cuda_live in cuda.c.
        let live =
            unsafe { library.get::<unsafe extern "C" fn() -> i32>("fake_cuda_live") }.expect("it is there");
        // SAFETY: it takes nothing.
        unsafe { live() }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}
