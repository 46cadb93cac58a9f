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
    _task: tokio::task::JoinHandle<()>,
}

impl Bench {
    fn start(ports: usize) -> Self {
        let fake = FakeHost::mlx5(ports);
        let seen = Arc::default();
        let (sender, news) = mpsc::channel(64);
        let watcher = Watcher {
            host: Host::new(fake.root().to_owned()).unwrap(),
            node: "a".to_owned(),
            devices: Vec::new(),
            kernel_log: Some("/nonexistent".into()),
            policy: Policy::default(),
            pause_file: fake.root().join("pause"),
            clock: Clock::new(),
            own: Arc::default(),
            counted: AgentOwn::new(&prometheus::Registry::new()).unwrap(),
            seen: Arc::clone(&seen),
            news: sender,
        };
        Self { fake, seen, news, _task: tokio::spawn(watcher.watch()) }
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
