//! Builds the fake libibverbs, loads it and steers it: each test gets a copy with a state of its own.
#![expect(unsafe_code, reason = "calls the fake's control functions")]
#![allow(dead_code, reason = "each test file that includes this uses a part of it")]

use std::ffi::{CString, c_char, c_int, c_long, c_uint};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use libloading::Library;
use rdmascope_sys::{Context, Verbs};

/// A built fake library. Its file is removed at the end; the loaded copy stays until the process ends.
pub(crate) struct Fake {
    path: PathBuf,
    control: Library,
}

impl Fake {
    /// Builds it in a folder of the target directory.
    pub(crate) fn new() -> Self {
        Self::built_with(&[])
    }

    /// Builds it with more arguments for the compiler, such as `-DFAKE_WITHOUT_CREATE_AH`.
    pub(crate) fn built_with(arguments: &[&str]) -> Self {
        let path = build(arguments);
        // SAFETY: our own library; its constructor only reads the environment.
        let control = unsafe { Library::new(&path) }.expect("the fake libibverbs loads");
        Self { path, control }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn verbs(&self) -> Verbs {
        Verbs::open(Some(&self.path)).expect("the fake has all functions")
    }

    pub(crate) fn open_first(&self) -> Context {
        let devices = self.verbs().devices().expect("devices");
        devices[0].open().expect("fake_0 opens")
    }

    /// Lets a call fail from now on (`create_qp`, 12), or sets another switch of the fake; 0 ends it.
    pub(crate) fn set(&self, name: &str, value: i64) {
        let name = CString::new(name).expect("no NUL");
        // SAFETY: the signature is that of fake_set in ibverbs.c.
        let set = unsafe { self.control.get::<unsafe extern "C" fn(*const c_char, c_long)>("fake_set") };
        let set = set.expect("the fake exports fake_set");
        // SAFETY: the name is a C string that lives through the call.
        unsafe { set(name.as_ptr(), value) }
    }

    pub(crate) fn get(&self, name: &str) -> i64 {
        let name = CString::new(name).expect("no NUL");
        // SAFETY: the signature is that of fake_get in ibverbs.c.
        let get = unsafe { self.control.get::<unsafe extern "C" fn(*const c_char) -> c_long>("fake_get") };
        let get = get.expect("the fake exports fake_get");
        // SAFETY: the name is a C string that lives through the call.
        unsafe { get(name.as_ptr()) }
    }

    /// Raises an asynchronous event of a port, or of a queue pair where its number is not 0.
    pub(crate) fn raise(&self, kind: i32, port: i32, queue_pair: u32) {
        // SAFETY: the signature is that of fake_raise in ibverbs.c.
        let raise = unsafe { self.control.get::<unsafe extern "C" fn(c_int, c_int, c_uint)>("fake_raise") };
        let raise = raise.expect("the fake exports fake_raise");
        // SAFETY: plain numbers.
        unsafe { raise(kind, port, queue_pair) }
    }

    /// Connects two queue pairs as a driver does for the connection manager.
    pub(crate) fn join(&self, one: u32, other: u32) {
        // SAFETY: the signature is that of fake_join in queues.c.
        let join = unsafe { self.control.get::<unsafe extern "C" fn(c_uint, c_uint)>("fake_join") };
        let join = join.expect("the fake exports fake_join");
        // SAFETY: plain numbers.
        unsafe { join(one, other) }
    }

    /// Ends a connection that [`Fake::join`] made, on one side.
    pub(crate) fn part(&self, one: u32) {
        // SAFETY: the signature is that of fake_part in queues.c.
        let part = unsafe { self.control.get::<unsafe extern "C" fn(c_uint)>("fake_part") };
        let part = part.expect("the fake exports fake_part");
        // SAFETY: a plain number.
        unsafe { part(one) }
    }

    /// Every object was released, and none before its children.
    pub(crate) fn assert_nothing_left(&self) {
        assert_eq!(self.get("live"), 0, "objects left alive");
        assert_eq!(self.get("refused"), 0, "released before their children");
        assert_eq!(self.get("unacknowledged"), 0, "events not acknowledged");
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        // A file left behind in the target directory harms nobody.
        drop(std::fs::remove_file(&self.path));
    }
}

fn build(arguments: &[&str]) -> PathBuf {
    static SERIAL: AtomicU32 = AtomicU32::new(0);
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    let name = format!("fake-ibverbs-{}-{serial}.so", std::process::id());
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sys/tests/fake");
    let output = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-pthread", "-o"])
        .arg(&path)
        .args([sources.join("ibverbs.c"), sources.join("queues.c")])
        .args(arguments)
        .output()
        .expect("cc runs: a C compiler is needed for tests");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    path
}
