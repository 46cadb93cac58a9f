//! Kernel modules for the guest's kernel, built once into the cache: our own `labnic`, and the kernel's `netdevsim` and `siw`, which
//! Debian does not ship.

use crate::error::{Result, file, other};
use crate::install::apt_get;
use crate::process::{TemporaryFolder, run};
use crate::workspace::root;
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Folder with the source of `labnic`, from the root of the workspace.
const LABNIC: &str = "tests/lab/labnic";

/// Modules out of the kernel's own source: folder there, and the setting that makes kbuild build it.
const FROM_THE_KERNEL: [(&str, &str); 2] =
    [("drivers/net/netdevsim", "CONFIG_NETDEVSIM=m"), ("drivers/infiniband/sw/siw", "CONFIG_RDMA_SIW=m")];

/// The folder with all modules for a kernel version; built when the cache has none for these sources.
///
/// # Errors
/// Headers or source cannot be downloaded, or a module does not build.
pub(crate) fn prepare(cache: &Path, version: &str) -> Result<PathBuf> {
    let target = cache.join(format!("modules-{version}-{:016x}", source_hash()?));
    if target.exists() {
        return Ok(target);
    }
    let work = TemporaryFolder::create(cache, "unfinished")?;
    eprintln!("lab: downloading headers and source of kernel {version} for the modules (about 155 MB, once)");
    let headers = unpack_headers(work.path(), version)?;
    let built = work.path().join("built");
    fs::create_dir(&built).map_err(file("create", &built))?;
    let labnic = work.path().join("labnic");
    copy_folder(&root().join(LABNIC), &labnic)?;
    build(&headers, &labnic, "CONFIG_LABNIC=m", &built)?;
    let source = unpack_source(work.path(), version)?;
    for (folder, setting) in FROM_THE_KERNEL {
        build(&headers, &source.join(folder), setting, &built)?;
    }
    fs::rename(&built, &target).map_err(file("keep", &target))?;
    Ok(target)
}

/// Two checkouts with other sources of `labnic` share a cache.
fn source_hash() -> Result<u64> {
    let mut hasher = DefaultHasher::new();
    for path in files(&root().join(LABNIC))? {
        fs::read(&path).map_err(file("read", &path))?.hash(&mut hasher);
    }
    FROM_THE_KERNEL.hash(&mut hasher);
    Ok(hasher.finish())
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(file("read", folder))?;
    let mut paths: Vec<_> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    Ok(paths)
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir(to).map_err(file("create", to))?;
    for path in files(from)? {
        let target = to.join(path.file_name().unwrap_or_default());
        fs::copy(&path, &target).map_err(file("copy", &path))?;
    }
    Ok(())
}

/// Unpacks the header packages below `work` and returns the folder that kbuild is started in.
fn unpack_headers(work: &Path, version: &str) -> Result<PathBuf> {
    let flavour = version.rsplit_once('-').map_or(version, |(abi, _)| abi);
    let series = version.split('.').take(2).collect::<Vec<_>>().join(".");
    let folder = work.join("headers");
    fs::create_dir(&folder).map_err(file("create", &folder))?;
    let names = [
        format!("linux-headers-{version}"),
        format!("linux-headers-{flavour}-common"),
        format!("linux-kbuild-{series}"),
    ];
    for name in &names {
        let archive = download(&folder, name)?;
        run("unpacking kernel headers", Command::new("dpkg").arg("-x").arg(&archive).arg(&folder))?;
    }
    let headers = folder.join(format!("usr/src/linux-headers-{version}"));
    // The package's makefile names the place where it would be installed.
    let makefile = headers.join("Makefile");
    let text = fs::read_to_string(&makefile).map_err(file("read", &makefile))?;
    let here = folder.join("usr/src");
    let text = text.replace("/usr/src", &here.to_string_lossy());
    fs::write(&makefile, text).map_err(file("write", &makefile))?;
    Ok(headers)
}

/// Unpacks the folders of [`FROM_THE_KERNEL`] and returns the root of the source.
fn unpack_source(work: &Path, version: &str) -> Result<PathBuf> {
    let series = version.split('.').take(2).collect::<Vec<_>>().join(".");
    let name = format!("linux-source-{series}");
    let archive = download(work, &name)?;
    let unpacked = work.join("source");
    run("unpacking the kernel's source", Command::new("dpkg").arg("-x").arg(&archive).arg(&unpacked))?;
    let mut tar = Command::new("tar");
    tar.arg("-xJf")
        .arg(unpacked.join(format!("usr/src/{name}.tar.xz")))
        .arg("-C")
        .arg(work)
        .arg("--wildcards");
    tar.args(FROM_THE_KERNEL.map(|(folder, _)| format!("{name}/{folder}/*")));
    run("unpacking the kernel's source", &mut tar)?;
    Ok(work.join(name))
}

/// Downloads one package file into `folder`.
fn download(folder: &Path, name: &str) -> Result<PathBuf> {
    let fetch = || {
        let mut command = Command::new("apt-get");
        command.args(["-qq", "-o", "APT::Sandbox::User=root", "download", name]);
        run(&format!("downloading {name}"), command.current_dir(folder).stdout(std::io::stderr()))
    };
    fetch().or_else(|_| apt_get(&["update"]).and_then(|()| fetch()))?;
    let prefix = format!("{name}_");
    files(folder)?
        .into_iter()
        .find(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(&prefix)))
        .ok_or_else(|| other(format!("apt-get download {name} left no package file")))
}

/// Builds the modules of one folder and puts them into `built`, without their debugging symbols.
fn build(headers: &Path, folder: &Path, setting: &str, built: &Path) -> Result<()> {
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    eprintln!("lab: building the kernel module {name}");
    let mut make = Command::new("make");
    make.arg("-C").arg(headers).arg(format!("M={}", folder.display())).arg(setting).arg("modules");
    run(&format!("building the kernel module {name}"), make.stdout(Stdio::null()))?;
    let modules: Vec<_> =
        files(folder)?.into_iter().filter(|path| path.extension().is_some_and(|end| end == "ko")).collect();
    if modules.is_empty() {
        return Err(other(format!("make built no module {name}")));
    }
    for module in modules {
        let target = built.join(module.file_name().unwrap_or_default());
        let mut strip = Command::new("strip");
        strip.arg("--strip-debug").arg("-o").arg(&target).arg(&module);
        run("stripping a kernel module", &mut strip)?;
    }
    Ok(())
}
