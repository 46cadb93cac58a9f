//! The small file system that the guest's kernel starts from: busybox, the drivers of the shares, one script.

use super::kernel::system_tool;
use crate::error::{Result, file, other};
use crate::process::{TemporaryFolder, output, run};
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

const INIT: &str = include_str!("init.sh");
/// What stands between the kernel and the host's root and ports; all else is loaded from the share.
const MODULES: &[&str] = &["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "virtio_net"];
const FOLDERS: &[&str] = &["bin", "dev", "proc", "sys", "modules", "newroot"];
const PROGRAMS: &[&str] = &["sh", "cat", "chmod", "insmod", "ln", "mkdir", "mount", "switch_root"];

/// The file for this kernel and this version of the script; built when it is not there yet.
pub(crate) fn prepare(kernel: &Path, version: &str) -> Result<PathBuf> {
    let mut hasher = DefaultHasher::new();
    (INIT, MODULES, PROGRAMS).hash(&mut hasher);
    let target = kernel.join(format!("initramfs-{:016x}", hasher.finish()));
    if target.exists() {
        return Ok(target);
    }
    let temporary = TemporaryFolder::create(kernel, "unfinished")?;
    let tree = temporary.path().join("tree");
    for folder in FOLDERS {
        let folder = tree.join(folder);
        fs::create_dir_all(&folder).map_err(file("create", &folder))?;
    }
    add_programs(&tree)?;
    add_modules(&tree, kernel, version)?;
    let archive = temporary.path().join("archive");
    let stdout = fs::File::create(&archive).map_err(file("create", &archive))?;
    let mut pack = Command::new("sh");
    pack.args(["-c", "find . | cpio --quiet -o -H newc"]).current_dir(&tree).stdout(stdout);
    run("packing the first file system", &mut pack)?;
    // Renamed when complete: another run may boot from the same cache at this moment.
    fs::rename(&archive, &target).map_err(file("create", &target))?;
    Ok(target)
}

fn add_programs(tree: &Path) -> Result<()> {
    let busybox = ["/bin/busybox", "/usr/bin/busybox"]
        .iter()
        .map(Path::new)
        .find(|path| path.exists())
        .ok_or_else(|| other("busybox is not installed (package busybox-static)"))?;
    let copy = tree.join("bin/busybox");
    fs::copy(busybox, &copy).map_err(file("create", &copy))?;
    for program in PROGRAMS {
        let link = tree.join("bin").join(program);
        symlink("busybox", &link).map_err(file("create", &link))?;
    }
    let init = tree.join("init");
    fs::write(&init, INIT).map_err(file("write", &init))?;
    fs::set_permissions(&init, fs::Permissions::from_mode(0o755)).map_err(file("write", &init))
}

fn add_modules(tree: &Path, kernel: &Path, version: &str) -> Result<()> {
    let mut order = Vec::new();
    for module in MODULES {
        let mut command = system_tool("modprobe");
        command.arg("-d").arg(kernel).args(["-S", version, "--show-depends", module]);
        for path in modules_in(&output("looking for kernel modules", &mut command)?) {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if !order.contains(&name) {
                let copy = tree.join("modules").join(&name);
                fs::copy(&path, &copy).map_err(file("create", &copy))?;
                order.push(name);
            }
        }
    }
    let list = tree.join("modules/order");
    fs::write(&list, order.join("\n") + "\n").map_err(file("write", &list))
}

/// The files in modprobe's `insmod PATH` lines, which come in the order in which they must be loaded.
fn modules_in(listing: &str) -> Vec<PathBuf> {
    listing.lines().filter_map(|line| line.strip_prefix("insmod ")).map(|path| path.trim().into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_drivers_need_no_file_and_the_order_is_kept() {
        let listing = "builtin crc16\ninsmod /k/virtio_ring.ko \ninsmod /k/virtio.ko\n";
        assert_eq!(modules_in(listing), [PathBuf::from("/k/virtio_ring.ko"), PathBuf::from("/k/virtio.ko")]);
    }
}
