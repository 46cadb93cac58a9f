//! Who holds a device, on machines of files; and what must never read as "nobody".

use super::*;
use crate::processes::QUEUE_PAIRS;
use rdmascope_fixtures::{FakeHost, Folder};

const POD: &str = "0b6c9e0a-4f61-4c8e-9d3c-6a1f3f5b7e21";
const JOB: &str = "0::/system.slice/slurmstepd.scope/job_4711/step_0/user/task_0\n";

/// Two devices, whose queue pairs these are.
fn host(queue_pairs: &str) -> FakeHost {
    let host = FakeHost::mlx5(2);
    host.folder().write(QUEUE_PAIRS, queue_pairs);
    host
}

fn process(folder: &Folder, pid: u32, uid: u32, group: &str) {
    folder.write(&format!("proc/{pid}/status"), &format!("Name:\tx\nTgid:\t{pid}\nUid:\t{uid}\t0\t0\t0\n"));
    folder.write(&format!("proc/{pid}/cgroup"), group);
}

fn held(host: &FakeHost, device: &str) -> Result<(), String> {
    judge(&signs(&Tree::open(host.root()).unwrap(), device))
}

fn why(host: &FakeHost) -> String {
    held(host, "mlx5_0").unwrap_err()
}

#[test]
fn queue_pairs_of_the_kernel_and_of_another_device_do_not_count() {
    let host = host("mlx5_0 1 0 ib_core 2\nmlx5_0 1 0 nfs 7\nmlx5_1 1 99 ib_write_bw 1\n");
    assert_eq!(held(&host, "mlx5_0"), Ok(()));
    assert_eq!(held(&host, "mlx5_1").unwrap_err(), "process 99 holds mlx5_1 (ib_write_bw, queue pairs: 1)");
}

#[test]
fn a_job_is_named_with_its_user_once_however_many_ranks_it_has() {
    let host = host("mlx5_0 1 21 python3 16\nmlx5_0 1 22 python3 16\nmlx5_0 0 21 python3 1\n");
    host.folder().write("etc/passwd", "root:x:0:0::/root:/bin/sh\nalice:x:1000:1000::/home/alice:/bin/sh\n");
    process(host.folder(), 21, 1000, JOB);
    process(host.folder(), 22, 1000, JOB);
    assert_eq!(why(&host), "job 4711 of user alice holds mlx5_0 (python3, queue pairs: 17)");
    // A user of a directory service has no line.
    host.folder().write("etc/passwd", "root:x:0:0::/root:/bin/sh\n");
    assert!(why(&host).starts_with("job 4711 of user 1000 holds mlx5_0"));
}

#[test]
fn a_job_between_two_steps_holds_no_queue_pair_and_makes_the_node_busy() {
    let host = host("none\n");
    assert_eq!(held(&host, "mlx5_0"), Ok(()));
    host.folder().make("sys/fs/cgroup/system.slice/slurmstepd.scope/job_4711/step_batch");
    assert_eq!(why(&host), "job 4711 is on this node");
    host.folder().remove("sys/fs/cgroup/system.slice/slurmstepd.scope/job_4711");
    assert_eq!(held(&host, "mlx5_0"), Ok(()), "it has ended");
}

#[test]
fn a_pod_is_named_by_its_queue_pairs_or_by_what_the_kubelet_gave_it() {
    let host = host("mlx5_0 1 30 ucx_perftest 2\n");
    process(host.folder(), 30, 0, &format!("0::/kubepods/pod{POD}/77\n"));
    assert_eq!(why(&host), format!("pod {POD} of user 0 holds mlx5_0 (ucx_perftest, queue pairs: 2)"));
    host.folder().write(QUEUE_PAIRS, "none\n");
    host.folder().make(&format!("sys/fs/cgroup/kubepods/pod{POD}"));
    let checkpoint = |answer: &str| {
        let text = format!(
            r#"{{"Data":{{"PodDeviceEntries":[{{"PodUID":"{POD}","ContainerName":"rank","ResourceName":"rdma/a","AllocResp":"{answer}"}}]}}}}"#
        );
        host.folder().write("var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", &text);
    };
    // `/dev/infiniband/uverbs1`, which is mlx5_1's.
    checkpoint("L2Rldi9pbmZpbmliYW5kL3V2ZXJiczE=");
    assert_eq!(held(&host, "mlx5_0"), Ok(()), "another device's node");
    assert_eq!(held(&host, "mlx5_1").unwrap_err(), format!("pod {POD} (container rank) was given rdma/a"));
    checkpoint("");
    assert!(held(&host, "mlx5_0").is_err(), "it is not known which device: each may be it");
}

#[test]
fn what_exists_and_cannot_be_read_is_busy() {
    let hidden = host("mlx5_0 0 - - 12\n");
    assert!(why(&hidden).contains("12 queue pairs whose process the kernel does not show"));
    hidden.folder().remove(QUEUE_PAIRS);
    assert!(why(&hidden).starts_with("it cannot be told whether a job holds mlx5_0: "));
    let no_netlink = Signs {
        device: "mlx5_0".to_owned(),
        held: Reading::Value((Vec::new(), 0)),
        jobs: Reading::failed("listing sys/fs/cgroup: permission denied"),
        given: Reading::Value(Vec::new()),
        node: None,
        users: BTreeMap::new(),
    };
    assert!(judge(&no_netlink).unwrap_err().ends_with("permission denied"));
    let no_kubelet = Signs {
        jobs: Reading::Value(BTreeMap::new()),
        given: Reading::failed("permission denied"),
        ..no_netlink
    };
    assert!(judge(&no_kubelet).unwrap_err().ends_with("permission denied"));
    let nobody = Signs { given: Reading::Value(Vec::new()), ..no_kubelet };
    assert_eq!(judge(&nobody), Ok(()));
}

#[test]
fn a_holder_that_is_known_is_named_although_something_else_cannot_be_read() {
    let host = host("mlx5_0 1 99 perftest 1\n");
    host.folder().write("sys/fs/cgroup/cgroup.type", "domain\n");
    assert_eq!(why(&host), "process 99 holds mlx5_0 (perftest, queue pairs: 1)");
}

#[test]
fn many_holders_are_counted_not_listed() {
    let lines: String = (1..=70).map(|pid| format!("mlx5_0 1 {pid} rank 4\n")).collect();
    let text = why(&host(&lines));
    assert!(text.ends_with("; and 67 more") && text.matches("process").count() == 3, "{text}");
}

#[test]
fn our_own_queue_pairs_do_not_count_whichever_of_our_threads_made_them() {
    let real = Tree::open(std::path::Path::new("/")).unwrap();
    // The kernel names a thread by its own number; a test does not run on the thread that began the program.
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    let thread: u32 = thread.file_name().unwrap().to_str().unwrap().parse().unwrap();
    let row = |pid| QueuePairs {
        device: "rxe1".to_owned(),
        port: 1,
        pid: Some(pid),
        name: "me".to_owned(),
        count: 1,
    };
    let (processes, _) = holders(&real, "rxe1", &[row(std::process::id()), row(thread), row(1)]);
    let ours: BTreeMap<u32, bool> = processes.iter().map(|process| (process.pid, process.ours)).collect();
    assert!(thread != std::process::id() && ours[&thread] && ours[&std::process::id()]);
    assert!(!ours[&1], "another process's do");
}
