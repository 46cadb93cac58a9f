//! Holds what the program is built from to `deny.toml`: licences, doubled versions and sources, with no exception that nobody needs.
//!
//! Advisories need a database that is fetched: `cargo deny check` does that where it can be reached.

use rdmascope_tests::root;
use serde::Deserialize;
use spdx::{Expression, LicenseReq, ParseMode};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// Packages that name no licence but bring its text, with the text's first line.
const BY_TEXT: [(&str, &str); 1] = [("rdma-sys", "MIT License")];

#[derive(Deserialize)]
struct Rules {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
}

#[derive(Deserialize)]
struct Graph {
    targets: Vec<String>,
}

#[derive(Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
struct Bans {
    skip: Vec<Skip>,
}

/// An older version that may stand beside a newer one, as `name@version`.
#[derive(Deserialize)]
struct Skip {
    #[serde(rename = "crate")]
    package: String,
    reason: String,
}

impl Skip {
    /// Whether it means this package: the version may be short.
    fn means(&self, package: &Package) -> bool {
        self.package.split_once('@').is_some_and(|(name, version)| {
            name == package.name
                && package
                    .version
                    .strip_prefix(version)
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        })
    }
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    license_file: Option<String>,
    manifest_path: std::path::PathBuf,
    /// `None` for our own.
    source: Option<String>,
}

fn rules() -> Rules {
    let text = fs::read_to_string(root().join("deny.toml")).expect("deny.toml");
    toml::from_str(&text).expect("deny.toml")
}

/// Everything that is compiled for a target, ours left out.
fn packages(target: &str) -> Vec<Package> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["metadata", "--locked", "--format-version=1", "--all-features", "--filter-platform", target]);
    let output = cargo.current_dir(root()).output().expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Metadata = serde_json::from_slice(&output.stdout).expect("what cargo says");
    metadata.packages.into_iter().filter(|package| package.source.is_some()).collect()
}

/// What is wrong with a package's licence.
fn licence(package: &Package, rules: &Rules) -> Option<String> {
    let is_allowed = |requirement: &LicenseReq| rules.licenses.allow.contains(&requirement.to_string());
    let Some(expression) = &package.license else {
        let known = BY_TEXT.iter().find(|(name, _)| *name == package.name);
        let text = package.license_file.as_ref().map(|file| package.manifest_path.with_file_name(file));
        let text = text.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
        let fits = known.is_some_and(|(_, line)| text.lines().next() == Some(line));
        return (!fits).then(|| format!("{} names no licence", package.name));
    };
    match Expression::parse_mode(expression, ParseMode::LAX) {
        Ok(parsed) if parsed.evaluate(is_allowed) => None,
        Ok(_) => Some(format!("{}: {expression} is not allowed by deny.toml", package.name)),
        Err(error) => Some(format!("{}: {error}", package.name)),
    }
}

/// Versions that stand beside a newer one and that no exception means, and exceptions that mean none.
fn doubled(packages: &[Package], skips: &[Skip]) -> (Vec<String>, Vec<String>) {
    let mut by_name: BTreeMap<&str, Vec<&Package>> = BTreeMap::new();
    packages.iter().for_each(|package| by_name.entry(&package.name).or_default().push(package));
    let several = by_name.into_values().filter(|versions| versions.len() > 1);
    let (mut problems, mut used) = (Vec::new(), BTreeSet::new());
    for versions in several {
        let of_one = |package: &&Package| {
            let at = skips.iter().position(|skip| skip.means(package));
            used.extend(at);
            at.is_none()
        };
        let left: Vec<&Package> = versions.into_iter().filter(of_one).collect();
        if left.len() > 1 {
            problems.push(format!("{} in {} versions", left[0].name, left.len()));
        }
    }
    let unused = (0..skips.len()).filter(|at| !used.contains(at));
    (problems, unused.map(|at| skips[at].package.clone()).collect())
}

#[test]
fn licences_sources_and_doubled_versions_are_those_that_deny_toml_allows() {
    let rules = rules();
    assert!(rules.bans.skip.iter().all(|skip| !skip.reason.is_empty()));
    for target in &rules.graph.targets {
        let packages = packages(target);
        assert!(packages.len() > 100, "{target}: {} packages are not all", packages.len());
        let licences: Vec<String> = packages.iter().filter_map(|package| licence(package, &rules)).collect();
        assert!(licences.is_empty(), "{target}: {licences:#?}");
        let elsewhere: Vec<&str> = packages
            .iter()
            .filter(|package| {
                !package.source.as_deref().is_some_and(|source| source.starts_with("registry+"))
            })
            .map(|package| package.name.as_str())
            .collect();
        assert!(elsewhere.is_empty(), "{target}: not from the registry: {elsewhere:?}");
        assert_eq!(doubled(&packages, &rules.bans.skip), (Vec::new(), Vec::new()), "{target}");
    }
}

#[test]
fn a_licence_a_doubled_version_and_a_superfluous_exception_are_seen() {
    let rules = rules();
    let package = |name: &str, version: &str, license: Option<&str>| Package {
        name: name.to_owned(),
        version: version.to_owned(),
        license: license.map(str::to_owned),
        license_file: None,
        manifest_path: "Cargo.toml".into(),
        source: None,
    };
    let says = |license| licence(&package("some", "1.0.0", license), &rules);
    assert_eq!(says(Some("MIT OR GPL-3.0-only")), None);
    assert!(says(Some("MIT AND GPL-3.0-only")).unwrap().contains("not allowed"));
    assert!(says(Some("GPL-3.0-only")).is_some() && says(Some("MIT or so")).is_some());
    assert_eq!(says(None).unwrap(), "some names no licence");
    let skip = |package: &str| Skip { package: package.to_owned(), reason: String::new() };
    let both = [package("some", "1.2.0", None), package("some", "2.0.0", None)];
    assert_eq!(doubled(&both, &[]).0, ["some in 2 versions"]);
    assert_eq!(doubled(&both, &[skip("some@1")]), (Vec::new(), Vec::new()));
    assert_eq!(doubled(&both, &[skip("some@1.20")]).1, ["some@1.20"], "1.2 is not 1.20");
}
