//! The watcher over a machine of files, in real time: how soon a change is told, and what is not read for it.

use super::*;
use rdmascope_fixtures::FakeHost;
use rdmascope_link::EventKind;
use rdmascope_model::{Cause, Status};
use tokio::time::timeout;

struct Bench {
    fake: FakeHost,
    seen: Arc<Mutex<Seen>>,
    news: mpsc::Receiver<News>,
    policy: watch::Sender<Policy>,
    _task: tokio::task::JoinHandle<()>,
}

impl Bench {
    fn start(ports: usize) -> Self {
        let fake = FakeHost::mlx5(ports);
        let seen = Arc::default();
        let (sender, news) = mpsc::channel(64);
        let (policy, judges) = watch::channel(Policy::default());
        let kernel_log = fake.root().join("kern.log");
        let watcher = Watcher {
            host: Host::new(fake.root().to_owned()).unwrap(),
            node: "a".to_owned(),
            devices: Vec::new(),
            kernel_log: Some(kernel_log),
            policy: judges,
            pause_file: fake.root().join("pause"),
            clock: Clock::new(),
            own: Arc::default(),
            counted: AgentOwn::new(&prometheus::Registry::new()).unwrap(),
            seen: Arc::clone(&seen),
            news: sender,
        };
        Self { fake, seen, news, policy, _task: tokio::spawn(watcher.watch()) }
    }

    /// The next judgement that says what is asked for, and how long it took.
    async fn until<T>(
        &mut self,
        find: impl Fn(&[EndpointInfo], &[FindingBrief], &[NodeEvent]) -> Option<T>,
    ) -> (T, Duration) {
        let began = Instant::now();
        let found = async {
            loop {
                if let Some(News::Judged { endpoints, findings, events, .. }) = self.news.recv().await
                    && let Some(found) = find(&endpoints, &findings, &events)
                {
                    return found;
                }
            }
        };
        let found = timeout(Duration::from_secs(20), found).await.expect("told in time");
        (found, began.elapsed())
    }
}

fn run(test: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test);
}

#[test]
fn a_port_that_goes_down_is_told_within_a_second_and_fails_after_it_has_stayed_down() {
    run(async {
        let mut bench = Bench::start(2);
        bench.until(|endpoints, _, _| (endpoints.len() == 2).then_some(())).await;
        bench.fake.pull_cable("mlx5_1");
        let (event, took) = bench.until(|_, _, events| events.first().cloned()).await;
        assert_eq!((event.kind, event.subject.as_str()), (EventKind::StateChange, "mlx5_1/1"));
        assert_eq!((event.before.as_str(), event.after.as_str()), ("ACTIVE", "DOWN"));
        assert!(took < Duration::from_millis(1_300), "{took:?}");
        let raised = |_: &[EndpointInfo], findings: &[FindingBrief], events: &[NodeEvent]| {
            let raised =
                events.iter().find(|e| e.kind == EventKind::FindingRaised && e.id == "port-state")?;
            Some((raised.after.clone(), findings.iter().find(|f| f.id == "port-state")?.status))
        };
        let (raised, took) = bench.until(raised).await;
        assert_eq!(raised, ("fail".to_owned(), Status::Fail));
        assert!(took > Duration::from_secs(8) && took < Duration::from_secs(13), "{took:?}");
        let shown = bench.seen.lock().unwrap().findings.clone();
        assert!(shown.iter().any(|f| f.id == "port-state" && f.status == Status::Fail));
    });
}

#[test]
fn a_device_that_is_being_removed_is_gone_at_once() {
    run(async {
        let mut bench = Bench::start(2);
        bench.until(|endpoints, _, _| (endpoints.len() == 2).then_some(())).await;
        // Two glances, so that the device was there in one.
        tokio::time::sleep(Duration::from_millis(2_200)).await;
        // What is first to go: sysfs still lists the device as ACTIVE.
        bench.fake.folder().remove("sys/class/infiniband_verbs/uverbs0");
        let gone = |endpoints: &[EndpointInfo], _: &[FindingBrief], events: &[NodeEvent]| {
            let event = events.iter().find(|e| e.after == "gone")?;
            Some((event.subject.clone(), endpoints.iter().map(|e| e.name.device.clone()).collect::<Vec<_>>()))
        };
        let (gone, took) = bench.until(gone).await;
        assert_eq!(gone, ("mlx5_0/1".to_owned(), vec!["mlx5_1".to_owned()]));
        assert!(took < Duration::from_millis(1_300), "{took:?}");
        // It is read again after that, and stays gone.
        let (endpoints, _) = bench.until(|endpoints, _, _| Some(endpoints.len())).await;
        assert_eq!(endpoints, 1);
    });
}

#[test]
fn an_endpoint_says_why_it_cannot_be_used() {
    run(async {
        let mut bench = Bench::start(1);
        bench.until(|endpoints, _, _| (endpoints.len() == 1).then_some(())).await;
        bench.fake.pull_cable("mlx5_0");
        let (detail, _) = bench
            .until(|endpoints, _, _| {
                (endpoints[0].unusable == Some(Cause::PortDown)).then(|| endpoints[0].unusable_detail.clone())
            })
            .await;
        assert!(detail.starts_with("state DOWN"), "{detail}");
    });
}

#[test]
fn a_port_that_was_not_watched_for_long_enough_is_busy_and_says_why() {
    run(async {
        let mut bench = Bench::start(1);
        let told = async {
            loop {
                match bench.news.recv().await.expect("the watcher works") {
                    News::Idle(ports) if !ports.is_empty() => return ports,
                    _ => {}
                }
            }
        };
        let ports = timeout(Duration::from_secs(20), told).await.expect("told in time");
        let (name, idle) = ports.first_key_value().unwrap();
        assert_eq!(name.to_string(), "a/mlx5_0/1");
        let why = idle.clone().unwrap_err();
        assert!(why.starts_with("it cannot be told whether the port is idle: watched for 0 s"), "{why}");
    });
}

#[test]
fn who_holds_a_device_is_asked_of_the_machine_as_it_is_now() {
    run(async {
        let fake = FakeHost::mlx5(1);
        let host = Host::new(fake.root().to_owned()).unwrap();
        fake.folder().write("rdmascope/rdma/queue_pairs", "mlx5_0 1 0 ib_core 2\n");
        assert_eq!(held(&host, "mlx5_0").await, Ok(()));
        fake.folder().write("rdmascope/rdma/queue_pairs", "mlx5_0 1 4711 python3 16\n");
        let why = held(&host, "mlx5_0").await.unwrap_err();
        assert!(why.starts_with("process 4711 holds mlx5_0 (python3"), "{why}");
    });
}

#[test]
fn another_policy_judges_at_once_and_its_rules_know_old_lines_of_the_kernel_log() {
    const RULE: &str = "- {id: gremlin, source: kernel, match: [gremlin in the cable], class: E, meaning: m, causes: [c], \
                        next_steps: [n], whose: host, row: '', matches: [gremlin in the cable], not_matches: [none]}";
    run(async {
        let mut bench = Bench::start(1);
        bench.until(|endpoints, _, _| (endpoints.len() == 1).then_some(())).await;
        let rate = |_: &[EndpointInfo], findings: &[FindingBrief], _: &[NodeEvent]| {
            Some(findings.iter().any(|found| found.id == "port-rate"))
        };
        assert!(!bench.until(rate).await.0, "nobody expects another rate yet");
        // Written now: what is older than a day counts no longer.
        let line = format!("{} a kernel: gremlin in the cable\n", Clock::new().now().wall);
        bench.fake.folder().write("kern.log", &line);

        let pinned = "manifest:\n  - {device: mlx5_0, rate_gbps: 10}\n";
        let policy = rdmascope_config::parse(pinned, std::path::Path::new("config")).unwrap().policy;
        let rules = rdmascope_checks::log::Rules::with_folder(&[("own.yaml".to_owned(), RULE.to_owned())]);
        bench.policy.send(Policy { rules: rules.unwrap(), ..policy }).unwrap();
        let (log, _) = bench
            .until(|_, findings, _| {
                let rules: Vec<&str> = findings.iter().map(|found| found.id.as_str()).collect();
                (rules.contains(&"port-rate") && rules.iter().any(|id| id.contains("gremlin"))).then_some(())
            })
            .await;
        assert_eq!(log, ());
    });
}
