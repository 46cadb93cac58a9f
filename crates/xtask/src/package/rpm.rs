//! The .rpm, by rpmbuild from a spec that copies a tree: it finds by itself what the program is linked with.

use super::tree::{self, CONFIG};
use super::{Source, epoch, shipped, write};
use crate::error::{Result, other};
use crate::process::run;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders that go with the package: its own, and those of shells, which it shares with whoever else has completions there.
const OWN_FOLDERS: [&str; 9] = [
    "etc/rdmascope",
    "usr/share/bash-completion",
    "usr/share/bash-completion/completions",
    "usr/share/doc/rdmascope",
    "usr/share/doc/rdmascope/examples",
    "usr/share/fish",
    "usr/share/fish/vendor_completions.d",
    "usr/share/zsh",
    "usr/share/zsh/site-functions",
];

/// Makes it below `work` and puts it into `target`.
pub(super) fn build(source: &Source, release: u32, work: &Path, target: &Path) -> Result<PathBuf> {
    let tree = tree::make(source, work, "usr/share/zsh/site-functions", "changelog")?;
    pack(source, release, &tree, work, target)
}

/// Packs a tree that is ready.
pub(super) fn pack(
    source: &Source,
    release: u32,
    tree: &Path,
    work: &Path,
    target: &Path,
) -> Result<PathBuf> {
    let (date, lines) = (&source.changelog.date, source.changelog.lines());
    // Mon, 30 Nov 2026 12:00:00 +0000: rpm wants Mon Nov 30 2026.
    let words: Vec<&str> = date.split([',', ' ']).filter(|word| !word.is_empty()).collect();
    let [day, number, month, year, ..] = words[..] else {
        return Err(other(format!("the date of the changelog cannot be read: {date}")));
    };
    let entry = lines.map(|line| line.replacen('*', "-", 1)).collect::<Vec<_>>().join("\n  ");
    let changes = format!(
        "* {day} {month} {number} {year} The rdmascope authors <authors@rdmascope.invalid> - {}\n{entry}",
        source.full(release)
    );
    let spec = work.join("rdmascope.spec");
    let filled = shipped("rdmascope.spec")?
        .replace("@VERSION@", &source.version)
        .replace("@RELEASE@", &release.to_string())
        .replace("@TREE@", &tree.to_string_lossy())
        .replace("@FILES@", &list(tree)?)
        .replace("@CHANGELOG@", &changes);
    write(&spec, filled)?;
    let name = format!("rdmascope-{}.{}.rpm", source.full(release), std::env::consts::ARCH);
    let define = |name: &str, value: &Path| format!("--define={name} {}", value.display());
    let mut command = Command::new("rpmbuild");
    command.args(["-bb", "--quiet", "--define=use_source_date_epoch_as_buildtime 1"]);
    command.args([define("_topdir", &work.join("rpmbuild")), define("_rpmdir", target)]);
    command.arg("--define=_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm").arg(&spec);
    run("rpmbuild", command.env("SOURCE_DATE_EPOCH", epoch(source)?).stdout(std::io::stderr()))?;
    let package = target.join(name);
    if package.is_file() {
        Ok(package)
    } else {
        Err(other(format!("rpmbuild made no {}", package.display())))
    }
}

/// Every file, and the folders that go with the package.
fn list(tree: &Path) -> Result<String> {
    let mut lines = String::from("%defattr(-,root,root,-)\n");
    for path in tree::files(tree)? {
        let name = path.strip_prefix(tree).unwrap_or(&path).to_string_lossy().into_owned();
        if path.is_dir() {
            lines +=
                &if OWN_FOLDERS.contains(&name.as_str()) { format!("%dir /{name}\n") } else { String::new() };
        } else if name == CONFIG {
            lines += &format!("%config(noreplace) /{name}\n");
        } else {
            lines += &format!("/{name}\n");
        }
    }
    Ok(lines)
}
