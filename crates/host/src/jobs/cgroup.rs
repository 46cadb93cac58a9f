//! Control groups: to which job or pod a process belongs, and which jobs and pods a machine has.
//!
//! Slurm's paths are those of its plugins cgroup/v2 (`system.slice/slurmstepd.scope/job_4711/step_0/user/task_0`, as
//! <https://slurm.schedmd.com/cgroup_v2.html> has it; `NODE_slurmstepd.scope` where several slurmd share a machine) and cgroup/v1
//! (`freezer/slurm/uid_1000/job_4711/step_0`). Pods are below `kubepods`, named by the kubelet's systemd or cgroupfs driver
//! (`pkg/kubelet/cm/cgroup_manager_linux.go`).

use crate::tree::Tree;
use rdmascope_model::Reading;
use std::collections::BTreeMap;

/// Where control groups are mounted.
const ROOT: &str = "sys/fs/cgroup";

/// Hierarchies of version 1 of which Slurm uses at least one.
const CONTROLLERS: [&str; 6] = ["freezer", "memory", "cpuset", "devices", "cpuacct", "cpu,cpuacct"];

/// Hierarchies in which the kubelet makes its groups: version 2, and two of version 1.
const POD_ROOTS: [&str; 3] = [ROOT, "sys/fs/cgroup/memory", "sys/fs/cgroup/pids"];

/// Said where the root of the hierarchy is out of sight.
const HIDDEN: &str =
    "only this container's own control groups can be seen: mount the host's /sys into it, read-only";

/// To whom a process belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A Slurm job.
    Job(String),
    /// A pod, by its uid.
    Pod(String),
    /// Neither.
    Nobody,
}

/// The owner by the text of `/proc/PID/cgroup`: lines `NUMBER:CONTROLLERS:PATH`.
pub(super) fn owner(text: &str) -> Owner {
    let paths = || text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    // Slurm in a pod, or a pod in a job: the job is what people know.
    if let Some(job) = paths().filter(|path| path.contains("slurm")).find_map(job_of) {
        return Owner::Job(job);
    }
    paths().filter(|path| path.contains("kubepods")).find_map(pod_of).map_or(Owner::Nobody, Owner::Pod)
}

fn job_of(path: &str) -> Option<String> {
    path.split('/').find_map(job_number)
}

fn job_number(name: &str) -> Option<String> {
    let number = name.strip_prefix("job_")?;
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| number.to_owned())
}

/// `pod1234-...` of the cgroupfs driver; `kubepods-burstable-pod1234_....slice` of the systemd driver, which may not write hyphens.
fn pod_of(path: &str) -> Option<String> {
    path.split('/').find_map(|name| {
        let name = name.strip_suffix(".slice").unwrap_or(name);
        let (before, uid) = name.rsplit_once("pod")?;
        let fitting = before.is_empty() || before.ends_with('-');
        let is_uid =
            uid.len() >= 32 && uid.bytes().all(|byte| byte.is_ascii_hexdigit() || b"-_".contains(&byte));
        (fitting && is_uid).then(|| uid.replace('_', "-"))
    })
}

/// The Slurm jobs that have a control group here, with the user where the path names him. Empty where there is no Slurm.
pub(super) fn jobs(tree: &Tree) -> Reading<BTreeMap<String, Option<u32>>> {
    let mut jobs = BTreeMap::new();
    let names = match tree.list(ROOT) {
        Reading::Value(names) => names,
        Reading::Absent => return Reading::Value(jobs),
        Reading::Failed(why) => return Reading::Failed(why),
    };
    // Only groups below the root have this file (Documentation/admin-guide/cgroup-v2.rst).
    if names.iter().any(|name| name == "cgroup.type") {
        return Reading::failed(HIDDEN);
    }
    let mut look = || -> Result<(), String> {
        let slices =
            names.iter().filter(|name| name.ends_with(".slice")).map(|name| format!("{ROOT}/{name}"));
        for folder in std::iter::once(ROOT.to_owned()).chain(slices) {
            for scope in listed(tree, &folder)?.into_iter().filter(|name| name.ends_with("slurmstepd.scope"))
            {
                let found = listed(tree, &format!("{folder}/{scope}"))?;
                jobs.extend(found.iter().filter_map(|name| Some((job_number(name)?, None))));
            }
        }
        for controller in CONTROLLERS.iter().filter(|controller| names.iter().any(|name| name == *controller))
        {
            let base = format!("{ROOT}/{controller}");
            let groups = listed(tree, &base)?;
            // Only the root has this file (Documentation/admin-guide/cgroup-v1/cgroups.rst).
            if !groups.iter().any(|name| name == "release_agent") {
                return Err(HIDDEN.to_owned());
            }
            for slurm in groups.into_iter().filter(|name| name.starts_with("slurm")) {
                for user in
                    listed(tree, &format!("{base}/{slurm}"))?.iter().filter(|name| name.starts_with("uid_"))
                {
                    let uid = user.trim_start_matches("uid_").parse().ok();
                    let found = listed(tree, &format!("{base}/{slurm}/{user}"))?;
                    jobs.extend(found.iter().filter_map(|name| Some((job_number(name)?, uid))));
                }
            }
        }
        Ok(())
    };
    match look() {
        Ok(()) => Reading::Value(jobs),
        Err(why) => Reading::Failed(why),
    }
}

/// A job that ends meanwhile takes its folders along.
fn listed(tree: &Tree, folder: &str) -> Result<Vec<String>, String> {
    match tree.list(folder) {
        Reading::Value(names) => Ok(names),
        Reading::Absent => Ok(Vec::new()),
        Reading::Failed(why) => Err(why),
    }
}

/// A kubelet keeps pods on this machine, as far as control groups show it.
pub(super) fn has_pods(tree: &Tree) -> bool {
    pod_folder(tree).is_some()
}

/// Whether a pod is on this machine: the kubelet's list keeps pods that have ended until it hands out a device again. Where no
/// groups of pods can be seen, it may be.
pub(super) fn pod_is_there(tree: &Tree, uid: &str) -> bool {
    let Some(folder) = pod_folder(tree) else { return true };
    if folder.ends_with(".slice") {
        let uid = uid.replace('-', "_");
        let there = |path: String| tree.is_there(&format!("{folder}/{path}"));
        return there(format!("kubepods-pod{uid}.slice"))
            || ["burstable", "besteffort"]
                .iter()
                .any(|class| there(format!("kubepods-{class}.slice/kubepods-{class}-pod{uid}.slice")));
    }
    ["", "/burstable", "/besteffort"].iter().any(|class| tree.is_there(&format!("{folder}{class}/pod{uid}")))
}

fn pod_folder(tree: &Tree) -> Option<String> {
    let all =
        POD_ROOTS.iter().flat_map(|root| ["kubepods.slice", "kubepods"].map(|name| format!("{root}/{name}")));
    all.into_iter().find(|folder| tree.is_there(folder))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_fixtures::Folder;

    const UID: &str = "0b6c9e0a-4f61-4c8e-9d3c-6a1f3f5b7e21";

    fn tree(folder: &Folder) -> Tree {
        Tree::open(folder.path()).unwrap()
    }

    #[test]
    fn a_process_is_assigned_to_its_job_or_pod_by_either_version_and_driver() {
        let job = |id: &str| Owner::Job(id.to_owned());
        let pod = || Owner::Pod(UID.to_owned());
        for (text, expected) in [
            ("0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n", job("4711")),
            ("0::/system.slice/n7_slurmstepd.scope/job_12/step_extern/user/task_special\n", job("12")),
            (
                "12:pids:/system.slice/slurmd.service\n4:freezer:/slurm/uid_1000/job_4711/step_batch\n",
                job("4711"),
            ),
            ("0::/../../system.slice/slurmstepd.scope/job_9/step_1\n", job("9")),
            (
                "0::/kubepods.slice/kubepods-burstable.slice/\
                 kubepods-burstable-pod0b6c9e0a_4f61_4c8e_9d3c_6a1f3f5b7e21.slice/cri-containerd-77.scope\n",
                pod(),
            ),
            ("0::/kubepods/besteffort/pod0b6c9e0a-4f61-4c8e-9d3c-6a1f3f5b7e21/77aa\n", pod()),
            ("0::/kubepods/pod0b6c9e0a-4f61-4c8e-9d3c-6a1f3f5b7e21\n", pod()),
            // Not Slurm's, not the kubelet's.
            ("0::/user.slice/user-1000.slice/job_5\n", Owner::Nobody),
            ("0::/machine.slice/libpod-pod_77.scope\n", Owner::Nobody),
            ("0::/system.slice/slurmd.service\n", Owner::Nobody),
            ("", Owner::Nobody),
        ] {
            assert_eq!(owner(text), expected, "{text}");
        }
    }

    #[test]
    fn jobs_are_found_in_both_versions_and_none_where_there_is_no_slurm() {
        let folder = Folder::new();
        assert_eq!(jobs(&tree(&folder)), Reading::Value(BTreeMap::new()), "no control groups at all");
        folder.make("sys/fs/cgroup/system.slice/sshd.service");
        assert_eq!(jobs(&tree(&folder)), Reading::Value(BTreeMap::new()));
        folder.make("sys/fs/cgroup/system.slice/slurmstepd.scope/system");
        assert_eq!(jobs(&tree(&folder)), Reading::Value(BTreeMap::new()), "Slurm, and no job");
        folder.make("sys/fs/cgroup/system.slice/slurmstepd.scope/job_4711/step_extern");
        folder.make("sys/fs/cgroup/freezer/slurm_n7/uid_1000/job_12");
        folder.write("sys/fs/cgroup/freezer/release_agent", "");
        let found = BTreeMap::from([("12".to_owned(), Some(1000)), ("4711".to_owned(), None)]);
        assert_eq!(jobs(&tree(&folder)), Reading::Value(found));
    }

    #[test]
    fn a_container_that_sees_its_own_groups_alone_does_not_know_of_jobs() {
        let folder = Folder::new();
        folder.write("sys/fs/cgroup/cgroup.type", "domain\n");
        assert!(matches!(jobs(&tree(&folder)), Reading::Failed(why) if why.contains("container")));
        let folder = Folder::new();
        folder.write("sys/fs/cgroup/memory/tasks", "");
        assert!(
            matches!(jobs(&tree(&folder)), Reading::Failed(why) if why.contains("container")),
            "version 1"
        );
    }

    #[test]
    fn pods_that_have_ended_are_not_there() {
        for slice in [
            "kubepods.slice/kubepods-pod0b6c9e0a_4f61_4c8e_9d3c_6a1f3f5b7e21.slice",
            "kubepods.slice/kubepods-besteffort.slice/\
             kubepods-besteffort-pod0b6c9e0a_4f61_4c8e_9d3c_6a1f3f5b7e21.slice",
            "kubepods/burstable/pod0b6c9e0a-4f61-4c8e-9d3c-6a1f3f5b7e21",
            "memory/kubepods/pod0b6c9e0a-4f61-4c8e-9d3c-6a1f3f5b7e21",
        ] {
            let folder = Folder::new();
            assert!(!has_pods(&tree(&folder)) && pod_is_there(&tree(&folder), UID), "nothing can be seen");
            folder.make(&format!("sys/fs/cgroup/{slice}"));
            assert!(has_pods(&tree(&folder)) && pod_is_there(&tree(&folder), UID), "{slice}");
            assert!(!pod_is_there(&tree(&folder), "11111111-4f61-4c8e-9d3c-6a1f3f5b7e21"), "{slice}");
        }
    }
}
