//! From a port that is really down to the one message that somebody gets: agents, coordinator, Prometheus and Alertmanager as they are
//! shipped, with the shipped rules and routes, and a webhook at the end.

use rdmascope_tests::guest::{Api, Cluster, Endpoint, Program, endpoints, pairs, wait_until};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const RULES: &str = include_str!("../../dashboards/alerts/rdmascope.yaml");
const ROUTES: &str = include_str!("../../dashboards/alerts/alertmanager/alertmanager.yaml");
const PROMETHEUS: &str = "127.0.0.1:9090";
const ALERTMANAGER: &str = "127.0.0.1:9093";
/// In the shipped routes, where the operator's own receivers belong.
const RECEIVER: &str = "127.0.0.1:9911";
/// Starting either server in an emulated machine.
const START_LIMIT: Duration = Duration::from_secs(120);
/// Pings of all pairs, and the longest wait of the rules (2 minutes), several times over.
const PATIENCE: Duration = Duration::from_secs(600);
/// Longer than a group waits and than Prometheus sends again: whatever is to be told is told by then.
const QUIET: Duration = Duration::from_secs(30);

/// Agents come from the coordinator's service discovery, as dashboards/README.md shows.
const SCRAPES: &str = "
global: {scrape_interval: 2s, evaluation_interval: 2s}
rule_files: [rules.yaml]
alerting: {alertmanagers: [{static_configs: [{targets: ['127.0.0.1:9093']}]}]}
scrape_configs:
  - job_name: rdmascope-coordinator
    static_configs: [{targets: ['127.0.0.1:8080']}]
  - job_name: rdmascope-agents
    http_sd_configs: [{url: 'http://127.0.0.1:8080/api/v1/sd/prometheus', refresh_interval: 2s}]
";

/// Takes what Alertmanager sends; somebody has to call [`Self::look`].
struct Webhook {
    listener: TcpListener,
    /// Receiver and message, in the order in which they came.
    told: Vec<(String, Value)>,
}

impl Webhook {
    fn open() -> Self {
        let listener = TcpListener::bind(RECEIVER).unwrap_or_else(|error| panic!("{RECEIVER}: {error}"));
        listener.set_nonblocking(true).expect("a socket that does not wait");
        Self { listener, told: Vec::new() }
    }

    fn look(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(false).expect("a socket that waits");
            stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
            let mut reader = BufReader::new(&stream);
            let (mut head, mut line, mut length) = (String::new(), String::new(), 0);
            reader.read_line(&mut head).expect("a request");
            while reader.read_line(&mut line).expect("a header") > 2 {
                let lower = line.to_lowercase();
                if let Some(value) = lower.strip_prefix("content-length:") {
                    length = value.trim().parse().expect("a length");
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).expect("a body");
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            (&stream).write_all(answer.as_bytes()).expect("Alertmanager takes the answer");
            let path = head.split_whitespace().nth(1).unwrap_or_default().trim_start_matches('/').to_owned();
            self.told.push((path, serde_json::from_slice(&body).expect("JSON")));
        }
    }

    /// Everything that was told of a node, in short: receiver, whether it fires or is over, and the names of its alerts.
    fn about(&self, node: &str) -> Vec<String> {
        let of_node = |alert: &&Value| alert["labels"]["node"] == json!(node);
        let in_short = |(receiver, message): &(String, Value)| {
            let alerts = message["alerts"].as_array().map(Vec::as_slice).unwrap_or_default();
            let names = alerts.iter().filter(of_node).map(|alert| {
                Some(format!("{} {}", alert["labels"]["alertname"].as_str()?, alert["status"].as_str()?))
            });
            let names: Vec<String> = names.flatten().collect();
            (!names.is_empty()).then(|| format!("{receiver}: {}", names.join(", ")))
        };
        self.told.iter().filter_map(in_short).collect()
    }

    fn look_for(&mut self, span: Duration) {
        let until = Instant::now() + span;
        while Instant::now() < until {
            self.look();
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// Prometheus and Alertmanager over a cluster.
struct Servers {
    api: Api,
    _programs: [Program; 2],
}

impl Servers {
    fn start(folder: &Path) -> Self {
        // Only what makes a group's first message wait is shorter than shipped.
        let routes = ROUTES
            .replace("group_wait: 30s", "group_wait: 2s")
            .replace("group_interval: 5m", "group_interval: 5s");
        assert_ne!(routes, ROUTES, "the routes are not as they were");
        let files = [("rules.yaml", RULES), ("prometheus.yaml", SCRAPES), ("alertmanager.yaml", &routes)];
        for (name, text) in files {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
        let file = |name: &str| folder.join(name).display().to_string();
        let mut alertmanager = Command::new("prometheus-alertmanager");
        alertmanager.args([
            format!("--config.file={}", file("alertmanager.yaml")),
            format!("--storage.path={}", file("alertmanager")),
            format!("--web.listen-address={ALERTMANAGER}"),
            "--cluster.listen-address=".to_owned(),
        ]);
        let mut prometheus = Command::new("prometheus");
        prometheus.args([
            format!("--config.file={}", file("prometheus.yaml")),
            format!("--storage.tsdb.path={}", file("prometheus")),
            format!("--web.listen-address={PROMETHEUS}"),
            "--log.level=warn".to_owned(),
        ]);
        let programs = [("alertmanager", &mut alertmanager), ("prometheus", &mut prometheus)]
            .map(|(name, command)| Program::start(name, command, &folder.join(format!("{name}.log"))));
        for address in [ALERTMANAGER, PROMETHEUS] {
            let ready = Api::new(address, None);
            wait_until("the server is ready", START_LIMIT, || match ready.get("/-/ready")? {
                answer if answer.status == 200 => Ok(()),
                answer => Err(answer.text),
            });
        }
        Self { api: Api::new(PROMETHEUS, None), _programs: programs }
    }

    /// Samples of an instant query; `query` needs no escaping.
    fn query(&self, query: &str) -> Result<Vec<Value>, String> {
        let answer = self.api.json(&format!("/api/v1/query?query={query}"))?;
        Ok(answer["data"]["result"].as_array().cloned().unwrap_or_default())
    }

    /// Names of the alerts of a node that fire.
    fn firing(&self, node: &str) -> Result<Vec<String>, String> {
        let firing = self.query("ALERTS")?.into_iter().filter(|sample| {
            sample["metric"]["node"] == json!(node) && sample["metric"]["alertstate"] == json!("firing")
        });
        Ok(firing.filter_map(|sample| sample["metric"]["alertname"].as_str().map(str::to_owned)).collect())
    }
}

#[test]
fn a_port_that_goes_down_is_told_once_and_once_that_it_is_over() {
    let cluster = Cluster::start(endpoints());
    let api = cluster.api();
    api.wait_usable(endpoints());
    let mut webhook = Webhook::open();
    let servers = Servers::start(cluster.folder());
    let targets = endpoints().count() + 1;
    wait_until("Prometheus has found every agent and the coordinator", PATIENCE, || {
        let up = servers.query("up")?;
        let fine = up.iter().filter(|sample| sample["value"][1] == json!("1")).count();
        if fine == targets && up.len() == targets { Ok(()) } else { Err(format!("{up:?}")) }
    });
    for (from, to) in pairs(endpoints()) {
        wait_until("every pair answers pings", PATIENCE, || {
            let cell = api.cell("ping", from, to);
            if cell["state"] == json!("fresh") { Ok(()) } else { Err(cell.to_string()) }
        });
    }
    let broken = Endpoint(2);
    webhook.look();
    assert_eq!(webhook.about(&broken.node()), Vec::<String>::new(), "nothing is wrong yet");

    let began = Instant::now();
    let fault = broken.down();
    wait_until("somebody is told", PATIENCE, || {
        webhook.look();
        let told = webhook.about(&broken.node());
        if told.is_empty() { Err(format!("{:?}", servers.firing(&broken.node()))) } else { Ok(()) }
    });
    eprintln!("alerts: a port is down: told after {:.1} s", began.elapsed().as_secs_f64());
    // What others feel of it comes to Alertmanager, too, and goes no further.
    wait_until("the others feel it", PATIENCE, || {
        webhook.look();
        let firing = servers.firing(&broken.node())?;
        if firing.iter().any(|name| name == "RdmaIncident") { Ok(()) } else { Err(format!("{firing:?}")) }
    });
    eprintln!("alerts: the incident of the same port fires after {:.1} s", began.elapsed().as_secs_f64());
    webhook.look_for(QUIET);
    assert_eq!(webhook.about(&broken.node()), ["pager: RdmaPortDown firing"]);

    let mended = Instant::now();
    drop(fault);
    wait_until("somebody is told that it is over", PATIENCE, || {
        webhook.look();
        let told = webhook.about(&broken.node());
        if told.len() > 1 { Ok(()) } else { Err(format!("{:?}", servers.firing(&broken.node()))) }
    });
    eprintln!("alerts: it is over: told after {:.1} s", mended.elapsed().as_secs_f64());
    wait_until("nothing of it fires any more", PATIENCE, || {
        webhook.look();
        let firing = servers.firing(&broken.node())?;
        if firing.is_empty() { Ok(()) } else { Err(format!("{firing:?}")) }
    });
    webhook.look_for(QUIET);
    assert_eq!(webhook.about(&broken.node()), ["pager: RdmaPortDown firing", "pager: RdmaPortDown resolved"]);
}
