//! devlink's answers in a capture: text as `devlink health show`, `devlink dev info` and `devlink dev param show` print it.

use super::ENABLE_ROCE;
use crate::parse;
use crate::text::{self, parsed};
use crate::tree::Tree;
use rdmascope_model::{Devlink, HealthReporter, Reading};
use std::collections::BTreeMap;
use std::fmt::Write as _;

fn file(address: &str, name: &str) -> String {
    format!("rdmascope/devlink/{address}/{name}")
}

/// From `health` and `info`; a driver without versions leaves the latter out.
pub(super) fn from_files(tree: &Tree, address: &str) -> Reading<Devlink> {
    let reporters = match read(tree, address, "health", reporters) {
        Reading::Value(reporters) => reporters,
        Reading::Absent => return Reading::Absent,
        Reading::Failed(why) => return Reading::Failed(why),
    };
    match read(tree, address, "info", versions) {
        Reading::Value((running, stored)) => {
            Reading::Value(Devlink { reporters, running, stored, serial: None })
        }
        Reading::Absent => {
            let none = BTreeMap::new;
            Reading::Value(Devlink { reporters, running: none(), stored: none(), serial: None })
        }
        Reading::Failed(why) => Reading::Failed(why),
    }
}

/// From `params`.
pub(super) fn enable_roce(tree: &Tree, address: &str) -> Reading<bool> {
    read(tree, address, "params", switch)
}

/// The files of a capture, path and text; what could not be read is left out.
pub(crate) fn to_files(
    address: &str,
    devlink: &Reading<Devlink>,
    enable_roce: &Reading<bool>,
) -> Vec<(String, String)> {
    let switch = |on: &bool| {
        format!(
            "pci/{address}:\n  name {ENABLE_ROCE} type generic\n    values:\n      cmode driverinit value {on}\n"
        )
    };
    let health = text::file(devlink, |devlink| health_text(address, devlink));
    let info = text::file(devlink, |devlink| info_text(address, devlink));
    let params = text::file(enable_roce, switch);
    let files = [("health", health), ("info", info), ("params", params)];
    files.into_iter().filter_map(|(name, text)| Some((file(address, name), text?))).collect()
}

fn health_text(address: &str, devlink: &Devlink) -> String {
    let mut text = format!("pci/{address}:\n");
    let mut of = None;
    for reporter in &devlink.reporters {
        if reporter.port != of {
            let port = reporter.port.map(|port| format!("/{port}")).unwrap_or_default();
            let _ = writeln!(text, "pci/{address}{port}:");
            of = reporter.port;
        }
        let state = if reporter.in_error { "error" } else { "healthy" };
        let HealthReporter { name, errors, recoveries, .. } = reporter;
        let _ = writeln!(text, "  reporter {name}\n    state {state} error {errors} recover {recoveries}");
    }
    text
}

fn info_text(address: &str, devlink: &Devlink) -> String {
    let mut text = format!("pci/{address}:\n  versions:\n");
    for (title, versions) in [("running", &devlink.running), ("stored", &devlink.stored)] {
        let _ = writeln!(text, "      {title}:");
        for (name, version) in versions {
            let _ = writeln!(text, "        {name} {version}");
        }
    }
    text
}

/// The text of a file through its parser, if it is one: the tool begins with the device that it tells of.
fn read<T>(
    tree: &Tree,
    address: &str,
    name: &str,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Reading<T> {
    parsed(tree, &file(address, name), |text| match text.lines().next().and_then(heading) {
        Some(_) => parse(text),
        None => Err("it does not begin with a line such as 'pci/0000:3b:00.0:'".to_owned()),
    })
}

/// The port that a line such as `pci/0000:3b:00.0/65535:` names; `None` for any other line.
fn heading(line: &str) -> Option<Option<u32>> {
    let handle = line.strip_prefix("pci/")?.strip_suffix(':')?;
    Some(handle.split_once('/').and_then(|(_, port)| port.parse().ok()))
}

fn reporters(text: &str) -> Result<Vec<HealthReporter>, String> {
    let (mut port, mut name, mut found) = (None, None, Vec::new());
    for line in text.lines().map(str::trim) {
        if let Some(of) = heading(line) {
            port = of;
        } else if let Some(reporter) = line.strip_prefix("reporter ") {
            name = Some(parse::plain(reporter.trim())?);
        } else if line.starts_with("state ") {
            let words: Vec<&str> = line.split_whitespace().collect();
            let after =
                |key: &str| words.iter().position(|word| *word == key).and_then(|at| words.get(at + 1));
            let count = |key: &str| {
                after(key).ok_or(format!("a line of it has no '{key}'")).and_then(|word| parse::number(word))
            };
            found.push(HealthReporter {
                name: name.take().ok_or("a state in it belongs to no reporter")?,
                port,
                in_error: match words.get(1) {
                    Some(&"error") => true,
                    Some(&"healthy") => false,
                    _ => return Err("a state in it is neither 'healthy' nor 'error'".to_owned()),
                },
                // Behind the state, which may be the same word.
                errors: match words.get(2..4) {
                    Some(&["error", number]) => parse::number(number)?,
                    _ => return Err("a line of it has no 'error'".to_owned()),
                },
                recoveries: count("recover")?,
            });
        }
    }
    Ok(found)
}

type Versions = BTreeMap<String, String>;

fn versions(text: &str) -> Result<(Versions, Versions), String> {
    let (mut running, mut stored, mut section) = (Versions::new(), Versions::new(), "");
    for line in text.lines().map(str::trim) {
        let named = line.split_once(' ');
        match (line.strip_suffix(':'), section, named) {
            (Some(title), _, _) => section = title,
            (None, "running", Some((name, version))) => {
                running.insert(parse::plain(name)?, parse::plain(version.trim())?);
            }
            (None, "stored", Some((name, version))) => {
                stored.insert(parse::plain(name)?, parse::plain(version.trim())?);
            }
            _ => {}
        }
    }
    Ok((running, stored))
}

fn switch(text: &str) -> Result<bool, String> {
    let mut here = false;
    for line in text.lines().map(str::trim) {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["name", name, ..] => here = name == ENABLE_ROCE,
            ["cmode", "runtime" | "driverinit", "value", value, ..] if here => {
                return value.parse().map_err(|_| format!("{ENABLE_ROCE} is neither 'true' nor 'false'"));
            }
            _ => {}
        }
    }
    Err(format!("it has no {ENABLE_ROCE}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::Folder;

    const ADDRESS: &str = "0000:3b:00.0";

    fn reporter(
        name: &str,
        port: Option<u32>,
        in_error: bool,
        errors: u64,
        recoveries: u64,
    ) -> HealthReporter {
        HealthReporter { name: name.to_owned(), port, in_error, errors, recoveries }
    }

    fn written(devlink: &Reading<Devlink>, roce: &Reading<bool>) -> (Reading<Devlink>, Reading<bool>) {
        let folder = Folder::new();
        for (path, text) in to_files(ADDRESS, devlink, roce) {
            folder.write(&path, &text);
        }
        let tree = Tree::open(folder.path()).unwrap();
        (super::super::devlink(&tree, ADDRESS), super::super::enable_roce(&tree, ADDRESS))
    }

    #[test]
    fn what_is_written_is_read_again() {
        let version = |value: &str| Versions::from([("fw.version".to_owned(), value.to_owned())]);
        let full = Reading::Value(Devlink {
            reporters: vec![
                reporter("fw", None, false, 0, 0),
                reporter("fw_fatal", None, true, 3, 2),
                reporter("tx", Some(65_535), false, 12, 12),
                reporter("vnic", None, false, 0, 0),
            ],
            running: version("28.41.1000"),
            stored: version("28.43.2566"),
            serial: None,
        });
        for roce in [Reading::Value(true), Reading::Value(false), Reading::Absent] {
            assert_eq!(written(&full, &roce), (full.clone(), roce));
        }
        assert_eq!(written(&Reading::Absent, &Reading::Absent), (Reading::Absent, Reading::Absent));
        let none = written(&Reading::failed("EPERM"), &Reading::failed("EPERM"));
        assert!(matches!(none, (Reading::Failed(why), Reading::Failed(_)) if why.contains("health")));
    }

    #[test]
    fn what_devlink_prints_is_understood() {
        let health = "pci/0000:3b:00.0:\n  reporter fw\n    state healthy error 0 recover 0 auto_dump true\n  \
                      reporter fw_fatal\n    state error error 4 recover 3 grace_period 1200000 auto_recover true\n\
                      pci/0000:3b:00.0/65535:\n  reporter rx\n    state healthy error 1 recover 1 grace_period 500\n";
        assert_eq!(
            reporters(health),
            Ok(vec![
                reporter("fw", None, false, 0, 0),
                reporter("fw_fatal", None, true, 4, 3),
                reporter("rx", Some(65_535), false, 1, 1),
            ])
        );
        assert!(reporters("  reporter fw\n    state odd error 0 recover 0\n").is_err());
        assert!(reporters("    state healthy error 0 recover 0\n").is_err());
        assert!(reporters("  reporter fw\n    state healthy error x recover 0\n").is_err());
        let info = "pci/0000:3b:00.0:\n  driver mlx5_core\n  versions:\n      fixed:\n        fw.psid MT_0000000838\n      \
                    running:\n        fw.version 28.41.1000\n        fw 28.41.1000\n      stored:\n        fw 28.43.2566\n";
        let (running, stored) = versions(info).unwrap();
        assert_eq!(running.len(), 2);
        assert_eq!(running["fw.version"], "28.41.1000");
        assert_eq!(stored, Versions::from([("fw".to_owned(), "28.43.2566".to_owned())]));
        let params = "pci/0000:3b:00.0:\n  name enable_sriov type generic\n    values:\n      cmode permanent value true\n  \
                      name enable_roce type generic\n    values:\n      cmode driverinit value false\n";
        assert_eq!(switch(params), Ok(false));
        assert!(switch("name enable_rdma type generic\n").is_err());
    }
}
