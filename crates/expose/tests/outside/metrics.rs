//! What a scraper gets from the agent and the coordinator.

use std::collections::BTreeSet;

use rdmascope_expose::api::CellState;
use rdmascope_expose::metrics::{
    Family, IncidentState, Kind, PairRow, Scrape, WorstOf, WorstRow, agent, families, pairs, worst_pairs,
};
use rdmascope_model::{EndpointName, GidType, LinkLayer, Metric, PortState, Reading, Status};

use crate::samples::{self, agent_input, agent_text, all_pairs, finding, fresh, names, port, snapshot};

/// Every sample as name, labels with braces, value.
fn sample_lines(text: &str) -> Vec<(&str, &str, &str)> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = series.find('{').map_or((series, ""), |at| series.split_at(at));
            (name, labels, value)
        })
        .collect()
}

fn value<'a>(text: &'a str, series: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
}

fn label_names(labels: &str) -> BTreeSet<&str> {
    labels.trim_matches(['{', '}']).split("\",").filter_map(|part| Some(part.split_once('=')?.0)).collect()
}

fn base<'a>(name: &'a str, served: &[&Family]) -> &'a str {
    let parts = ["_bucket", "_sum", "_count"].into_iter().filter_map(|suffix| name.strip_suffix(suffix));
    parts
        .into_iter()
        .find(|base| served.iter().any(|f| f.name == *base && f.kind == Kind::Histogram))
        .unwrap_or(name)
}

#[test]
fn every_family_of_the_catalogue_is_served_and_no_other_with_exactly_its_labels() {
    for (text, scrapes) in [
        (agent_text(), [Scrape::Agent, Scrape::Both]),
        (samples::coordinator_text(), [Scrape::Coordinator, Scrape::Both]),
        (samples::pairs_text(), [Scrape::Pairs, Scrape::Pairs]),
    ] {
        let served: Vec<&Family> = families().filter(|f| scrapes.contains(&f.scrape)).collect();
        let mut seen = BTreeSet::new();
        for (name, labels, value) in sample_lines(&text) {
            let name = base(name, &served);
            let family = served.iter().find(|f| f.name == name);
            let family = family.unwrap_or_else(|| panic!("{name} is not in the catalogue for this answer"));
            let known: BTreeSet<&str> = family.labels.iter().copied().chain(["le"]).collect();
            assert!(label_names(labels).is_subset(&known), "{name}{labels}");
            assert!(value.parse::<f64>().is_ok(), "{name}{labels} {value}");
            seen.insert(name);
        }
        for family in &served {
            assert!(seen.contains(family.name), "{} is never written", family.name);
            let help = format!("# HELP {} ", family.name);
            assert_eq!(text.matches(&help).count(), 1, "{help}");
            let kind = format!("# TYPE {} {}\n", family.name, family.kind.as_str());
            assert_eq!(text.matches(&kind).count(), 1, "{kind}");
        }
        let series: Vec<_> =
            sample_lines(&text).into_iter().map(|(name, labels, _)| (name, labels)).collect();
        let distinct: BTreeSet<_> = series.iter().collect();
        assert_eq!(distinct.len(), series.len(), "a series stands twice");
    }
}

#[test]
fn values_are_in_base_units() {
    let text = agent_text();
    assert_eq!(
        value(&text, r#"rdmascope_port_rate_bytes_per_second{device="mlx5_0",port="1"}"#),
        Some("12500000000")
    );
    // The kernel counts words of 4 bytes.
    assert_eq!(
        value(&text, r#"rdmascope_port_data_received_bytes_total{device="mlx5_0",port="1"}"#),
        Some("28")
    );
    assert_eq!(value(&text, "rdmascope_checks_last_run_timestamp_seconds"), Some("1796000000.5"));
    let text = samples::coordinator_text();
    assert_eq!(value(&text, "rdmascope_matrix_median_latency_seconds"), Some("0.000002"));
    assert_eq!(value(&text, r#"rdmascope_sweep_probes{metric="latency",state="waiting"}"#), Some("3"));
    // 6 fresh and 2 failed of the 11 that are not excluded.
    let coverage: f64 =
        value(&text, r#"rdmascope_matrix_coverage_ratio{metric="latency"}"#).unwrap().parse().unwrap();
    assert!((coverage - 8.0 / 11.0).abs() < 1e-12);
}

#[test]
fn a_node_of_eight_ports_on_which_everything_is_wrong_has_a_bounded_number_of_series() {
    let mut node = snapshot(vec![port()]);
    let Reading::Value(devices) = &mut node.devices else { panic!("no devices") };
    let first = devices[0].clone();
    *devices =
        (0..8).map(|at| rdmascope_model::Device { name: format!("mlx5_{at}"), ..first.clone() }).collect();
    let Reading::Value(netdevs) = &mut node.netdevs else { panic!("no network devices") };
    let all = (0..8).flat_map(|priority| {
        [
            "rx_prioN_pause",
            "rx_prioN_pause_duration",
            "tx_prioN_pause",
            "tx_prioN_pause_duration",
            "rx_prioN_marked",
        ]
        .map(|name| (name.replace('N', &priority.to_string()), 1))
    });
    netdevs.values_mut().for_each(|netdev| netdev.statistics = Reading::Value(all.clone().collect()));
    let findings: Vec<_> = (0..70)
        .flat_map(|check: u32| (0..20).map(move |subject: u32| (check, subject)))
        .map(|(check, subject)| rdmascope_model::Finding {
            id: format!("check-{check}").into(),
            subject: format!("p{subject}"),
            ..finding("", Status::Fail)
        })
        .collect();
    let text = agent(&agent_input(Some(&node), &findings));
    let series = sample_lines(&text).len();
    eprintln!("series of an agent's /metrics: {series}");
    assert!(series <= 1_500, "{series}");
}

#[test]
fn a_histogram_is_added_up_and_ends_with_all_of_it() {
    let text = samples::coordinator_text();
    let of = |series: &str| value(&text, series).map(str::to_owned);
    let bucket = |le: &str| {
        let labels = format!(r#"method="rc_half_rtt",rail="rail-0",scope="leaf",le="{le}""#);
        of(&format!("rdmascope_probe_latency_seconds_bucket{{{labels}}}"))
    };
    let seen = ["0.000001", "0.000002", "+Inf"].map(|le| bucket(le).unwrap_or_default());
    assert_eq!(seen, ["1", "3", "6"]);
    let labels = r#"{method="rc_half_rtt",rail="rail-0",scope="leaf"}"#;
    assert_eq!(of(&format!("rdmascope_probe_latency_seconds_count{labels}")).as_deref(), Some("6"));
    assert_eq!(of(&format!("rdmascope_probe_latency_seconds_sum{labels}")).as_deref(), Some("0.5"));
    let ratio = r#"rdmascope_probe_bandwidth_ratio_count{method="rc_write",scope="unknown"}"#;
    assert_eq!(of(ratio).as_deref(), Some("4"), "nobody told of rails");
}

#[test]
fn the_worst_pairs_have_their_ports_and_nodes_without_failed_pairs_no_sample() {
    let text = samples::coordinator_text();
    let of = |series: &str| value(&text, series).map(str::to_owned);
    let labels = r#"source_node="node1",source_device="mlx5_0",target_node="node2",target_device="mlx5_0/2",rail="rail-0""#;
    let latency = format!(r#"rdmascope_worst_pair_latency_seconds{{{labels},method="ud_network_rtt"}}"#);
    assert_eq!(of(&latency).as_deref(), Some("0.000009"));
    let bandwidth =
        format!(r#"rdmascope_worst_pair_bandwidth_bytes_per_second{{{labels},method="rc_write"}}"#);
    assert_eq!(of(&bandwidth).as_deref(), Some("1000"));
    assert_eq!(of(r#"rdmascope_node_failed_pairs{metric="ping",node="node1"}"#).as_deref(), Some("4"));
    assert_eq!(text.matches("rdmascope_rail_pairs{").count(), 5, "a group without a pair is not there");
}

#[test]
fn pauses_are_told_by_direction_and_priority_in_seconds() {
    let text = agent_text();
    let of = |name: &str, labels: &str| {
        let series = format!(r#"rdmascope_port_{name}_total{{device="mlx5_0",port="1",{labels}}}"#);
        value(&text, &series).map(str::to_owned)
    };
    assert_eq!(of("pfc_pause_frames", r#"direction="received",priority="3""#).as_deref(), Some("5"));
    assert_eq!(of("pfc_pause_frames", r#"direction="transmitted",priority="global""#).as_deref(), Some("7"));
    assert_eq!(of("pfc_pause_seconds", r#"direction="received",priority="3""#).as_deref(), Some("2.5"));
    assert_eq!(
        of("pfc_pause_seconds", r#"direction="transmitted",priority="3""#),
        None,
        "not there is not 0"
    );
    assert_eq!(of("ecn_marked_packets", r#"priority="3""#).as_deref(), Some("8"));
    assert_eq!(text.matches("\nrdmascope_port_pfc_pause_").count(), 5);
}

#[test]
fn it_is_told_when_each_part_was_read_and_each_check_made() {
    let text = agent_text();
    let of = |series: &str| value(&text, series).map(str::to_owned);
    let read = r#"rdmascope_collector_last_run_timestamp_seconds{collector="state"}"#;
    assert_eq!(of(read).as_deref(), Some("1796000001"));
    let checked = r#"rdmascope_check_last_run_timestamp_seconds{check="port-state"}"#;
    assert_eq!(of(checked).as_deref(), Some("1796000002"));
    assert_eq!(of(r#"rdmascope_collector_success{collector="kernel_log"}"#).as_deref(), Some("1"));
    let lost = Reading::Failed("EPERM".to_owned());
    let input = agent_input(None, &[]);
    let text = agent(&rdmascope_expose::metrics::AgentInput { kernel_log: &lost, ..input });
    assert_eq!(value(&text, r#"rdmascope_collector_success{collector="kernel_log"}"#), Some("0"));
}

#[test]
fn what_could_not_be_read_is_absent_and_said_to_be_unknown_never_zero() {
    let mut bad = port();
    bad.state = Reading::Failed("EACCES".to_owned());
    bad.rate_bps = Reading::Failed("EACCES".to_owned());
    bad.active_mtu = Reading::Absent;
    bad.gids_unread = vec!["slot 4: EIO".to_owned()];
    bad.counters.insert("packet_seq_err".to_owned(), Reading::Failed("EINVAL".to_owned()));
    let snapshot = snapshot(vec![bad]);
    let text = agent(&agent_input(Some(&snapshot), &[]));
    assert!(!text.contains("rdmascope_port_up"), "not seeing must not look like down");
    assert!(!text.contains("rdmascope_port_rate_bytes_per_second"));
    assert!(!text.contains("rdma_active"));
    assert!(!text.contains("rdmascope_port_gids"), "a part of the table is not the table");
    assert!(!text.contains("rdmascope_port_retransmits_total"));
    assert!(!text.contains("rdmascope_port_packet_sequence_errors_total"));
    let state = |s| format!(r#"rdmascope_port_state{{device="mlx5_0",port="1",state="{s}"}}"#);
    assert_eq!(value(&text, &state("unknown")), Some("1"));
    assert_eq!(value(&text, &state("down")), Some("0"));
    let collector = |c| format!(r#"rdmascope_collector_success{{collector="{c}"}}"#);
    assert_eq!(value(&text, &collector("ports")), Some("0"));
    assert_eq!(value(&text, &collector("counters")), Some("0"));
    assert_eq!(value(&text, &collector("netdevs")), Some("1"));
}

#[test]
fn before_the_first_reading_nothing_is_claimed() {
    let text = agent(&agent_input(None, &[]));
    assert!(!text.contains("rdmascope_port"));
    assert_eq!(text.matches("rdmascope_collector_success{").count(), 7);
    assert!(!text.contains("} 1\nrdmascope_collector"), "{text}");
    // The label is there only in programs that were told their revision (`build.rs`).
    assert_eq!(value(&text, r#"rdmascope_build_info{version="1.2.3",role="agent"}"#), Some("1"));
}

#[test]
fn a_port_that_is_down_is_zero_and_its_state_is_named() {
    let mut down = port();
    down.state = Reading::Value(PortState::Down);
    let snapshot = snapshot(vec![down]);
    let text = agent(&agent_input(Some(&snapshot), &[]));
    assert_eq!(value(&text, r#"rdmascope_port_up{device="mlx5_0",port="1"}"#), Some("0"));
    assert_eq!(value(&text, r#"rdmascope_port_state{device="mlx5_0",port="1",state="down"}"#), Some("1"));
}

#[test]
fn a_check_shows_the_worst_of_all_that_it_looked_at() {
    let findings = [
        finding("port-state", Status::Ok),
        finding("port-state", Status::Fail),
        finding("port-state", Status::Unknown),
        finding("mtu", Status::Warn),
    ];
    let text = agent(&agent_input(None, &findings));
    let status = |check, s| format!(r#"rdmascope_check_status{{check="{check}",status="{s}"}}"#);
    assert_eq!(value(&text, &status("port-state", "fail")), Some("1"));
    assert_eq!(value(&text, &status("port-state", "ok")), Some("0"));
    assert_eq!(value(&text, &status("mtu", "warn")), Some("1"));
}

#[test]
fn each_finding_above_ok_has_a_sample_and_their_number_is_bounded() {
    let text = agent_text();
    let of = |name: &str| value(&text, name).map(str::to_owned);
    assert_eq!(
        of(r#"rdmascope_finding{check="netdev-mtu",subject="mlx5_0/1",status="warn"}"#).as_deref(),
        Some("1")
    );
    assert!(!text.contains(r#"rdmascope_finding{check="port-state""#));
    assert_eq!(
        of(r#"rdmascope_kernel_log_lines_total{rule="mlx5-health",class="error"}"#).as_deref(),
        Some("5")
    );
    assert_eq!(of("rdmascope_kernel_log_lost_total").as_deref(), Some("4"));
    assert_eq!(of(r#"rdmascope_collector_duration_seconds{collector="state"}"#).as_deref(), Some("0.0015"));
    assert_eq!(of("rdmascope_findings_left_out").as_deref(), Some("0"));

    let mut many: Vec<_> = (0..300)
        .map(|i| rdmascope_model::Finding { subject: format!("p{i}"), ..finding("mtu", Status::Warn) })
        .collect();
    many[299].status = Status::Fail;
    let text = agent(&agent_input(None, &many));
    assert_eq!(text.matches("rdmascope_finding{").count(), 200);
    assert_eq!(value(&text, r#"rdmascope_finding{check="mtu",subject="p299",status="fail"}"#), Some("1"));
    assert_eq!(value(&text, "rdmascope_findings_left_out"), Some("100"));
}

#[test]
fn an_open_incident_names_who_is_to_blame_and_their_number_is_bounded() {
    let text = samples::coordinator_text();
    let of = |series: &str| value(&text, series).map(str::to_owned);
    let sample = r#"rdmascope_incident{subject="node7/mlx5_0/1",component="endpoint",effect="lossy",status="fail",node="node7"}"#;
    assert_eq!(of(sample).as_deref(), Some("1"));
    assert!(!text.contains(r#"subject="node8"#), "a suspicion is nobody's blame yet");
    for (state, count) in [("open", "1"), ("suspected", "1"), ("acknowledged", "0"), ("maintenance", "0")] {
        let series = format!(r#"rdmascope_incidents{{status="fail",state="{state}"}}"#);
        assert_eq!(of(&series).as_deref(), Some(count), "{state}");
    }
    let many: Vec<_> =
        (0..60).map(|i| samples::incident(&format!("n{i}/d/1"), IncidentState::Open)).collect();
    let text = samples::coordinator_with(&many);
    assert_eq!(text.matches("rdmascope_incident{").count(), 50);
    assert_eq!(value(&text, "rdmascope_incidents_left_out"), Some("10"));
    let twins =
        [samples::incident("n/d/1", IncidentState::Open), samples::incident("n/d/1", IncidentState::Open)];
    let text = samples::coordinator_with(&twins);
    assert_eq!(text.matches("rdmascope_incident{").count(), 1, "a series stands once");
    assert_eq!(value(&text, r#"rdmascope_incidents{status="fail",state="open"}"#), Some("2"));
}

#[test]
fn gid_types_of_an_infiniband_port_are_not_called_roce() {
    let mut infiniband = port();
    infiniband.link_layer = Reading::Value(LinkLayer::InfiniBand);
    if let Reading::Value(gids) = &mut infiniband.gids {
        gids[0].kind = Reading::Value(GidType::IbOrRoceV1);
    }
    let snapshot = snapshot(vec![infiniband]);
    let text = agent(&agent_input(Some(&snapshot), &[]));
    assert_eq!(value(&text, r#"rdmascope_port_gids{device="mlx5_0",port="1",gid_type="ib"}"#), Some("1"));
}

#[test]
fn gids_of_what_is_neither_infiniband_nor_roce_are_called_neither() {
    let mut iwarp = port();
    if let Reading::Value(gids) = &mut iwarp.gids {
        gids.truncate(1);
        gids[0].kind = Reading::Value(GidType::IbOrRoceV1);
    }
    let mut snapshot = snapshot(vec![iwarp]);
    if let Reading::Value(devices) = &mut snapshot.devices {
        devices[0].node_type = Reading::Value("RNIC".to_owned());
    }
    let text = agent(&agent_input(Some(&snapshot), &[]));
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("rdmascope_port_gids{")).collect();
    assert_eq!(
        lines,
        [
            r#"rdmascope_port_gids{device="mlx5_0",port="1",gid_type="rocev2"} 0"#,
            r#"rdmascope_port_gids{device="mlx5_0",port="1",gid_type="other"} 1"#,
            r#"rdmascope_port_gids{device="mlx5_0",port="1",gid_type="unknown"} 0"#,
        ]
    );
}

#[test]
fn label_values_are_escaped() {
    let mut odd = port();
    odd.netdev = Reading::Value("a\"b\\c\nd".to_owned());
    let snapshot = snapshot(vec![odd]);
    let text = agent(&agent_input(Some(&snapshot), &[]));
    assert!(text.contains(r#"netdev="a\"b\\c\nd""#), "{text}");
}

#[test]
fn pausing_everything_pauses_bandwidth_too() {
    let snapshot = snapshot(vec![port()]);
    let mut input = agent_input(Some(&snapshot), &[]);
    let text = agent(&input);
    assert_eq!(value(&text, r#"rdmascope_paused{scope="bandwidth"}"#), Some("1"));
    assert_eq!(value(&text, r#"rdmascope_paused{scope="all"}"#), Some("0"));
    input.paused = rdmascope_expose::api::PauseLevel::All;
    let text = agent(&input);
    assert_eq!(value(&text, r#"rdmascope_paused{scope="bandwidth"}"#), Some("1"));
}

const A_TO_B: &str =
    r#"{source_node="a",source_device="mlx5_0",target_node="b",target_device="mlx5_0/2",rail="r0""#;

fn a_and_b() -> (EndpointName, EndpointName) {
    ("a/mlx5_0/1".parse().unwrap(), "b/mlx5_0/2".parse().unwrap())
}

#[test]
fn a_fresh_pair_has_quantiles_bandwidth_and_its_state() {
    let (a, b) = a_and_b();
    let mut row = fresh(&a, &b);
    row.rail = "r0";
    let text: String = pairs(1, 10, std::iter::once(row)).collect();
    let latency = |q| {
        format!(r#"rdmascope_pair_latency_seconds{A_TO_B},method="rc_half_rtt",clock="sw",quantile="{q}"}}"#)
    };
    assert_eq!(value(&text, &latency("0.5")), Some("0.0000025"));
    assert_eq!(value(&text, &latency("0.99")), Some("0.000009"));
    let bandwidth =
        format!(r#"rdmascope_pair_bandwidth_bytes_per_second{A_TO_B},method="rc_write",clock="sw"}}"#);
    assert_eq!(value(&text, &bandwidth), Some("12000000000"));
    let state = format!(r#"rdmascope_pair_state{A_TO_B},metric="all",state="fresh"}}"#);
    assert_eq!(value(&text, &state), Some("1"));
    assert_eq!(text.matches("rdmascope_pair_state{").count(), 1, "one says it for all metrics");
    assert_eq!(value(&text, "rdmascope_pairs_left_out"), Some("0"));
    assert!(text.contains("# TYPE rdmascope_pair_latency_seconds summary\n"));
}

#[test]
fn pings_are_a_latency_of_their_own_method_and_clock_where_they_cover_the_pair() {
    let (a, b) = a_and_b();
    let mut row = fresh(&a, &b);
    let text: String = pairs(1, 10, std::iter::once(row)).collect();
    let ping = r#"rdmascope_pair_latency_seconds{source_node="a",source_device="mlx5_0",target_node="b",target_device="mlx5_0/2",method="ud_network_rtt",clock="hw",quantile="0.5"}"#;
    assert_eq!(value(&text, ping), Some("0.000003"), "{text}");
    assert_eq!(text.matches("ud_network_rtt").count(), 1 + 1, "the help and one quantile");
    row.bandwidth.state = CellState::Never;
    let without = PairRow { ping: None, ..row };
    let text: String = pairs(1, 10, std::iter::once(without)).collect();
    assert!(!text.contains(r#"metric="ping""#) && !text.contains(r#"method="ud_network_rtt""#), "{text}");
    let text: String = pairs(1, 10, std::iter::once(PairRow { latency: None, ..row })).collect();
    assert!(!text.contains(r#"metric="latency""#) && text.contains(r#"metric="ping""#), "{text}");
}

#[test]
fn a_pair_that_is_not_fresh_has_a_state_and_no_number() {
    let (a, b) = a_and_b();
    for state in CellState::ALL.into_iter().filter(|s| *s != CellState::Fresh) {
        let mut row = fresh(&a, &b);
        row.latency.iter_mut().for_each(|latency| latency.state = state);
        row.bandwidth.state = state;
        row.ping.iter_mut().for_each(|ping| ping.state = state);
        let text: String = pairs(1, 10, std::iter::once(row)).collect();
        assert!(!text.contains("_seconds") && !text.contains("_bytes_per_second"), "{state:?}: {text}");
        let states: Vec<&str> =
            text.lines().filter(|line| line.starts_with("rdmascope_pair_state{")).collect();
        assert_eq!(states.len(), 3);
        assert!(states.iter().all(|line| line.contains(state.as_str()) && line.ends_with(" 1")));
    }
}

#[test]
fn above_the_limit_only_pairs_that_are_not_ok_are_written_failed_ones_first() {
    let names = names(60);
    let rows = all_pairs(&names, |s, t, row| match (s, t) {
        (59, _) => row.latency.iter_mut().for_each(|latency| latency.state = CellState::Failed),
        (t, _) if t < 30 => row.latency.iter_mut().for_each(|latency| latency.state = CellState::Stale),
        _ => {}
    });
    let text: String = pairs(60 * 59, 100, rows.clone()).collect();
    let count = |word: &str| {
        text.lines().filter(|l| l.starts_with("rdmascope_pair_state{") && l.contains(word)).count()
    };
    assert_eq!(count(r#"metric="latency",state="failed""#), 59, "all that failed, although they come last");
    assert_eq!(count(r#"metric="latency",state="stale""#), 1_000 - 59);
    assert_eq!(count(r#"metric="latency",state="fresh""#), 0);
    assert_eq!(value(&text, "rdmascope_pairs_left_out"), Some("2540"));
    let whole: String = pairs(60 * 59, 60 * 59, rows).collect();
    assert_eq!(value(&whole, "rdmascope_pairs_left_out"), Some("0"), "at the limit all are written");
}

#[test]
fn the_worst_between_two_nodes_is_in_seconds_or_bytes() {
    let row = |metric, figure| WorstRow { source: "a", target: "b", metric, method: "m", figure };
    let text = worst_pairs(WorstOf::Nodes, &[row(Metric::Ping, 2_500), row(Metric::Bandwidth, 8_000)]);
    let labels = r#"{source_node="a",target_node="b",method="m"}"#;
    let latency = format!("rdmascope_node_pair_worst_latency_seconds{labels}");
    assert_eq!(value(&text, &latency), Some("0.0000025"), "{text}");
    let bandwidth = format!("rdmascope_node_pair_worst_bandwidth_bytes_per_second{labels}");
    assert_eq!(value(&text, &bandwidth), Some("1000"), "{text}");
    assert_eq!(worst_pairs(WorstOf::Leaves, &[]), "", "nothing of which nothing is known");
}

#[test]
fn pairs_come_in_chunks_and_each_family_in_one_block() {
    let names = names(40);
    let chunks: Vec<String> = pairs(40 * 39, 10_000, all_pairs(&names, |_, _, _| ())).collect();
    assert!(chunks.len() > 5);
    assert!(
        chunks.iter().all(|chunk| chunk.len() < 68 * 1024),
        "a chunk holds one row more than 64 KiB at most"
    );
    let text = chunks.concat();
    let names: Vec<&str> = sample_lines(&text).into_iter().map(|(name, ..)| name).collect();
    let blocks = 1 + names.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert_eq!(blocks, 4);
    assert_eq!(names.len(), 40 * 39 * 5 + 1);
}
