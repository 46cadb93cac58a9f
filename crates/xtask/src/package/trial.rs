//! Installs, starts, upgrades and removes both packages in a fresh Debian root, and looks at what is there afterwards.

use super::tree::{CONFIG, files};
use super::{Source, deb, rpm, write};
use crate::error::{Error, Result, file, other};
use crate::process::{Group, TemporaryFolder, output, run};
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// What changes there whatever package comes and goes: lists of packages, users and logs.
const NOT_OURS: [&str; 11] = [
    // Where Debian's rpm has its list.
    "root/.rpmdb",
    "var/lib/dpkg",
    "var/lib/rpm",
    "var/log",
    "var/cache",
    "etc/passwd",
    "etc/group",
    "etc/shadow",
    "etc/gshadow",
    "etc/.pwd.lock",
    "etc/subuid",
];

/// A fresh root; it goes with its content.
struct Root {
    folder: TemporaryFolder,
}

/// Tries both; `work` holds the trees that they were packed from.
pub(super) fn run_all(source: &Source, packages: [&Path; 2], work: &Path) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Err(other("--try installs in a root of its own, which only root can make: run it as root"));
    }
    let began = Instant::now();
    let root = Root::make()?;
    eprintln!("    a fresh root after {:.0} s", began.elapsed().as_secs_f64());
    root.try_deb(source, packages[0], work)?;
    eprintln!("    the .deb is tried after {:.0} s", began.elapsed().as_secs_f64());
    root.try_rpm(source, packages[1], work)?;
    eprintln!(
        "    both tried in {:.0} s: install, start as the user of the units, upgrade over an edited configuration, removal.\n    \
         Not tried, for systemd does not run in there: that systemd starts, watches and reloads the units, and that an \
         upgrade restarts and a removal stops them.",
        began.elapsed().as_secs_f64()
    );
    Ok(())
}

fn expect(holds: bool, otherwise: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(other(otherwise())) }
}

impl Root {
    /// The release of this machine, from the mirror that apt is configured with.
    fn make() -> Result<Self> {
        let targets = ["indextargets", "--format", "$(SITE) $(RELEASE) $(COMPONENT)", "Created-By: Packages"];
        let listed = output("asking apt for its mirror", Command::new("apt-get").args(targets))?;
        let first = listed.lines().find(|line| line.ends_with(" main"));
        let Some((site, release)) = first.and_then(|line| line.trim_end_matches(" main").split_once(' '))
        else {
            return Err(other("apt is configured with no mirror of Debian's component main"));
        };
        let folder = TemporaryFolder::create(&std::env::temp_dir(), "rdmascope-root")?;
        let root = Self { folder };
        let mut make = Command::new("debootstrap");
        make.args(["--variant=minbase", "--include=systemd,procps", release]).arg(root.path()).arg(site);
        run("debootstrap", make.stdout(Stdio::null()))?;
        Ok(root)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn at(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    /// A program in there, with a /proc of its own that goes when the program ends.
    fn command(&self, user: &str, words: &[&str]) -> Command {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", "--kill-child", "bash", "-c"]);
        command.arg("mount -t proc proc \"$0/proc\" && exec chroot --userspec=\"$1\" \"$0\" \"${@:2}\"");
        command.arg(self.path()).arg(user).args(words).env("DEBIAN_FRONTEND", "noninteractive");
        command
    }

    fn says(&self, words: &[&str]) -> Result<String> {
        output(&format!("`{}` in the fresh root", words.join(" ")), &mut self.command("root", words))
    }

    /// What is there, but for what is never ours.
    fn listed(&self) -> Result<BTreeSet<String>> {
        let root = self.path();
        let names = files(&root)?;
        let names = names.iter().filter_map(|path| Some(path.strip_prefix(&root).ok()?.to_str()?.to_owned()));
        Ok(names.filter(|name| !NOT_OURS.iter().any(|other| name.starts_with(other))).collect())
    }

    fn append(&self, name: &str, text: &str) -> Result<()> {
        let path = self.at(name);
        let before = fs::read_to_string(&path).unwrap_or_default();
        write(&path, before + text)
    }

    fn try_deb(&self, source: &Source, package: &Path, work: &Path) -> Result<()> {
        let before = self.listed()?;
        let install = |package: &Path| -> Result<()> {
            let inside = self.at("tmp/rdmascope.deb");
            fs::copy(package, &inside).map_err(file("read", package))?;
            // What dpkg does without being asked where a configuration was edited: it keeps it.
            self.says(&["dpkg", "--force-confdef", "-i", "/tmp/rdmascope.deb"])?;
            fs::remove_file(&inside).map_err(file("remove", &inside))
        };
        install(package)?;
        self.works(source)?;
        self.says(&["systemctl", "enable", "rdmascope-agent.service", "rdmascope-coordinator.service"])?;
        self.append(CONFIG, "# edited\n")?;

        let tree = work.join("tree-of-changelog.Debian");
        self.newer(&tree)?;
        install(&deb::pack(source, 2, &tree, work)?)?;
        let now = self.says(&["dpkg-query", "--show", "--showformat", "${Version}", "rdmascope"])?;
        expect(now == source.full(2), || format!("after the upgrade dpkg knows version {now}"))?;
        self.kept_the_edited_configuration()?;
        self.says(&["dpkg", "--remove", "rdmascope"])?;
        self.kept_the_edited_configuration()?;
        expect(!self.at("usr/bin/rdmascope").exists(), || "the program is still there".to_owned())?;
        self.says(&["dpkg", "--purge", "rdmascope"])?;
        let left: Vec<_> = self.listed()?.difference(&before).cloned().collect();
        expect(left.is_empty(), || format!("purging left behind: {}", left.join(" ")))
    }

    /// Its user, its manual, its program, and a coordinator that listens; and nobody has enabled anything.
    fn works(&self, source: &Source) -> Result<()> {
        let user = self.says(&["getent", "passwd", "rdmascope"])?;
        expect(user.trim_end().ends_with("/usr/sbin/nologin"), || format!("the user can log in: {user}"))?;
        let enabled = self.at("etc/systemd/system/multi-user.target.wants/rdmascope-agent.service");
        expect(!enabled.is_symlink(), || "the agent was enabled without being asked for".to_owned())?;
        let version = self.says(&["rdmascope", "--version"])?;
        expect(version.contains(&source.version), || format!("the program says it is {version}"))?;
        self.says(&["rdmascope", "config", "check", &format!("/{CONFIG}")])?;
        // As systemd would do for StateDirectory=, and an administrator for the token.
        self.says(&["install", "-d", "-o", "rdmascope", "-m", "0750", "/var/lib/rdmascope"])?;
        write(&self.at("etc/rdmascope/token"), "0123456789abcdef0123456789abcdef\n")?;
        self.says(&["chgrp", "rdmascope", "/etc/rdmascope/token"])?;
        self.says(&["chmod", "0640", "/etc/rdmascope/token"])?;
        let config = format!("/{CONFIG}");
        let words = ["rdmascope", "coordinator", "--listen", "127.0.0.1:0", "--config", &config];
        let mut command = self.command("rdmascope:rdmascope", &words);
        let mut coordinator = Group::start(command.stdout(Stdio::piped()))?;
        let stdout =
            coordinator.take_stdout().ok_or_else(|| other("the coordinator has no output to read"))?;
        let mut line = String::new();
        let read = BufReader::new(stdout).read_line(&mut line);
        read.map_err(|source| Error::Start { program: "rdmascope coordinator".to_owned(), source })?;
        expect(line.starts_with("listening on http://"), || "the coordinator does not listen".to_owned())
    }

    /// The next release brings another example.
    fn newer(&self, tree: &Path) -> Result<()> {
        let path = tree.join(CONFIG);
        let text = fs::read_to_string(&path).map_err(file("read", &path))?;
        write(&path, text + "# of the next release\n")
    }

    fn kept_the_edited_configuration(&self) -> Result<()> {
        let text = fs::read_to_string(self.at(CONFIG)).unwrap_or_default();
        expect(text.ends_with("# edited\n"), || format!("/{CONFIG} is no longer as it was edited"))
    }

    fn try_rpm(&self, source: &Source, package: &Path, work: &Path) -> Result<()> {
        // This is what Debian's rpm wants to be told before it installs anything; it runs the scripts inside the root.
        let rpm = |words: &[&str], package: Option<&Path>| -> Result<String> {
            let mut command = Command::new("rpm");
            command.args(["--force-debian", "--root"]).arg(self.path()).args(words).args(package);
            output(&format!("rpm {}", words.join(" ")), &mut command)
        };
        let before = self.listed()?;
        rpm(&["--install", "--nodeps"], Some(package))?;
        self.works(source)?;
        rpm(&["--verify", "--nodeps", "rdmascope"], None)?;
        self.append(CONFIG, "# edited\n")?;
        let tree = work.join("tree-of-changelog");
        self.newer(&tree)?;
        rpm(&["--upgrade", "--nodeps"], Some(&rpm::pack(source, 2, &tree, work, work)?))?;
        let now = rpm(&["--query", "--queryformat", "%{VERSION}-%{RELEASE}", "rdmascope"], None)?;
        expect(now == source.full(2), || format!("after the upgrade rpm knows version {now}"))?;
        self.kept_the_edited_configuration()?;
        rpm(&["--erase", "--nodeps", "rdmascope"], None)?;
        // rpm knows no purge: what was edited, the token and the state stay.
        let left: Vec<_> = self.listed()?.difference(&before).cloned().collect();
        let may_stay =
            |name: &String| name.starts_with("etc/rdmascope") || name.starts_with("var/lib/rdmascope");
        let wrong: Vec<_> = left.iter().filter(|name| !may_stay(name)).cloned().collect();
        expect(wrong.is_empty(), || format!("erasing left behind: {}", wrong.join(" ")))?;
        expect(left.iter().any(|name| name.ends_with(".rpmsave")), || {
            "the edited configuration was not saved".to_owned()
        })
    }
}
