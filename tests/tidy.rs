//! Rules of the house that the compiler does not know; each can be seen to fail at the end of this file.

use rdmascope_tests::root;
use std::path::Path;

/// Lines of a source file before its tests.
const CODE_LINES_MAX: usize = 400;

/// Lines of a source file in all.
const FILE_LINES_MAX: usize = 600;

/// Files that may start tasks or threads, each with the reason. Everywhere else a task that nobody counts, stops and
/// waits for is a leak. A line looks like this:
///
/// `("crates/agent/src/main_loop.rs", "starts all tasks of the agent, under the diagram of its channels"),`
const MAY_SPAWN: &[(&str, &str)] = &[
    (
        "crates/agent/src/local.rs",
        "one task for each connection to the local socket, at most 16, which end with the agent",
    ),
    (
        "crates/agent/src/machine/mod.rs",
        "reads of the machine may block in the kernel, and the one thread must not",
    ),
    ("crates/agent/src/main_loop.rs", "the agent's tasks, started in one place under the diagram of lib.rs"),
    ("crates/cli/src/reload.rs", "files that are read again may lie on a slow disk"),
    (
        "crates/cli/src/selfcheck/own.rs",
        "the coordinator of a self-check and who listens for signals, beside the thread that tests",
    ),
    ("crates/cli/src/simulate/swarm.rs", "all simulated agents, beside the thread that measures"),
    ("crates/coordinator/src/lib.rs", "the coordinator's tasks, started in one place"),
    ("crates/coordinator/src/maintenance.rs", "the file of nodes in maintenance may lie on a slow disk"),
    ("crates/coordinator/src/findings.rs", "old history is read from the disk, which may be slow"),
    ("crates/coordinator/src/store.rs", "the one writer of the history: the disk may be slow"),
    ("crates/coordinator/src/snapshot.rs", "the disk may be slow, and the one thread must not be"),
    ("crates/host/src/crew.rs", "drivers may block in the kernel: whoever hangs there must keep nobody else"),
    ("crates/host/src/rtnl/events.rs", "a netlink connection is a task of its own by rtnetlink's design"),
    ("crates/host/src/rtnl/mod.rs", "a netlink connection is a task of its own by rtnetlink's design"),
    ("crates/host/src/snapshot.rs", "a part of the machine that hangs in the kernel costs only itself"),
    ("crates/secure/src/server.rs", "one task for each connection, all of which the server waits for"),
    ("crates/secure/src/tls.rs", "certificates may lie on a slow disk"),
    ("crates/sim/src/bin/faults/main.rs", "runs of the fault suite, on all processors at once"),
    ("crates/transport/src/mesh/helper.rs", "calls of one endpoint that may block in the kernel"),
    ("crates/transport/src/mesh/mod.rs", "the one poller of all endpoints of the mesh"),
    (
        "crates/transport/src/verbs/keeper.rs",
        "watches for removed devices while the endpoint's thread is busy or stuck",
    ),
    ("crates/transport/src/worker/thread.rs", "the one thread of an endpoint"),
    ("crates/xtask/src/lab/machine.rs", "reads three ports of the virtual machine at once"),
    ("crates/xtask/src/process.rs", "takes signals while a child runs"),
    ("tests/cli/harness.rs", "kills a command that does not end; answers in place of a coordinator"),
    ("tests/src/swarm.rs", "many agents need a runtime beside the test's own thread"),
];

/// Where a path below the kernel's file systems may be spelt out; everything else takes readings.
const MAY_NAME_KERNEL_PATHS: [&str; 6] =
    ["crates/host/", "crates/sys/", "crates/transport/", "crates/fixtures/", "crates/xtask/", "tests/"];

/// Ways to start something that runs on its own.
const SPAWNS: [&str; 8] = [
    "tokio::spawn(",
    "task::spawn(",
    "spawn_blocking(",
    "spawn_local(",
    "thread::spawn(",
    "thread::scope(",
    "thread::Builder",
    "JoinSet",
];

/// Queues without a bound.
const UNBOUNDED: [&str; 3] = ["unbounded_channel", "mpsc::unbounded(", "mpsc::channel()"];

/// Kinds of files that people read.
const TEXT: [&str; 12] =
    ["rs", "md", "yaml", "yml", "toml", "sh", "service", "html", "js", "css", "json", "proto"];

/// One file: its path from the root, with `/`, and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The part before the file's own tests; nothing of a file that is a test as a whole.
    fn code(&self) -> &str {
        if self.is_test() {
            return "";
        }
        let inline_tests = |&(at, marker): &(usize, &str)| {
            let below = self.text.get(at + marker.len()..).unwrap_or_default().trim_start();
            below.starts_with("mod ") && below.lines().next().is_some_and(|line| line.ends_with('{'))
        };
        let tests = self.text.match_indices("#[cfg(test)]").find(inline_tests);
        tests.and_then(|(at, _)| self.text.get(..at)).unwrap_or(&self.text)
    }

    fn is_test(&self) -> bool {
        let test_module = self.path.ends_with("/tests.rs") || self.path.ends_with("_tests.rs");
        test_module || self.path.starts_with("tests/") || self.path.contains("/tests/")
    }

    /// Lines of code that hold the needle outside comments, with their numbers.
    fn lines_with<'s>(&'s self, needle: &'s str) -> impl Iterator<Item = usize> + 's {
        let lines = self.code().lines().enumerate();
        let hits =
            lines.filter(move |(_, line)| line.contains(needle) && !line.trim_start().starts_with("//"));
        hits.map(|(index, _)| index + 1)
    }
}

type Rule = fn(&Source) -> Vec<String>;

/// Rules of Rust files.
const RUST_RULES: [Rule; 7] = [
    opens_with_why,
    is_short,
    ignores_with_reason,
    spawns_where_allowed,
    names_no_kernel_path,
    bounds_queues,
    leaves_the_revision_to_the_binary,
];

fn opens_with_why(file: &Source) -> Vec<String> {
    let first = file.text.lines().next().unwrap_or_default();
    let good = first.strip_prefix("//! ").is_some_and(|why| why.len() > 10);
    complaint(!good, || "line 1 must be `//! ` and one sentence that says why this file exists".to_owned())
}

fn is_short(file: &Source) -> Vec<String> {
    let (code, all) = (file.code().lines().count(), file.text.lines().count());
    let mut complaints =
        complaint(code > CODE_LINES_MAX, || format!("{code} lines before its tests: split at 400"));
    complaints.extend(complaint(all > FILE_LINES_MAX, || format!("{all} lines: split at 600")));
    complaints
}

fn ignores_with_reason(file: &Source) -> Vec<String> {
    let bare = concat!("#[", "ignore]");
    complaint(file.text.contains(bare), || {
        format!("`{bare}` needs a reason: #[ignore = \"why, and who runs it\"]")
    })
}

fn spawns_where_allowed(file: &Source) -> Vec<String> {
    if MAY_SPAWN.iter().any(|(path, _)| *path == file.path) {
        return Vec::new();
    }
    let hits = SPAWNS.iter().flat_map(|needle| file.lines_with(needle).map(move |line| (line, needle)));
    hits.map(|(line, needle)| {
        format!(
            "line {line}: `{needle}` only in the files of MAY_SPAWN (tests/tidy.rs); add yours with a reason"
        )
    })
    .collect()
}

fn names_no_kernel_path(file: &Source) -> Vec<String> {
    if MAY_NAME_KERNEL_PATHS.iter().any(|folder| file.path.starts_with(folder)) {
        return Vec::new();
    }
    let lines = file.code().lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
    let hits = lines.filter(|(_, line)| line.split('"').skip(1).step_by(2).any(is_kernel_path));
    hits.map(|(index, _)| {
        format!("line {}: only crates/host, sys and transport open kernel paths", index + 1)
    })
    .collect()
}

/// A text for people may well begin with a path; a path has no space in it.
fn is_kernel_path(literal: &str) -> bool {
    let first = literal.strip_prefix('/').and_then(|rest| rest.split('/').next());
    first.is_some_and(|folder| ["sys", "proc", "dev"].contains(&folder)) && !literal.contains(' ')
}

fn bounds_queues(file: &Source) -> Vec<String> {
    let hits = UNBOUNDED.iter().flat_map(|needle| file.lines_with(needle).map(move |line| (line, needle)));
    hits.map(|(line, needle)| {
        format!("line {line}: `{needle}` has no bound; use a bounded queue and count drops")
    })
    .collect()
}

/// Whatever is compiled with the revision is compiled again for every commit, and so is all that stands above it.
fn leaves_the_revision_to_the_binary(file: &Source) -> Vec<String> {
    let may = ["crates/cli/", "crates/xtask/"].iter().any(|folder| file.path.starts_with(folder));
    let hits = file.lines_with("\"RDMASCOPE_REVISION\"").filter(|_| !may);
    hits.map(|line| {
        format!("line {line}: only crates/cli is compiled with the revision; others are told it at the start")
    })
    .collect()
}

/// Rule of all text files.
fn speaks_of_itself_alone(file: &Source) -> Vec<String> {
    // Put together here, so that this file passes its own rule.
    let workplace = concat!("/wo", "rk/");
    let later = concat!("TO", "DO");
    let mut complaints = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        let number = index + 1;
        complaints.extend(complaint(line.contains(workplace), || {
            format!("line {number}: an absolute path of one machine ({workplace})")
        }));
        complaints.extend(complaint(line.contains(later), || {
            format!("line {number}: {later}: do it, or file an issue")
        }));
    }
    complaints
}

/// Rule of shell scripts: after the interpreter, why this script exists.
fn script_says_why(file: &Source) -> Vec<String> {
    let why = file.text.lines().find(|line| !line.starts_with("#!")).unwrap_or_default();
    complaint(!why.starts_with("# "), || {
        "start with a `# ` comment that says why this script exists".to_owned()
    })
}

/// Rule of `crates/README.md`.
fn map_names(map: &str, folders: &[String]) -> Vec<String> {
    let missing = folders.iter().filter(|folder| !map.contains(&format!("`{folder}`")));
    missing.map(|folder| format!("crates/README.md: add a line about `{folder}` to the map")).collect()
}

fn complaint(wrong: bool, text: impl FnOnce() -> String) -> Vec<String> {
    if wrong { vec![text()] } else { Vec::new() }
}

/// All text files of the repository, in order; build output and hidden folders of tools are left out.
fn files() -> Vec<Source> {
    let (root, mut found) = (root(), Vec::new());
    walk(&root, &root, &mut found);
    found.sort_by(|a, b| a.path.cmp(&b.path));
    assert!(found.len() > 20, "found only {} files below {}", found.len(), root.display());
    found
}

fn walk(root: &Path, folder: &Path, found: &mut Vec<Source>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for path in entries.map(|entry| entry.expect("entry").path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let kind = path.extension().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !["target", ".git", "node_modules"].contains(&name.as_str()) {
                walk(root, &path, found);
            }
        } else if TEXT.contains(&kind.as_str()) {
            // A file may vanish between the listing and here: an editor's, for one.
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            let path = path.strip_prefix(root).expect("below the root").to_string_lossy().replace('\\', "/");
            found.push(Source { path, text });
        }
    }
}

#[track_caller]
fn hold(rules: &[Rule], matches: impl Fn(&Source) -> bool) {
    let mut complaints = Vec::new();
    for file in files().iter().filter(|file| matches(file)) {
        for rule in rules {
            complaints.extend(rule(file).into_iter().map(|complaint| format!("{}: {complaint}", file.path)));
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn rust_files_keep_the_rules() {
    hold(&RUST_RULES, |file| file.path.ends_with(".rs"));
}

#[test]
fn no_file_speaks_of_one_machine_or_of_later() {
    hold(&[speaks_of_itself_alone], |_| true);
}

#[test]
fn scripts_say_why() {
    hold(&[script_says_why], |file| file.path.ends_with(".sh"));
}

#[test]
fn the_map_names_every_crate() {
    let crates = root().join("crates");
    let entries = std::fs::read_dir(&crates).expect("crates/");
    let folders: Vec<String> = entries
        .map(|entry| entry.expect("entry"))
        .filter(|entry| entry.path().is_dir())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    let map = std::fs::read_to_string(crates.join("README.md")).unwrap_or_default();
    let complaints = map_names(&map, &folders);
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn files_that_may_spawn_exist_and_say_why() {
    for (path, reason) in MAY_SPAWN {
        assert!(root().join(path).is_file(), "{path} is gone: take it out of MAY_SPAWN");
        assert!(reason.len() > 10, "{path}: say why it may");
    }
}

#[test]
fn each_rule_can_fail() {
    let at = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let code = |text: &str| at("crates/agent/src/x.rs", text);
    let count = |rule: Rule, file: Source| rule(&file).len();

    assert_eq!(count(opens_with_why, code("//! Says why it exists.\n")), 0);
    assert_eq!(count(opens_with_why, code("\n//! Says why it exists.\n")), 1);
    assert_eq!(count(opens_with_why, code("//!\n//! Says why.\n")), 1);

    assert_eq!(count(is_short, code(&"x\n".repeat(400))), 0);
    assert_eq!(count(is_short, code(&"x\n".repeat(401))), 1);
    let tested = |tests| "x\n".repeat(398) + "#[cfg(test)]\nmod tests {\n" + &"y\n".repeat(tests);
    assert_eq!((count(is_short, code(&tested(200))), count(is_short, code(&tested(201)))), (0, 1));
    let declared = "#[cfg(test)]\nmod tests;\n".to_owned() + &"x\n".repeat(399);
    assert_eq!(count(is_short, code(&declared)), 1, "a test module that is only declared ends no code");
    assert_eq!(count(is_short, at("crates/agent/src/lease_tests.rs", &"x\n".repeat(600))), 0);
    assert_eq!(count(is_short, at("crates/agent/tests/x.rs", &"x\n".repeat(600))), 0);
    assert_eq!(count(is_short, at("tests/x.rs", &"x\n".repeat(601))), 1);

    let bare = concat!("#[", "ignore]\nfn x() {}\n");
    assert_eq!(count(ignores_with_reason, code(bare)), 1);
    assert_eq!(count(ignores_with_reason, code("#[ignore = \"needs a second machine\"]\n")), 0);

    for bad in
        ["tokio::spawn(x);", "std::thread::spawn(|| 1);", "thread::Builder::new()", "spawn_blocking(f)"]
    {
        assert_eq!(count(spawns_where_allowed, code(bad)), 1, "{bad}");
        assert_eq!(
            count(spawns_where_allowed, code(&format!("#[cfg(test)]\nmod tests {{\n{bad}"))),
            0,
            "in a test: {bad}"
        );
        assert_eq!(count(spawns_where_allowed, code(&format!("// {bad}"))), 0, "in a comment: {bad}");
    }

    for bad in ["read(\"/sys/class\")", "\"/proc\"", "b\"/dev/infiniband\""] {
        assert_eq!(count(names_no_kernel_path, code(bad)), 1, "{bad}");
        assert_eq!(count(names_no_kernel_path, at("crates/host/src/x.rs", bad)), 0, "{bad}");
    }
    for text in
        ["\"nothing in /dev/infiniband: is the driver loaded?\"", "\"/sys/class is empty\"", "\"/system\""]
    {
        assert_eq!(count(names_no_kernel_path, code(text)), 0, "{text}");
    }

    for bad in ["mpsc::unbounded_channel()", "std::sync::mpsc::channel()"] {
        assert_eq!(count(bounds_queues, code(bad)), 1, "{bad}");
    }
    assert_eq!(count(bounds_queues, code("mpsc::channel(64)")), 0);

    let compiled = "option_env!(\"RDMASCOPE_REVISION\")";
    assert_eq!(count(leaves_the_revision_to_the_binary, code(compiled)), 1);
    assert_eq!(count(leaves_the_revision_to_the_binary, at("crates/cli/src/x.rs", compiled)), 0);

    let told = at("a.md", concat!("see /wo", "rk/x\nTO", "DO: more\n"));
    assert_eq!(speaks_of_itself_alone(&told).len(), 2);
    assert_eq!(count(script_says_why, at("a.sh", "#!/bin/sh\nset -e\n")), 1);
    assert_eq!(count(script_says_why, at("a.sh", "#!/bin/sh\n# Boots the lab.\n")), 0);

    let folders = ["host".to_owned(), "sys".to_owned()];
    assert_eq!(
        map_names("| `host` | reads |", &folders),
        ["crates/README.md: add a line about `sys` to the map"]
    );
}
