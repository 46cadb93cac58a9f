//! The local socket as those use it who connect to it.

use super::*;
use crate::machine::Seen;
use rdmascope_checks::Policy;
use rdmascope_control::agent::HardFault;
use rdmascope_link::DrainAnswer;
use rdmascope_model::Mono;

/// A folder of one test, removed at its end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("rdmascope-local-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    async fn ask(&self, question: &str) -> Option<NodeVerdictView> {
        // The task that listens has its first turn when this one waits.
        tokio::task::yield_now().await;
        let mut stream = UnixStream::connect(self.0.join(AGENT_SOCKET)).await.unwrap();
        stream.write_all(question.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.ok()?;
        serde_json::from_str(&answer).ok()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn finding(id: &'static str, subject: &str) -> Finding {
    Finding {
        id: id.into(),
        status: Status::Fail,
        subject: subject.to_owned(),
        summary: "not up".to_owned(),
        cause: String::new(),
        next_step: "Swap the cable.".to_owned(),
        evidence: Vec::new(),
    }
}

/// An agent that saw a fault of a setting and a hard one, and has read these parts.
fn seen(names: &[&'static str]) -> Seen {
    let hard = finding("port-phys-state", "mlx5_0/1");
    Seen {
        findings: vec![finding("netdev-mtu", "netdev eth0"), hard.clone()],
        hard: vec![HardFault { finding: hard, since: Mono(0) }],
        read_at: names.iter().map(|name| (*name, Mono(0))).collect(),
        begun: true,
        ..Seen::default()
    }
}

struct Bench {
    folder: Folder,
    shown: Arc<Shown>,
    news: mpsc::Receiver<News>,
    _served: JoinSet<()>,
}

impl Bench {
    fn new(name: &str) -> Self {
        let folder = Folder::new(name);
        let mut policy = Policy::default();
        // A test's clock begins with it.
        assert!(policy.limits.set("settle_seconds", 0.0));
        let shown = Arc::new(Shown::new(policy).unwrap());
        let (sender, news) = mpsc::channel(4);
        let mut served = JoinSet::new();
        served.spawn(Local::new(&shown, Clock::new(), "n1", &sender).serve(folder.0.clone()));
        *shown.seen.lock().unwrap() = seen(&["state", "counters", "statistics", "slow", "checks"]);
        Self { folder, shown, news, _served: served }
    }
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn the_verdict_is_what_is_known_and_asks_nobody() {
    run(async {
        let mut bench = Bench::new("verdict");
        let verdict = bench.folder.ask("verdict\n").await.unwrap();
        assert_eq!((verdict.node.as_str(), verdict.cannot_say, verdict.leave), ("n1", None, None));
        let hard: Vec<_> = verdict.findings.iter().map(|f| (f.id.as_str(), f.hard)).collect();
        assert_eq!(hard, [("port-phys-state", true), ("netdev-mtu", false)], "the hard one first");
        assert_eq!(verdict.parts.len(), 5);
        assert!(bench.news.try_recv().is_err(), "nobody was asked");
        assert_eq!(bench.folder.ask("drain everything\n").await, None);
        assert_eq!(bench.folder.ask(&"verdict".repeat(50)).await, None);
    });
}

#[test]
fn leave_is_asked_for_the_hard_fault_alone_and_is_the_answer() {
    run(async {
        let mut bench = Bench::new("leave");
        let asked = async {
            let Some(News::AskDrain(faults, asker)) = bench.news.recv().await else { panic!("a question") };
            let faults: Vec<_> = faults.into_iter().map(|fault| (fault.id, fault.subject)).collect();
            assert_eq!(faults, [("port-phys-state".to_owned(), "mlx5_0/1".to_owned())]);
            asker.send(DrainAnswer { leave: true, why: "1 of 2".to_owned() }).unwrap();
        };
        let (verdict, ()) = tokio::join!(bench.folder.ask("leave\n"), asked);
        assert_eq!(verdict.unwrap().leave, Some(LeaveView { granted: true, why: "1 of 2".to_owned() }));
        // Nobody answers: the question is taken and dropped.
        let silent = async { drop(bench.news.recv().await) };
        let (verdict, ()) = tokio::join!(bench.folder.ask("leave\n"), silent);
        assert!(!verdict.unwrap().leave.unwrap().granted);
    });
}

#[test]
fn what_was_not_looked_at_is_no_reason_to_ask() {
    run(async {
        let mut bench = Bench::new("unread");
        *bench.shown.seen.lock().unwrap() = seen(&["state", "counters", "statistics", "checks"]);
        let verdict = bench.folder.ask("leave\n").await.unwrap();
        assert!(verdict.cannot_say.is_some() && !verdict.leave.unwrap().granted);
        assert!(verdict.findings.iter().all(|finding| !finding.hard));
        assert!(bench.news.try_recv().is_err(), "the coordinator is not asked");
        *bench.shown.seen.lock().unwrap() = Seen::default();
        let verdict = bench.folder.ask("verdict\n").await.unwrap();
        assert!(verdict.cannot_say.unwrap().contains("not looked at yet"));
    });
}

#[test]
fn the_socket_is_for_root_and_the_group_and_one_that_is_left_behind_is_replaced() {
    run(async {
        let folder = Folder::new("mode");
        let path = folder.0.join(AGENT_SOCKET);
        let first = listen(&folder.0).unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o660);
        assert!(listen(&folder.0).is_none(), "another agent's is not taken away");
        drop(first);
        assert!(path.exists() && listen(&folder.0).is_some());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "a file of somebody").unwrap();
        assert!(listen(&folder.0).is_none());
        assert!(path.is_file());
        assert!(listen(&folder.0.join("not there")).is_none());
    });
}
