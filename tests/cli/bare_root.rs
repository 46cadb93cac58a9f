//! The binary on a machine that has nothing but the C library: it starts, and says in words that verbs are missing.

use crate::harness::binary;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A root folder with the binary and what the loader needs for it; removed at the end.
struct Root(PathBuf);

impl Root {
    fn new() -> Self {
        let root = Self(std::env::temp_dir().join(format!("rdmascope-root-{}", std::process::id())));
        let listed =
            Command::new("ldd").arg(binary()).output().expect("ldd, of the C library's package, runs");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        // "libc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x...)", and the loader as "/lib64/ld-linux-x86-64.so.2 (0x...)".
        let files = listed.split_whitespace().filter(|word| word.starts_with('/'));
        for file in files {
            assert!(!file.contains("ibverbs"), "the binary asks the loader for {file}");
            root.take(Path::new(file), file);
        }
        root.take(binary(), "/rdmascope");
        root
    }

    fn take(&self, from: &Path, to: &str) {
        let to = self.0.join(to.trim_start_matches('/'));
        fs::create_dir_all(to.parent().expect("a folder")).expect("a folder below the root");
        // By another program: a child that another test starts meanwhile would inherit our open file, and the kernel refuses to run
        // a program that somebody may still be writing.
        let copied = Command::new("cp").arg(from).arg(&to).status().expect("cp runs");
        assert!(copied.success(), "{} cannot be copied", from.display());
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

#[test]
fn without_libibverbs_it_starts_and_says_what_is_missing() {
    let root = Root::new();
    let run = |arguments: &[&str]| {
        let mut command = Command::new("chroot");
        command.arg(&root.0).arg("/rdmascope").args(arguments);
        let output = command.output().expect("chroot runs (it needs root, as the whole test command does)");
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&text).into_owned())
    };
    let (code, text) = run(&["--version"]);
    assert_eq!(code, Some(0), "{text}");
    let (code, text) = run(&["check"]);
    assert!(matches!(code, Some(2 | 3)), "no RDMA at all is not fine, and it said {code:?}: {text}");
    assert!(text.contains("RDMA"), "{text}");
    assert!(!text.contains("panicked"), "{text}");
}
