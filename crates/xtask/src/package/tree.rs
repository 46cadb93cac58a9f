//! What both packages put on a machine, as a tree of files that is ready to be packed.

use super::{Source, epoch, shipped, write};
use crate::error::{Result, file, other};
use crate::process::{output, run};
use crate::workspace::root;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The one file that administrators edit, from the root of the tree.
pub(super) const CONFIG: &str = "etc/rdmascope/rdmascope.yaml";

/// Shell and where its completions go; zsh looks elsewhere on Debian than on others.
const SHELLS: [(&str, &str); 2] = [
    ("bash", "usr/share/bash-completion/completions/rdmascope"),
    ("fish", "usr/share/fish/vendor_completions.d/rdmascope.fish"),
];

/// Makes it below `work`; `zsh` is the folder of its completions, `changelog` the name of the packed changelog.
pub(super) fn make(source: &Source, work: &Path, zsh: &str, changelog: &str) -> Result<PathBuf> {
    let tree = work.join(format!("tree-of-{changelog}"));
    // What is left of an earlier package must not be in the next one.
    drop(fs::remove_dir_all(&tree));
    let at = |name: &str| -> Result<PathBuf> {
        let path = tree.join(name);
        let parent = path.parent().ok_or_else(|| other("a file without a folder"))?;
        fs::create_dir_all(parent).map_err(file("create", parent))?;
        Ok(path)
    };
    let copy = |from: &str, name: &str| -> Result<()> {
        let from = root().join(from);
        fs::copy(&from, at(name)?).map(drop).map_err(file("read", &from))
    };
    fs::copy(&source.binary, at("usr/bin/rdmascope")?).map_err(file("read", &source.binary))?;
    for role in ["agent", "coordinator"] {
        let unit = format!("rdmascope-{role}.service");
        copy(&format!("deploy/systemd/{unit}"), &format!("usr/lib/systemd/system/{unit}"))?;
    }
    for script in ["slurm-healthcheck", "slurm-prolog"] {
        copy(&format!("deploy/slurm/{script}"), &format!("usr/share/doc/rdmascope/slurm/{script}"))?;
    }
    copy("deploy/package/sysusers.conf", "usr/lib/sysusers.d/rdmascope.conf")?;
    copy("config/small.yaml", CONFIG)?;
    let examples = root().join("config");
    for entry in fs::read_dir(&examples).map_err(file("read", &examples))?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        copy(&format!("config/{name}"), &format!("usr/share/doc/rdmascope/examples/{name}"))?;
    }
    for (shell, name) in SHELLS.into_iter().chain([("zsh", format!("{zsh}/_rdmascope").as_str())]) {
        let mut command = Command::new(&source.binary);
        write(&at(name)?, output("completions", command.args(["completions", shell]))?)?;
    }
    let pages = at("usr/share/man/man1/x")?.with_file_name("");
    let mut manual = Command::new(&source.binary);
    output("the manual", manual.arg("man").arg(&pages).env("SOURCE_DATE_EPOCH", epoch(source)?))?;
    let mit =
        fs::read_to_string(root().join("LICENSE-MIT")).map_err(file("read", &root().join("LICENSE-MIT")))?;
    let mit = mit
        .lines()
        .skip(4)
        .map(|line| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") });
    let copyright = shipped("copyright")?.replace("@MIT@\n", &mit.collect::<String>());
    write(&at("usr/share/doc/rdmascope/copyright")?, copyright)?;
    let log = at(&format!("usr/share/doc/rdmascope/{changelog}"))?;
    write(&log, &source.changelog.text)?;
    // Without name and time inside, so that the same text gives the same bytes.
    let mut packed = Command::new("gzip");
    packed.args(["-9", "--no-name"]).arg(log);
    for page in fs::read_dir(&pages).map_err(file("read", &pages))?.flatten() {
        packed.arg(page.path());
    }
    run("gzip", &mut packed)?;
    let _ = fs::set_permissions(&tree, Permissions::from_mode(0o755));
    set_modes(&tree)?;
    Ok(tree)
}

/// 0755 for folders and the program, 0644 for all else, whatever the umask was.
pub(super) fn set_modes(folder: &Path) -> Result<()> {
    let set = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).map_err(file("change", path))
    };
    for path in files(folder)? {
        set(&path, if path.is_dir() || path.ends_with("usr/bin/rdmascope") { 0o755 } else { 0o644 })?;
    }
    Ok(())
}

/// Every folder and file below, parents first, in order.
pub(super) fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(folder).map_err(file("read", folder))?;
    let mut below: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    below.sort();
    for path in below {
        let is_folder = path.is_dir() && !path.is_symlink();
        found.push(path.clone());
        if is_folder {
            found.extend(files(&path)?);
        }
    }
    Ok(found)
}
