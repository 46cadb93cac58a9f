//! Which crate may name which: the layers of `crates/README.md`, held against `cargo metadata` and the manifests.

use rdmascope_tests::root;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Layer of each package. A package may name only packages of lower layers in `[dependencies]`.
const LAYERS: [(&str, u8); 19] = [
    ("rdmascope-model", 0),
    ("rdmascope-sys", 0),
    // Names no workspace crate: it must run before the libraries that the others need are installed.
    ("rdmascope-xtask", 0),
    ("rdmascope-checks", 1),
    ("rdmascope-expose", 1),
    ("rdmascope-fixtures", 1),
    ("rdmascope-link", 1),
    ("rdmascope-localise", 1),
    ("rdmascope-probe", 1),
    ("rdmascope-config", 2),
    ("rdmascope-control", 2),
    ("rdmascope-host", 2),
    ("rdmascope-secure", 2),
    ("rdmascope-transport", 2),
    ("rdmascope-agent", 3),
    ("rdmascope-coordinator", 3),
    ("rdmascope-sim", 3),
    ("rdmascope-cli", 4),
    // Stands above all: it tests the whole.
    ("rdmascope-tests", 5),
];

/// Crates without I/O, clock and threads: they name only each other, and nothing that does I/O.
const PURE: [&str; 7] = [
    "rdmascope-model",
    "rdmascope-checks",
    "rdmascope-expose",
    "rdmascope-link",
    "rdmascope-localise",
    "rdmascope-probe",
    "rdmascope-control",
];

/// Outside packages that a pure crate must not name.
const IMPURE: [&str; 13] = [
    "axum",
    "hyper",
    "libc",
    "libloading",
    "mio",
    "nix",
    "rdma-sys",
    "rtnetlink",
    "rustix",
    "rustls",
    "tokio",
    "tokio-tungstenite",
    "ureq",
];

/// What each pure crate's `clippy.toml` must ban, at the least.
const BANS: [&str; 6] = [
    "std::time::Instant::now",
    "std::time::SystemTime::now",
    "std::fs::File",
    "std::thread::spawn",
    "std::net::TcpStream",
    "std::collections::HashMap",
];

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn layer(package: &str) -> Option<u8> {
    LAYERS.iter().find(|(name, _)| *name == package).map(|(_, layer)| *layer)
}

/// What is wrong with the edges between packages, in words.
fn edge_complaints(metadata: &Value) -> Vec<String> {
    let mut complaints = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let name = package["name"].as_str().expect("name");
        let Some(own) = layer(name) else {
            complaints.push(format!("{name} has no row in LAYERS: decide its layer first"));
            continue;
        };
        for dependency in package["dependencies"].as_array().expect("dependencies") {
            let on = dependency["name"].as_str().expect("name");
            let internal = on.starts_with("rdmascope");
            if name == "rdmascope-xtask" && internal {
                complaints.push(format!("{name} may name no workspace crate, not even for tests ({on})"));
            }
            if dependency["kind"] == "dev" {
                continue; // Tests may use anything.
            }
            if internal && layer(on).is_some_and(|other| other >= own) {
                complaints.push(format!("{name} (layer {own}) may name only lower layers, not {on}"));
            }
            let pure = PURE.contains(&name);
            if pure && (IMPURE.contains(&on) || internal && !PURE.contains(&on)) {
                complaints.push(format!("{name} is pure (no I/O, no clock) and may not name {on}"));
            }
        }
    }
    complaints
}

/// What is wrong with one manifest of a member.
fn manifest_complaints(name: &str, manifest: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    if !manifest.replace(' ', "").contains("[lints]\nworkspace=true") {
        complaints.push(format!("{name}: add `[lints]` with `workspace = true`"));
    }
    if !manifest.contains("version.workspace = true") {
        complaints
            .push(format!("{name}: take version, edition, rust-version and license from the workspace"));
    }
    let mut in_dependencies = false;
    for line in manifest.lines().map(str::trim) {
        if let Some(section) = line.strip_prefix('[') {
            in_dependencies = section.ends_with("dependencies]");
            if section.contains("dependencies.") {
                complaints.push(format!("{name}: write `{line}` on one line, with `workspace = true`"));
            }
        } else if in_dependencies
            && !line.is_empty()
            && !line.starts_with('#')
            && !line.contains("workspace = true")
        {
            complaints.push(format!("{name}: `{line}` must take its version from [workspace.dependencies]"));
        }
    }
    complaints
}

/// What is wrong with the `clippy.toml` of a pure crate, compared with that of `model`.
fn clippy_complaints(name: &str, text: Option<&str>, model: &str) -> Vec<String> {
    let Some(text) = text else {
        return vec![format!("{name} is pure: copy crates/model/clippy.toml into its folder")];
    };
    let mut complaints = Vec::new();
    if text != model {
        complaints.push(format!(
            "{name}: its clippy.toml differs from crates/model/clippy.toml; keep them the same"
        ));
    }
    for ban in BANS.iter().filter(|ban| !text.contains(&format!("\"{ban}\""))) {
        complaints.push(format!("{name}: its clippy.toml does not ban {ban}"));
    }
    complaints
}

/// Whether a source file switches the ban on `unsafe` off.
fn lifts_unsafe_ban(source: &str) -> bool {
    let attribute = |line: &str| line.trim_start().starts_with("#") && line.contains("unsafe_code");
    source.lines().any(attribute)
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for path in entries.map(|entry| entry.expect("entry").path()) {
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

fn none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn crates_name_only_lower_layers() {
    none(&edge_complaints(&metadata()));
}

#[test]
fn every_layer_row_is_a_crate() {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().expect("packages");
    for (name, _) in LAYERS {
        assert!(
            packages.iter().any(|package| package["name"] == *name),
            "{name} is gone: take its row out of LAYERS"
        );
    }
}

#[test]
fn manifests_follow_the_workspace() {
    let metadata = metadata();
    let mut complaints = Vec::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let path = package["manifest_path"].as_str().expect("manifest_path");
        complaints
            .extend(manifest_complaints(package["name"].as_str().expect("name"), &read(Path::new(path))));
    }
    none(&complaints);
}

#[test]
fn pure_crates_ban_io_and_clock() {
    let crates = root().join("crates");
    let model = read(&crates.join("model/clippy.toml"));
    let mut complaints = Vec::new();
    for name in PURE {
        let folder = name.strip_prefix("rdmascope-").expect("prefix");
        let text = std::fs::read_to_string(crates.join(folder).join("clippy.toml")).ok();
        complaints.extend(clippy_complaints(name, text.as_deref(), &model));
    }
    none(&complaints);
}

#[test]
fn unsafe_is_allowed_in_sys_alone() {
    assert!(read(&root().join("Cargo.toml")).contains("unsafe_code = \"deny\""));
    let (mut files, sys) = (Vec::new(), root().join("crates/sys"));
    sources(&root().join("crates"), &mut files);
    sources(&root().join("tests"), &mut files);
    for file in files.iter().filter(|file| !file.starts_with(&sys)) {
        assert!(!lifts_unsafe_ban(&read(file)), "{}: unsafe code belongs into crates/sys", file.display());
    }
}

#[test]
fn each_rule_can_fail() {
    let graph = |name: &str, on: &str, kind: Value| {
        let dependency = serde_json::json!({"name": on, "kind": kind});
        edge_complaints(&serde_json::json!({"packages": [{"name": name, "dependencies": [dependency]}]}))
    };
    let lines = |name: &str, on: &str| graph(name, on, Value::Null).len();
    assert_eq!(
        graph("rdmascope-new", "serde", Value::Null),
        ["rdmascope-new has no row in LAYERS: decide its layer first"]
    );
    assert_eq!(lines("rdmascope-host", "rdmascope-agent"), 1, "upwards");
    assert_eq!(lines("rdmascope-agent", "rdmascope-coordinator"), 1, "sideways");
    assert_eq!(lines("rdmascope-probe", "rdmascope-sys"), 1, "pure crate on an impure one");
    assert_eq!(lines("rdmascope-control", "tokio"), 1, "pure crate on a runtime");
    assert_eq!(graph("rdmascope-xtask", "rdmascope-model", "dev".into()).len(), 1);
    assert_eq!(lines("rdmascope-agent", "rdmascope-host"), 0);
    assert_eq!(lines("rdmascope-host", "rustix"), 0);
    assert_eq!(graph("rdmascope-probe", "rdmascope-sim", "dev".into()).len(), 0, "tests may use anything");

    let good = "[package]\nversion.workspace = true\n[lints]\nworkspace = true\n[dependencies]\n# x\nserde.workspace = true\n";
    assert_eq!(manifest_complaints("x", good), Vec::<String>::new());
    assert_eq!(manifest_complaints("x", &good.replace("[lints]", "[other]")).len(), 1);
    assert_eq!(
        manifest_complaints("x", &good.replace("version.workspace = true", "version = \"1\"")).len(),
        1
    );
    assert_eq!(manifest_complaints("x", &good.replace("serde.workspace = true", "serde = \"1\"")).len(), 1);
    assert_eq!(
        manifest_complaints("x", &format!("{good}[dev-dependencies.tokio]\nversion = \"1\"\n")).len(),
        1
    );

    let bans = BANS.map(|ban| format!("{{ path = \"{ban}\" }}")).join("\n");
    assert_eq!(clippy_complaints("x", Some(&bans), &bans), Vec::<String>::new());
    assert_eq!(clippy_complaints("x", None, &bans).len(), 1);
    assert_eq!(clippy_complaints("x", Some("# empty"), "# empty").len(), BANS.len());
    assert_eq!(clippy_complaints("x", Some(&format!("{bans}\n")), &bans).len(), 1);

    let lint = "unsafe_code";
    assert!(lifts_unsafe_ban(&format!("#![allow({lint}, reason = \"x\")]\n")));
    assert!(!lifts_unsafe_ban("// unsafe_code is denied\n"));
}
