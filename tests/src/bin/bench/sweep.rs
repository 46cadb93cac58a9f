//! A full sweep of latency and bandwidth, against a script of perftest runs over the same pairs in the same boot.

use super::row::{Asked, Row};
use super::{median, perftest, while_paused};
use rdmascope_tests::guest::{Api, Endpoint, endpoints, pairs};
use std::time::Instant;

/// Our sweeps; the median counts.
const SWEEPS: usize = 7;

pub(crate) fn rows(api: &Api) -> Vec<Row> {
    eprintln!("bench: {SWEEPS} full sweeps");
    let ours: Vec<f64> = (0..SWEEPS)
        .map(|_| {
            let began = Instant::now();
            let sweep = api.wait_sweep(api.begin_sweep("all"));
            let took = began.elapsed().as_secs_f64();
            assert_eq!(sweep["failed"].as_u64(), Some(0), "a sweep with failures is no measurement: {sweep}");
            took
        })
        .collect();
    for (from, to) in pairs(endpoints()) {
        let latency = api.cell("latency", from, to)["figures"]["count"].as_u64();
        let bandwidth = api.cell("bandwidth", from, to)["figures"]["count"].as_u64();
        assert!(
            latency >= Some(1_000) && bandwidth >= Some(100),
            "{from:?} to {to:?}: {latency:?}, {bandwidth:?}"
        );
    }
    let (theirs, overhead) = script(api);
    let seconds = median(ours);
    vec![
        Row {
            what: "full sweep, 4 endpoints, 12 ordered pairs",
            seen: seconds,
            unit: "s",
            asked: Asked::Nothing,
            against: Some(("perftest script, s", theirs)),
        },
        Row {
            what: "full sweep, times faster than the perftest script",
            seen: theirs / seconds,
            unit: "x",
            asked: Asked::AtLeast(20.0),
            against: None,
        },
        Row {
            what: "of the script: perftest's start-up and calibration",
            seen: overhead,
            unit: "s",
            asked: Asked::Nothing,
            against: Some(("perftest script, s", theirs)),
        },
    ]
}

/// Sweeps of UD pings of both sizes and of bandwidth.
pub(crate) fn datagram_rows(api: &Api) -> Vec<Row> {
    eprintln!("bench: {SWEEPS} sweeps of pings and bandwidth");
    let ours: Vec<f64> = (0..SWEEPS)
        .map(|_| {
            let began = Instant::now();
            for metric in ["ping", "bandwidth"] {
                let sweep = api.wait_sweep(api.begin_sweep(metric));
                assert_eq!(
                    sweep["failed"].as_u64(),
                    Some(0),
                    "a sweep with failures is no measurement: {sweep}"
                );
            }
            began.elapsed().as_secs_f64()
        })
        .collect();
    for (from, to) in pairs(endpoints()) {
        let figures = api.cell("ping", from, to)["figures"].clone();
        let answered = |size: &str| figures[size]["answered"].as_u64();
        assert!(answered("small") > Some(0) && answered("large") > Some(0), "{from:?} to {to:?}: {figures}");
    }
    let (theirs, _) = script(api);
    let seconds = median(ours);
    vec![
        Row {
            what: "sweep of UD latency, full-MTU datagrams and bandwidth",
            seen: seconds,
            unit: "s",
            asked: Asked::Nothing,
            against: Some(("perftest script, s", theirs)),
        },
        Row {
            what: "the same, times faster than the perftest script",
            seen: theirs / seconds,
            unit: "x",
            asked: Asked::AtLeast(15.0),
            against: None,
        },
    ]
}

/// A script of perftest runs over the same pairs: seconds in all, and of them what its start-up takes.
fn script(api: &Api) -> (f64, f64) {
    eprintln!("bench: the same pairs with ib_write_lat and ib_write_bw, one after another");
    let script = |tool, from, to, arguments| perftest(tool, from, to, arguments, ["", ""]);
    while_paused(api, || {
        let began = Instant::now();
        for (from, to) in pairs(endpoints()) {
            script("ib_write_lat", from, to, "-s 8 -n 1000");
            script("ib_write_bw", from, to, "-s 65536 -n 100 -t 8");
        }
        let theirs = began.elapsed().as_secs_f64();
        let (runs, shortest) = (2.0 * pairs(endpoints()).count() as f64, 5);
        let began = Instant::now();
        for _ in 0..shortest {
            // Five messages: what is left is start-up, calibration of the clock and the exchange of addresses.
            script("ib_write_lat", Endpoint(1), Endpoint(2), "-s 8 -n 5");
        }
        (theirs, began.elapsed().as_secs_f64() / f64::from(shortest) * runs)
    })
}
