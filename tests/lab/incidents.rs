//! Faults that are made for real, and the one incident that each must end in: who, what, and none beside it; none at all while all is well.

use rdmascope_tests::guest::{Api, Cluster, Endpoint, Undo, endpoints, pairs, wait_until};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// A mesh at its usual rate needs some 10 s, an emulated machine that shares its processors several times that.
const PATIENCE: Duration = Duration::from_secs(240);
/// What is over is told 20 s after it was seen last; cells live a little longer.
const OVER: Duration = Duration::from_secs(180);
/// `cargo xtask faults --lab` asks for longer by this variable, in seconds.
const HEALTHY: (&str, u64) = ("RDMASCOPE_HEALTHY_SECONDS", 60);

/// What is broken, how, and the effects that name it rightly.
type Fault = (&'static str, fn(Endpoint) -> Undo, &'static [&'static str]);

/// What the nodes tell of themselves.
const TOLD: [Fault; 3] = [
    ("port down", Endpoint::down, &["dead", "setting"]),
    ("no usable GID", Endpoint::without_address, &["dead", "setting"]),
    ("device removed", Endpoint::remove_device, &["dead", "setting"]),
];
/// What only pings can tell.
const MEASURED: [Fault; 4] = [
    ("nothing arrives", |endpoint| endpoint.netem("loss 100%"), &["dead"]),
    ("5 % of what arrives is lost", |endpoint| endpoint.netem("loss 5%"), &["lossy"]),
    ("large packets are lost", Endpoint::hole_for_large_packets, &["large-lost"]),
    ("20 ms of delay", |endpoint| endpoint.netem("delay 20ms"), &["slow"]),
];

fn open(api: &Api) -> Result<Vec<Value>, String> {
    let all = api.json("/api/v1/incidents")?;
    let list = all["incidents"].as_array().cloned().unwrap_or_default();
    Ok(list.into_iter().filter(|incident| incident["state"] == json!("open")).collect())
}

fn line(incident: &Value) -> String {
    let word = |key: &str| incident[key].as_str().unwrap_or_default().to_owned();
    format!("{} [{}, {}]", word("title"), word("effect"), word("confidence"))
}

/// No incident is open, for as long as it takes.
#[track_caller]
fn wait_nothing_open(api: &Api) {
    wait_until("no incident is open", OVER, || {
        let seen = open(api)?;
        if seen.is_empty() { Ok(()) } else { Err(seen.iter().map(line).collect::<Vec<_>>().join("\n")) }
    });
}

/// Every pair has been pinged, so that the judge has something to compare with.
#[track_caller]
fn wait_pinged(api: &Api) {
    for (from, to) in pairs(endpoints()) {
        wait_until("every pair answers pings", PATIENCE, || {
            let cell = api.cell("ping", from, to);
            if cell["state"] == json!("fresh") { Ok(()) } else { Err(cell.to_string()) }
        });
    }
}

/// Whether an incident blames this endpoint or its node, and nothing else.
fn blames(incident: &Value, endpoint: Endpoint) -> bool {
    let own = |component: &Value| {
        let name = component["name"].as_str().unwrap_or_default();
        name == endpoint.name() || name == endpoint.node()
    };
    incident["components"].as_array().is_some_and(|all| !all.is_empty() && all.iter().all(own))
}

#[test]
fn a_healthy_cluster_has_no_incident() {
    let cluster = Cluster::start(endpoints());
    let api = cluster.api();
    api.wait_usable(endpoints());
    wait_pinged(&api);
    let asked = std::env::var(HEALTHY.0).ok().and_then(|text| text.parse().ok());
    let watched = Duration::from_secs(asked.unwrap_or(HEALTHY.1));
    let began = Instant::now();
    while began.elapsed() < watched {
        let all = api.json("/api/v1/incidents").unwrap();
        let list = all["incidents"].as_array().cloned().unwrap_or_default();
        let told: Vec<String> =
            list.iter().filter(|incident| !incident["opened_at"].is_null()).map(line).collect();
        assert!(told.is_empty(), "after {} s: {told:#?}", began.elapsed().as_secs());
        std::thread::sleep(Duration::from_secs(1));
    }
    eprintln!("incidents: none in {} s on a healthy cluster", watched.as_secs());
}

#[test]
fn what_a_node_tells_of_itself_is_one_incident_that_names_its_endpoint() {
    each_is_one_incident(&TOLD);
}

#[test]
#[ignore = "takes ten minutes in an emulated machine; `cargo xtask faults --lab` runs it"]
fn what_pings_tell_is_one_incident_that_names_its_endpoint() {
    each_is_one_incident(&MEASURED);
}

#[track_caller]
fn each_is_one_incident(faults: &[Fault]) {
    let cluster = Cluster::start(endpoints());
    let api = cluster.api();
    api.wait_usable(endpoints());
    wait_pinged(&api);
    for ((name, make, effects), broken) in faults.iter().zip([2, 3, 4, 2].map(Endpoint)) {
        wait_nothing_open(&api);
        let began = Instant::now();
        let fault = make(broken);
        let told = wait_until(&format!("{name}: an incident"), PATIENCE, || {
            let seen = open(&api)?;
            let right = |incident: &&Value| {
                blames(incident, broken) && effects.iter().any(|effect| incident["effect"] == json!(effect))
            };
            let all = || seen.iter().map(line).collect::<Vec<_>>().join("\n");
            match seen.iter().find(right) {
                Some(incident) if seen.len() == 1 => Ok(incident.clone()),
                _ => Err(format!("{name} of {}: {}", broken.name(), all())),
            }
        });
        eprintln!("incidents: {name}: after {:.1} s: {}", began.elapsed().as_secs_f64(), line(&told));
        assert!(!told["next_step"].as_str().unwrap_or_default().is_empty(), "{told}");
        assert_eq!(told["nodes"], json!([broken.node()]), "{told}");
        drop(fault);
        api.wait_usable([broken]);
    }
    wait_nothing_open(&api);
}
