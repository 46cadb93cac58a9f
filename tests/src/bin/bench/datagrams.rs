//! What is injected into the lab's network, and what the pings of a pair say of it: direction, size, network or host, and how far the
//! figure is off.

use super::pair::figures;
use super::row::{Asked, Row};
use super::{median, probe_view, while_paused};
use rdmascope_tests::guest::{Api, Cluster, Endpoint, Undo, run};
use serde_json::Value;

const FROM: Endpoint = Endpoint(1);
const TO: Endpoint = Endpoint(2);
/// How far a count may be off by chance: three standard deviations of a binomial distribution, which one in 370 exceeds.
const DEVIATIONS: f64 = 3.0;

/// All batches of one fault together.
#[derive(Default)]
struct Seen {
    /// Small and large: sent, answered, lost forward, lost backward, duplicate, reordered.
    sent: [f64; 2],
    answered: [f64; 2],
    forward: [f64; 2],
    backward: [f64; 2],
    duplicate: f64,
    reordered: f64,
    network_us: Vec<f64>,
    large_us: Vec<f64>,
    responder_us: Vec<f64>,
    prober_us: Vec<f64>,
    responder_max_us: Vec<f64>,
}

impl Seen {
    fn both(of: [f64; 2]) -> f64 {
        of[0] + of[1]
    }

    fn forward_share(&self) -> f64 {
        Self::both(self.forward) / Self::both(self.sent)
    }

    /// Of the answers that the peer sent.
    fn backward_share(&self) -> f64 {
        Self::both(self.backward) / (Self::both(self.sent) - Self::both(self.forward))
    }

    fn network(&self) -> f64 {
        median(self.network_us.clone())
    }
}

/// Probes the pair so often, with the fault in place.
fn pings(api: &Api, times: usize) -> Seen {
    let mut seen = Seen::default();
    for _ in 0..times {
        let view = probe_view(api, FROM, TO, "ping");
        let found = &view["measurements"][0]["at_source"]["pings"];
        add(&mut seen, found);
    }
    seen
}

fn add(seen: &mut Seen, found: &Value) {
    for (at, size) in ["small", "large"].into_iter().enumerate() {
        let count = |name: &str| found[size][name].as_f64().unwrap_or(0.0);
        seen.sent[at] += count("sent");
        seen.answered[at] += count("answered");
        seen.forward[at] += count("lost_forward");
        seen.backward[at] += count("lost_backward");
        seen.duplicate += count("duplicate");
        seen.reordered += count("reordered");
    }
    let delay = |kind: &str, what: &str| found[kind][what].as_f64().map(|ns| ns / 1e3);
    seen.network_us.extend(delay("network", "p50_ns"));
    seen.large_us.extend(delay("network_large", "p50_ns"));
    seen.responder_us.extend(delay("responder", "p50_ns"));
    seen.prober_us.extend(delay("prober", "p50_ns"));
    seen.responder_max_us.extend(delay("responder", "max_ns"));
}

/// The share that chance allows to be seen of one that was injected.
fn about(share: f64, of: f64) -> Asked {
    let off = DEVIATIONS * (share * (1.0 - share) / of).sqrt();
    Asked::Between((share - off).max(0.0), share + off)
}

fn row(
    what: &'static str,
    seen: f64,
    unit: &'static str,
    asked: Asked,
    injected: (&'static str, f64),
) -> Row {
    Row { what, seen, unit, asked, against: Some(injected) }
}

pub(crate) fn rows(cluster: &mut Cluster, print: &mut dyn FnMut(Vec<Row>)) {
    let api = cluster.api();
    eprintln!("bench: pings without a fault");
    let quiet = pings(&api, 4);
    print(vec![
        row(
            "no fault: share lost forward",
            quiet.forward_share(),
            "",
            Asked::AtMost(0.001),
            ("injected", 0.0),
        ),
        row(
            "no fault: share lost backward",
            quiet.backward_share(),
            "",
            Asked::AtMost(0.001),
            ("injected", 0.0),
        ),
        row("no fault: network round trip, p50", quiet.network(), "us", Asked::Nothing, ("injected", 0.0)),
    ]);
    loss(&api, print);
    delays(&api, &quiet, print);
    order(&api, print);
    size(&api, print);
    starved(cluster, &quiet, print);
}

/// Loss in one direction: so much of it, there, and none the other way.
fn loss(api: &Api, print: &mut dyn FnMut(Vec<Row>)) {
    let forward: [(&str, f64, usize, [&'static str; 2]); 3] = [
        (
            "loss 0.1%",
            0.001,
            24,
            ["loss 0.1 % forward: share reported", "loss 0.1 % forward: share backward"],
        ),
        ("loss 1%", 0.01, 10, ["loss 1 % forward: share reported", "loss 1 % forward: share backward"]),
        ("loss 5%", 0.05, 6, ["loss 5 % forward: share reported", "loss 5 % forward: share backward"]),
    ];
    for (fault, share, times, [there, back]) in forward {
        eprintln!("bench: {fault} on the way to {}", TO.device());
        let seen = {
            let _undo = TO.netem(fault);
            pings(api, times)
        };
        let of = Seen::both(seen.sent);
        print(vec![
            row(there, seen.forward_share(), "", about(share, of), ("injected", share)),
            row(back, seen.backward_share(), "", Asked::AtMost(0.001), ("injected", 0.0)),
        ]);
    }
    eprintln!("bench: loss 5% on the way back");
    let seen = {
        let _undo = FROM.netem("loss 5%");
        pings(api, 6)
    };
    let answers = Seen::both(seen.sent) - Seen::both(seen.forward);
    print(vec![
        row(
            "loss 5 % backward: share reported",
            seen.backward_share(),
            "",
            about(0.05, answers),
            ("injected", 0.05),
        ),
        row(
            "loss 5 % backward: share forward",
            seen.forward_share(),
            "",
            Asked::AtMost(0.001),
            ("injected", 0.0),
        ),
    ]);
}

/// What perftest sees of the same path with datagrams of the same size, which its program answers without sleeping: microseconds there
/// and back. The emulated machine's timers delay by more than they were told to, so this is the yardstick, and not what was told.
fn perftest_us(api: &Api) -> f64 {
    let run = |_| 2.0 * figures("ib_send_lat", "-c UD -s 64 -n 300", "64 ")[4];
    median(while_paused(api, || (0..5).map(run).collect()))
}

/// Delay and rate: in the network's share of the time, by as much as perftest sees.
fn delays(api: &Api, quiet: &Seen, print: &mut dyn FnMut(Vec<Row>)) {
    eprintln!("bench: delay 1 ms, varied by 0.3 ms");
    let before = perftest_us(api);
    let (seen, injected) = {
        let _undo = TO.netem("delay 1ms 0.3ms");
        (pings(api, 6), perftest_us(api) - before)
    };
    let more = seen.network() - quiet.network();
    print(vec![
        row(
            "delay 1 +- 0.3 ms: more network round trip, p50",
            more,
            "us",
            Asked::Between(0.8 * injected, 1.25 * injected),
            ("ib_send_lat -c UD: more, us", injected),
        ),
        row(
            "delay 1 +- 0.3 ms: hosts' share of what was added",
            (hosts(&seen) - hosts(quiet)) / (more + hosts(&seen) - hosts(quiet)),
            "",
            Asked::AtMost(0.25),
            ("injected", 0.0),
        ),
        row(
            "delay 1 +- 0.3 ms: share answered",
            seen.answered.iter().sum::<f64>() / Seen::both(seen.sent),
            "",
            Asked::AtLeast(0.999),
            ("injected", 1.0),
        ),
    ]);
    rate(api, quiet, print);
}

/// Time in both hosts together.
fn hosts(seen: &Seen) -> f64 {
    median(seen.responder_us.clone()) + median(seen.prober_us.clone())
}

fn rate(api: &Api, quiet: &Seen, print: &mut dyn FnMut(Vec<Row>)) {
    eprintln!("bench: a rate of 100 Mbit/s");
    let (seen, ours, theirs) = {
        let _undo = TO.netem("rate 100mbit");
        let seen = pings(api, 4);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            let view = probe_view(api, FROM, TO, "bandwidth");
            let bps = view["pair"]["bandwidth"]["figures"]["average_bits_per_second"].as_f64();
            ours.push(bps.unwrap_or(f64::NAN) / 1e6);
            // As here, each message tells of its end. (Told of every eighth only, Soft-RoCE does not send again without need.)
            let run =
                || figures("ib_write_bw", "-s 65536 -n 100 -t 8 -Q 1 --report_gbits", "65536 ")[3] * 1e3;
            theirs.push(while_paused(api, run));
        }
        (seen, median(ours), median(theirs))
    };
    // 4,096 bytes of payload with 58 of headers; the small one with 122 in all.
    let injected = (4_154.0 - 122.0) * 8.0 / 100.0;
    let differ = |seen: &Seen| median(seen.large_us.clone()) - seen.network();
    print(vec![
        row(
            "rate 100 Mbit/s: more for a large ping than for a small one",
            differ(&seen) - differ(quiet),
            "us",
            Asked::Between(0.75 * injected, 1.5 * injected),
            ("injected, us", injected),
        ),
        row(
            "rate 100 Mbit/s: bandwidth",
            ours,
            "Mbit/s",
            Asked::Between(0.8 * theirs, 100.0),
            ("ib_write_bw -Q 1, Mbit/s", theirs),
        ),
    ]);
}

/// Order and doubles: counted as what they are, and not as loss.
fn order(api: &Api, print: &mut dyn FnMut(Vec<Row>)) {
    eprintln!("bench: reordering");
    let seen = {
        let _undo = TO.netem("delay 3ms reorder 25%");
        pings(api, 4)
    };
    print(vec![
        row(
            "a quarter overtakes by 3 ms: share reported as reordered",
            seen.reordered / Seen::both(seen.sent),
            "",
            Asked::Between(0.1, 0.5),
            ("injected", 0.25),
        ),
        row(
            "a quarter overtakes by 3 ms: share lost forward",
            seen.forward_share(),
            "",
            Asked::AtMost(0.002),
            ("injected", 0.0),
        ),
    ]);
    eprintln!("bench: duplication");
    let seen = {
        let _undo = TO.netem("duplicate 5%");
        pings(api, 4)
    };
    print(vec![
        row(
            "5 % doubled forward: share reported as duplicate",
            seen.duplicate / Seen::both(seen.sent),
            "",
            about(0.05, Seen::both(seen.sent)),
            ("injected", 0.05),
        ),
        row(
            "5 % doubled forward: share lost forward",
            seen.forward_share(),
            "",
            Asked::AtMost(0.001),
            ("injected", 0.0),
        ),
    ]);
}

/// A path that swallows large packets only.
fn size(api: &Api, print: &mut dyn FnMut(Vec<Row>)) {
    eprintln!("bench: large packets only are lost on the way to {}", TO.device());
    let (seen, verdicts) = {
        let _undo = TO.hole_for_large_packets();
        let seen = pings(api, 2);
        let path = format!("/api/v1/pairs/{}/{}", name(FROM), name(TO));
        (seen, api.json(&path).unwrap_or_else(|why| panic!("{why}"))["verdicts"].clone())
    };
    let share = |at: usize| 1.0 - seen.answered[at] / seen.sent[at];
    let named = verdicts.as_array().is_some_and(|all| all.iter().any(|v| v["id"] == "path-mtu"));
    print(vec![
        row(
            "large packets lost: share of small pings lost",
            share(0),
            "",
            Asked::AtMost(0.001),
            ("injected", 0.0),
        ),
        row(
            "large packets lost: share of large pings lost",
            share(1),
            "",
            Asked::AtLeast(1.0),
            ("injected", 1.0),
        ),
        row(
            "large packets lost: share of large pings lost forward",
            seen.forward[1] / seen.sent[1],
            "",
            Asked::AtLeast(1.0),
            ("injected", 1.0),
        ),
        row(
            "large packets lost: the pair's verdict names path-mtu",
            f64::from(u8::from(named)),
            "",
            Asked::AtLeast(1.0),
            ("asked", 1.0),
        ),
    ]);
}

/// A host without processor time: its own time grows, that of the network does not.
fn starved(cluster: &mut Cluster, quiet: &Seen, print: &mut dyn FnMut(Vec<Row>)) {
    let api = cluster.api();
    let pid = cluster.agent(TO).pid();
    eprintln!("bench: the agent of {} shares its only processor with three busy programs", TO.device());
    let seen = {
        let _undo = hog(pid);
        pings(&api, 4)
    };
    let responder = median(seen.responder_us.clone());
    print(vec![
        row(
            "starved responder: time in its host, p50",
            responder,
            "us",
            Asked::Nothing,
            ("unstarved, us", median(quiet.responder_us.clone())),
        ),
        row(
            "starved responder: its host's share grew by",
            responder - median(quiet.responder_us.clone()),
            "us",
            Asked::AtLeast(500.0),
            ("asked, us", 500.0),
        ),
        row(
            "starved responder: the network's share grew, of what the host's did",
            (seen.network() - quiet.network()) / (responder - median(quiet.responder_us.clone())),
            "",
            Asked::AtMost(0.25),
            ("asked", 0.0),
        ),
        row(
            "starved responder: largest time in its host",
            median(seen.responder_max_us),
            "us",
            Asked::Nothing,
            ("unstarved, us", median(quiet.responder_max_us.clone())),
        ),
    ]);
}

/// Three busy programs share the process's only processor with it. Soft-RoCE moves packets in the kernel's thread for soft interrupts,
/// which would be starved like programs; an adapter needs no processor for that, so this thread goes before them.
fn hog(pid: u32) -> Undo {
    let _ = run(&format!(
        "chrt -f -p 50 $(pgrep -x ksoftirqd/0); taskset -a -c -p 0 {pid}; \
         for i in 1 2 3; do taskset -c 0 timeout 120 sh -c 'while :; do :; done' > /dev/null 2>&1 & done; sleep 1"
    ));
    Undo::new(&format!(
        "pkill -f 'while :; do :; don[e]'; taskset -a -c -p 0-1 {pid}; chrt -o -p 0 $(pgrep -x ksoftirqd/0)"
    ))
}

fn name(endpoint: Endpoint) -> String {
    format!("{}%2F{}%2F1", endpoint.node(), endpoint.device())
}
