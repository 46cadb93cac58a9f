//! The .deb, by dpkg-deb alone: a tree, a control file, and scripts where a package needs them.

use super::tree::{self, CONFIG};
use super::{Source, epoch, shipped, write};
use crate::error::{Result, file, other};
use crate::process::{output, run};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Makes it below `work` and puts it into `target`.
pub(super) fn build(source: &Source, release: u32, work: &Path, target: &Path) -> Result<PathBuf> {
    let tree = tree::make(source, work, "usr/share/zsh/vendor-completions", "changelog.Debian")?;
    let overrides = tree.join("usr/share/lintian/overrides");
    fs::create_dir_all(&overrides).map_err(file("create", &overrides))?;
    write(&overrides.join("rdmascope"), shipped("lintian-overrides")?)?;
    tree::set_modes(&tree)?;
    pack(source, release, &tree, target)
}

/// Packs a tree that is ready.
pub(super) fn pack(source: &Source, release: u32, tree: &Path, target: &Path) -> Result<PathBuf> {
    let architecture = output("asking dpkg", Command::new("dpkg").arg("--print-architecture"))?;
    let architecture = architecture.trim();
    let control = tree.join("DEBIAN");
    drop(fs::remove_dir_all(&control));
    let bytes: u64 =
        tree::files(tree)?.iter().filter_map(|path| path.metadata().ok()).map(|of| of.len()).sum();
    let filled = shipped("control")?
        .replace("@VERSION@", &source.full(release))
        .replace("@ARCHITECTURE@", architecture)
        .replace("@KIBIBYTES@", &bytes.div_ceil(1024).to_string())
        .replace("@LIBC@", &libc_wanted(&source.binary)?);
    let sums = sums(tree)?;
    fs::create_dir(&control).map_err(file("create", &control))?;
    write(&control.join("control"), filled)?;
    write(&control.join("conffiles"), format!("/{CONFIG}\n"))?;
    write(&control.join("md5sums"), sums)?;
    for script in ["postinst", "prerm", "postrm"] {
        let path = control.join(script);
        write(&path, shipped(script)?)?;
        fs::set_permissions(&path, Permissions::from_mode(0o755)).map_err(file("change", &path))?;
    }
    let package = target.join(format!("rdmascope_{}_{architecture}.deb", source.full(release)));
    let mut pack = Command::new("dpkg-deb");
    pack.args(["--root-owner-group", "--build"]).arg(tree).arg(&package);
    run("dpkg-deb", pack.env("SOURCE_DATE_EPOCH", epoch(source)?).stdout(std::io::stderr()))?;
    Ok(package)
}

/// What dpkg --verify compares with.
fn sums(tree: &Path) -> Result<String> {
    let mut command = Command::new("md5sum");
    command.current_dir(tree);
    for path in tree::files(tree)?.iter().filter(|path| path.is_file() && !path.ends_with(CONFIG)) {
        command.arg(path.strip_prefix(tree).unwrap_or(path));
    }
    output("md5sum", &mut command)
}

/// The C library that the program asks for: a package built on a newer system says so before it is installed.
fn libc_wanted(binary: &Path) -> Result<String> {
    let symbols = output("objdump", Command::new("objdump").arg("-T").arg(binary))?;
    let newest = symbols.split("(GLIBC_").skip(1).filter_map(|rest| version(rest.split(')').next()?)).max();
    let newest =
        newest.ok_or_else(|| other("the program asks for no C library: is it the release build?"))?;
    Ok(newest.iter().map(u32::to_string).collect::<Vec<_>>().join("."))
}

fn version(text: &str) -> Option<Vec<u32>> {
    text.split('.').map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::version;

    #[test]
    fn versions_compare_by_number() {
        assert!(version("2.9") < version("2.34") && version("2.2.5") < version("2.34"));
        assert_eq!(version("PRIVATE"), None);
    }
}
