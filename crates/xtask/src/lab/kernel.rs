//! The guest's kernel: Debian's generic one, unpacked into a cache and never installed on this machine.

use super::initramfs;
use crate::error::{Result, file, other};
use crate::install::apt_get;
use crate::process::{TemporaryFolder, output, run};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

const META_PACKAGE: &str = "linux-image-amd64";
const FOLDER_PREFIX: &str = "kernel-";

/// A kernel that is ready to boot.
pub(crate) struct Kernel {
    /// Folder with `lib/modules/VERSION`.
    pub(crate) root: PathBuf,
    /// Image that QEMU starts.
    pub(crate) image: PathBuf,
    /// Its version, such as `6.1.0-57-amd64`.
    pub(crate) version: String,
    /// File system that the kernel starts from.
    pub(crate) initramfs: PathBuf,
}

/// The folder that survives between runs: `$RDMASCOPE_CACHE`, else `rdmascope` in the user's cache folder.
pub(crate) fn cache() -> Result<PathBuf> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let path = variable("RDMASCOPE_CACHE")
        .or_else(|| variable("XDG_CACHE_HOME").map(|folder| folder.join("rdmascope")))
        .or_else(|| variable("HOME").map(|home| home.join(".cache/rdmascope")))
        .ok_or_else(|| other("no place for the cache: set RDMASCOPE_CACHE to a folder"))?;
    fs::create_dir_all(&path).map_err(file("create", &path))?;
    path.canonicalize().map_err(file("open", &path))
}

/// The newest cached kernel; without one it is downloaded. Needs no network when the cache has one.
///
/// # Errors
/// Another processor than x86-64, no Debian kernel package to be had, or the cache cannot be written.
pub(crate) fn prepare(cache: &Path) -> Result<Kernel> {
    if std::env::consts::ARCH != "x86_64" {
        return Err(other(format!(
            "the lab needs an x86-64 machine (this one is {}), because its guest runs this machine's programs",
            std::env::consts::ARCH
        )));
    }
    let root = match newest(cache)? {
        Some(root) => root,
        None => download(cache)?,
    };
    let version = version(&root)?;
    let unpacked = root.join("vmlinux");
    let packed = root.join(format!("boot/vmlinuz-{version}"));
    let image = if unpacked.exists() { unpacked } else { packed };
    let initramfs = initramfs::prepare(&root, &version)?;
    Ok(Kernel { root, image, version, initramfs })
}

fn newest(cache: &Path) -> Result<Option<PathBuf>> {
    let mut found: Option<(SystemTime, PathBuf)> = None;
    for entry in fs::read_dir(cache).map_err(file("read", cache))? {
        let entry = entry.map_err(file("read", cache))?;
        if !entry.file_name().to_string_lossy().starts_with(FOLDER_PREFIX) {
            continue;
        }
        let changed =
            entry.metadata().and_then(|data| data.modified()).map_err(file("read", &entry.path()))?;
        if found.as_ref().is_none_or(|(newest, _)| changed > *newest) {
            found = Some((changed, entry.path()));
        }
    }
    Ok(found.map(|(_, path)| path))
}

fn download(cache: &Path) -> Result<PathBuf> {
    let temporary = TemporaryFolder::create(cache, "unfinished")?;
    let folder = temporary.path();
    let package = match fetch(folder) {
        Ok(package) => package,
        Err(first) => {
            // The package lists may be missing or name a version that is no longer there.
            eprintln!("lab: {first}; reading the package lists anew");
            apt_get(&["update"])?;
            fetch(folder)?
        }
    };
    eprintln!("lab: unpacking {package}");
    let archive = fs::read_dir(folder)
        .map_err(file("read", folder))?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .ok_or_else(|| other(format!("apt-get download {package} left no package file")))?;
    run("unpacking the kernel", Command::new("dpkg").arg("-x").args([&archive, folder]))?;
    fs::remove_file(&archive).map_err(file("remove", &archive))?;
    let version = version(folder)?;
    run("listing the kernel's modules", system_tool("depmod").arg("-b").arg(folder).arg(&version))?;
    if let Err(error) = unpack_image(folder, &version) {
        eprintln!("lab: the kernel stays packed, which makes each boot slower: {error}");
    }
    let target = cache.join(format!("{FOLDER_PREFIX}{version}"));
    temporary.keep_as(&target)?;
    Ok(target)
}

/// Downloads the package file into `folder` and returns the package's name.
fn fetch(folder: &Path) -> Result<String> {
    let listing = output("looking for a kernel", Command::new("apt-cache").args(["depends", META_PACKAGE]))?;
    let package = package_in(&listing).ok_or_else(|| {
        other(format!(
            "apt knows no kernel package behind {META_PACKAGE} (the lab needs Debian's generic kernel)"
        ))
    })?;
    eprintln!("lab: downloading {package} into the cache (about 70 MB, once; it is not installed)");
    let mut command = Command::new("apt-get");
    // As root, apt would try as another user, who cannot write here, and warn about it.
    command.args(["-qq", "-o", "APT::Sandbox::User=root", "download", &package]);
    run("downloading the kernel", command.current_dir(folder).stdout(std::io::stderr()))?;
    Ok(package)
}

/// The generic image that the meta package stands for: `  Depends: linux-image-6.1.0-57-amd64`.
fn package_in(listing: &str) -> Option<String> {
    listing
        .lines()
        .filter_map(|line| line.trim().strip_prefix("Depends: "))
        // The cloud flavour has no Soft-RoCE driver.
        .find(|name| name.starts_with("linux-image-") && !name.contains("cloud"))
        .map(str::to_owned)
}

fn version(root: &Path) -> Result<String> {
    let modules = root.join("lib/modules");
    let mut entries = fs::read_dir(&modules).map_err(file("read", &modules))?;
    match entries.next() {
        Some(Ok(entry)) => Ok(entry.file_name().to_string_lossy().into_owned()),
        _ => Err(other(format!("no kernel modules in {}; remove that folder and try again", root.display()))),
    }
}

/// Takes the plain kernel out of the self-extracting image: unpacking it in an emulated machine takes 6 s
/// (measured: 11.7 s against 5.3 s until the first program of the guest), and QEMU can start it directly.
fn unpack_image(folder: &Path, version: &str) -> Result<()> {
    const XZ_MAGIC: &[u8] = b"\xfd7zXZ\0";
    let packed = folder.join(format!("boot/vmlinuz-{version}"));
    let bytes = fs::read(&packed).map_err(file("read", &packed))?;
    let start = bytes
        .windows(XZ_MAGIC.len())
        .position(|window| window == XZ_MAGIC)
        .ok_or_else(|| other("it is not packed with xz"))?;
    let payload = folder.join("payload.xz");
    fs::write(&payload, &bytes[start..]).map_err(file("write", &payload))?;
    let image = folder.join("vmlinux");
    let stdout = fs::File::create(&image).map_err(file("create", &image))?;
    // Behind the first stream comes the rest of the image, which xz is told to leave alone.
    let result = run(
        "unpacking the kernel image",
        Command::new("xz").args(["-dc", "--single-stream"]).arg(&payload).stdout(stdout),
    );
    fs::remove_file(&payload).map_err(file("remove", &payload))?;
    if result.is_err() {
        fs::remove_file(&image).map_err(file("remove", &image))?;
    }
    result
}

/// A command of the system's administrator, which an ordinary user's PATH may lack.
pub(crate) fn system_tool(name: &str) -> Command {
    let mut command = Command::new(name);
    let path = std::env::var("PATH").unwrap_or_default();
    command.env("PATH", format!("{path}:/usr/sbin:/sbin"));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generic_kernel_is_chosen_and_never_the_cloud_flavour() {
        let listing = "linux-image-amd64\n  Depends: linux-image-6.1.0-57-amd64\n  Conflicts: x\n";
        assert_eq!(package_in(listing).as_deref(), Some("linux-image-6.1.0-57-amd64"));
        assert_eq!(package_in("linux-image-amd64\n  Depends: linux-image-6.1.0-57-cloud-amd64\n"), None);
        assert_eq!(package_in(""), None);
    }

    #[test]
    fn the_newest_cached_kernel_is_used_and_an_unfinished_one_never() {
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "rdmascope-unit").unwrap();
        assert_eq!(newest(folder.path()).unwrap(), None);
        fs::create_dir(folder.path().join("unfinished-1")).unwrap();
        assert_eq!(newest(folder.path()).unwrap(), None);
        let kernel = folder.path().join("kernel-6.1.0-57-amd64");
        fs::create_dir(&kernel).unwrap();
        assert_eq!(newest(folder.path()).unwrap(), Some(kernel));
    }
}
