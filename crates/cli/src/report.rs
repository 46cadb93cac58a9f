//! A full report of a pair, and an incast, as people read them: figures by section, what was left out, and the verdicts last.

use crate::columns::Columns;
use crate::figures::Unit;
use crate::output::plain;
use crate::screen::{Screen, screen};
use rdmascope_expose::api::{
    EndView, EndpointView, MeasurementState, MeasurementView, PingSizeFigures, ProbeView, Severity,
    VerdictView,
};
use std::collections::BTreeMap;

/// Everything about one pair.
pub(crate) fn full(probe: &ProbeView) -> String {
    let mut text =
        format!("{} -> {}, and back{}\n", plain(&probe.source), plain(&probe.target), class(probe));
    section(&mut text, "ends", &probe.ends.iter().map(end).collect::<Vec<_>>());
    let of = |parts: &[&str]| {
        let in_part = |m: &&MeasurementView| parts.contains(&m.part.as_str());
        probe.measurements.iter().filter(in_part).collect::<Vec<_>>()
    };
    // The class stands in the first line; where it is compared with class 0, it stands beside each figure.
    let lines = |parts: &[&str]| listed(&of(parts), parts.contains(&"class"));
    section(&mut text, "datagrams", &lines(&["ping", "echo"]));
    section(&mut text, "latency, half round trips (reads: whole ones)", &lines(&["latency"]));
    section(&mut text, "path labels", &labels(&of(&["label"])));
    section(&mut text, "class, and class 0 as the control", &lines(&["class", "control"]));
    section(&mut text, "bandwidth, share of the goodput ceiling", &table(&of(&["bandwidth"])));
    section(&mut text, "latency beside a stream", &lines(&["load", "under-load"]));
    section(&mut text, "TCP on the same network devices", &lines(&["baseline"]));
    section(&mut text, "GPU memory", &lines(&["gpu"]));
    let skipped: Vec<_> =
        probe.skipped.iter().map(|s| format!("{:<10} {}", plain(&s.part), plain(&s.reason))).collect();
    section(&mut text, "left out", &skipped);
    text + &verdicts(&probe.verdicts)
}

/// The class that was asked for, as an addition to the first line.
fn class(probe: &ProbeView) -> String {
    let marked = probe.measurements.iter().find(|m| m.manner.dscp != 0 || m.manner.service_level != 0);
    match marked.map(|m| (m.manner.dscp, m.manner.service_level)) {
        None => String::new(),
        Some((0, level)) => format!(", service level {level}"),
        Some((dscp, _)) => format!(", DSCP {dscp}"),
    }
}

/// Several sources to one target.
pub(crate) fn incast(probe: &ProbeView) -> String {
    let mut text =
        format!("{} sources -> {}{}\n", probe.measurements.len(), plain(&probe.target), class(probe));
    let each = probe.measurements.iter().map(|m| (plain(&m.source), figures_or_why(m))).collect::<Vec<_>>();
    section(&mut text, "sources", &columns(&each));
    if let Some(found) = &probe.incast {
        let share =
            |ratio: Option<f64>| ratio.map_or("not known".to_owned(), |r| format!("{:.1} %", 100.0 * r));
        let counted = |count: Option<u64>| count.map_or("not counted".to_owned(), |count| count.to_string());
        let pauses = found.pauses.as_ref().map(|pauses| {
            let words: Vec<_> =
                pauses.iter().map(|p| format!("{} on priority {}", p.count, p.priority)).collect();
            if words.is_empty() { "none".to_owned() } else { words.join(", ") }
        });
        section(
            &mut text,
            "receiver",
            &[
                format!("all together           {}", gigabits(found.sum_bits_per_second)),
                format!("share of the line rate {}", share(found.ratio_to_line_rate)),
                format!("of what is possible    {}", share(found.ratio_to_ceiling)),
                format!("slowest over fastest   {}", share(found.fairness)),
                format!("sent again             {}", counted(found.retransmits)),
                format!("pause frames           {}", pauses.unwrap_or("not counted".to_owned())),
                format!("congestion notices     {}", counted(found.congestion_notifications)),
            ],
        );
    }
    text + &verdicts(&probe.verdicts)
}

/// The measurements alone, of a probe that the matrix does not show.
pub(crate) fn measurements(probe: &ProbeView) -> String {
    let all: Vec<_> = probe.measurements.iter().collect();
    listed(&all, true).into_iter().map(|line| line + "\n").collect()
}

/// Each measurement with its figures; without the class in its name where that is told elsewhere.
fn listed(all: &[&MeasurementView], with_class: bool) -> Vec<String> {
    let name = |m: &MeasurementView| {
        let name = plain(&m.label);
        let words: Vec<_> =
            [", DSCP ", ", service level "].into_iter().filter_map(|w| name.split_once(w)).collect();
        match words.first() {
            Some((before, after)) if !with_class => {
                let rest = after.trim_start_matches(|c: char| c.is_ascii_digit());
                format!("{before}{rest}")
            }
            _ => name,
        }
    };
    columns(&all.iter().map(|m| (name(m), figures_or_why(m))).collect::<Vec<_>>())
}

/// Names on the left, and beside each its lines.
fn columns(rows: &[(String, Vec<String>)]) -> Vec<String> {
    let width = rows.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let lines = |(name, lines): &(String, Vec<String>)| {
        let name = std::iter::once(name.clone()).chain(std::iter::repeat(String::new()));
        lines.iter().zip(name).map(|(line, name)| format!("{name:<width$}  {line}")).collect::<Vec<_>>()
    };
    rows.iter().flat_map(lines).collect()
}

fn section(text: &mut String, title: &str, lines: &[String]) {
    if lines.is_empty() {
        return;
    }
    text.push_str(&format!("\n{title}\n"));
    for line in lines {
        text.push_str(&format!("  {line}\n"));
    }
}

fn end(end: &EndpointView) -> String {
    let bytes = |mtu: Option<u32>| mtu.map_or("not known".to_owned(), |mtu| mtu.to_string());
    let rate = end.rate_bits_per_second.map_or("rate not known".to_owned(), gigabits);
    let netdev = end.netdev.as_ref().map(|netdev| format!(", {}", plain(netdev))).unwrap_or_default();
    let (leaf, port) = (&end.place.leaf, &end.place.leaf_port);
    let port = port.as_ref().map(|port| format!(" port {}", plain(port))).unwrap_or_default();
    let leaf = leaf.as_ref().map(|leaf| format!(", on leaf {}{port}", plain(leaf))).unwrap_or_default();
    let rail = end.place.rail.as_ref().map(|rail| format!(", rail {}", plain(rail))).unwrap_or_default();
    format!(
        "{:<20} {}, {rate}, RDMA MTU {}{netdev}, its MTU {}{leaf}{rail}",
        plain(&end.name),
        plain(&end.fabric),
        bytes(end.active_mtu_bytes),
        bytes(end.netdev_mtu_bytes)
    )
}

fn gigabits(bps: u64) -> String {
    Unit::of_rates(bps).show(bps)
}

fn micros(ns: u64) -> String {
    Unit::Microseconds.show(ns)
}

/// A measurement's figures, or why there are none.
fn figures_or_why(m: &MeasurementView) -> Vec<String> {
    match (trouble(m), &m.at_source) {
        (Some(why), _) => vec![why],
        (None, Some(found)) => found_lines(m, found),
        (None, None) => vec!["nothing was learned".to_owned()],
    }
}

/// Why a measurement has no figures.
fn trouble(m: &MeasurementView) -> Option<String> {
    match (m.state, &m.failure, &m.excluded, &m.aborted) {
        (_, Some(failure), _, _) => {
            Some(format!("failed: {} at step {}", plain(&failure.cause), plain(&failure.step)))
        }
        (_, _, Some(why), _) => Some(format!("not run: {}", plain(why))),
        (_, _, _, Some(why)) => Some(format!("given up: {}", plain(why))),
        (MeasurementState::Nothing, ..) => Some("nothing was learned".to_owned()),
        _ => None,
    }
}

fn found_lines(m: &MeasurementView, found: &EndView) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(l) = &found.latency {
        let p99 = l.p99_ns.map(|ns| format!(", p99 {}", micros(ns))).unwrap_or_default();
        lines.push(format!("median {}{p99}, max {}", micros(l.p50_ns), micros(l.max_ns)));
    }
    if let Some(b) = &found.bandwidth {
        let worst = b.worst_window_bits_per_second.map(|bps| format!(", slowest tenth {}", gigabits(bps)));
        let share = m.ratio_to_ceiling.map(|r| format!(" ({:.1} %)", 100.0 * r)).unwrap_or_default();
        lines.push(format!("{}{share}{}", gigabits(b.average_bits_per_second), worst.unwrap_or_default()));
    }
    if let Some(p) = &found.pings {
        let counts = |c: &PingSizeFigures| {
            format!("{} of {} of {} bytes answered", c.answered, c.sent, c.payload_bytes)
        };
        lines.push(format!("{}, {}", counts(&p.small), counts(&p.large)));
        let delays = [
            ("network", &p.network),
            ("host of the responder", &p.responder),
            ("host of the prober", &p.prober),
        ];
        let delays =
            delays.iter().filter_map(|(what, d)| d.as_ref().map(|d| format!("{what} {}", micros(d.p50_ns))));
        lines.push(format!("median in the {} ({})", delays.collect::<Vec<_>>().join(", "), plain(&p.clock)));
    }
    if let Some(e) = &found.echo {
        let heard = e.heard.map_or("not known".to_owned(), |heard| heard.to_string());
        lines.push(format!("{} of {} came back, {heard} reached the peer", e.answered, e.sent));
    }
    lines
}

/// The labels in one line, and those that differ in the verdicts.
fn labels(all: &[&MeasurementView]) -> Vec<String> {
    let (connections, datagrams): (Vec<_>, Vec<_>) =
        all.iter().copied().partition(|m| m.manner.flow_label != 0);
    let p50 =
        |m: &&MeasurementView| Some((m.at_source.as_ref()?.latency.as_ref()?.p50_ns, m.manner.flow_label));
    let figures: Vec<_> = connections.iter().filter_map(p50).collect();
    let mut lines = Vec::new();
    if let (Some(fast), Some(slow)) = (figures.iter().min(), figures.iter().max()) {
        lines.push(format!(
            "{} labels measured: {} (label {}) to {} (label {})",
            figures.len(),
            micros(fast.0),
            fast.1,
            micros(slow.0),
            slow.1
        ));
    }
    let mut troubles: BTreeMap<String, u32> = BTreeMap::new();
    for why in connections.iter().filter_map(|m| trouble(m)) {
        *troubles.entry(why).or_default() += 1;
    }
    lines.extend(troubles.iter().map(|(why, count)| format!("{count} labels {why}")));
    lines.extend(listed(&datagrams, false));
    lines
}

/// Verbs and sizes down, directions across.
fn table(all: &[&MeasurementView]) -> Vec<String> {
    let Some(first) = all.first() else { return Vec::new() };
    let mut rows: Vec<(String, [String; 3])> = Vec::new();
    for m in all {
        let bytes = m.manner.message_bytes.unwrap_or(0);
        let size =
            if bytes >= 1 << 20 { format!("{} MiB", bytes >> 20) } else { format!("{} KiB", bytes >> 10) };
        let verb = m.manner.operation.as_deref().unwrap_or("tcp").to_uppercase();
        let name = format!("{verb:<5} {size:>6}, {} QP", m.manner.queue_pairs);
        // By the way of the bytes: those of a read travel towards the one who asks.
        let read = m.manner.operation.as_deref() == Some("read");
        let column = match (m.manner.both_ways, (m.source == first.source) != read) {
            (true, _) => 2,
            (false, true) => 0,
            (false, false) => 1,
        };
        let at = rows.iter().position(|(row, _)| *row == name).unwrap_or_else(|| {
            rows.push((name, Default::default()));
            rows.len() - 1
        });
        if let Some((_, cells)) = rows.get_mut(at) {
            cells[column] = cell(m);
        }
    }
    let mut columns = Columns::new(&["", "there", "back", "both at once"], &[]);
    for (name, [there, back, both]) in rows {
        columns.push([name.into(), there.into(), back.into(), both.into()]);
    }
    // Each section is two columns to the right.
    let screen = screen();
    let screen = Screen { columns: screen.columns.map(|columns| columns.saturating_sub(2)), ..screen };
    columns.text(screen).lines().map(str::to_owned).collect()
}

fn cell(m: &MeasurementView) -> String {
    if let Some(why) = trouble(m) {
        return why;
    }
    let of = |end: &Option<EndView>| Some(end.as_ref()?.bandwidth.as_ref()?.average_bits_per_second);
    let share = m.ratio_to_ceiling.map(|r| format!(" ({:.0} %)", 100.0 * r)).unwrap_or_default();
    match (of(&m.at_source), of(&m.at_target)) {
        (Some(there), Some(back)) if m.manner.operation.as_deref() == Some("read") => two_rates(back, there),
        (Some(there), Some(back)) => two_rates(there, back),
        (Some(there), None) => format!("{}{share}", gigabits(there)),
        (None, _) => "-".to_owned(),
    }
}

/// Two rates, with their unit once where it is the same.
fn two_rates(there: u64, back: u64) -> String {
    let (unit, other) = (Unit::of_rates(there), Unit::of_rates(back));
    if unit == other {
        format!("{}, {}", unit.number(there), unit.show(back))
    } else {
        format!("{}, {}", unit.show(there), other.show(back))
    }
}

/// The worst first; what is fine takes one line each.
fn verdicts(all: &[VerdictView]) -> String {
    let mut text = "\nverdicts\n".to_owned();
    for verdict in all {
        let status = match verdict.status {
            Severity::Ok => "OK",
            Severity::Warn => "WARN",
            Severity::Unknown => "UNKNOWN",
            Severity::Fail => "FAIL",
        };
        text.push_str(&format!(
            "{status:<8}{}: {} [{}]\n",
            plain(&verdict.subject),
            plain(&verdict.text),
            plain(&verdict.id)
        ));
        if verdict.status == Severity::Ok && verdict.id != "baseline" {
            continue;
        }
        for line in &verdict.evidence {
            text.push_str(&format!("        {:<11}{}\n", "seen:", plain(line)));
        }
        if let Some(cause) = &verdict.cause {
            text.push_str(&format!("        {:<11}{}\n", "cause:", plain(cause)));
        }
        if !verdict.next_step.is_empty() {
            text.push_str(&format!("        {:<11}{}\n", "next step:", plain(&verdict.next_step)));
        }
    }
    let count = |status| all.iter().filter(|verdict| verdict.status == status).count();
    text.push_str(&format!(
        "{} fail, {} unknown, {} warn, {} ok\n",
        count(Severity::Fail),
        count(Severity::Unknown),
        count(Severity::Warn),
        count(Severity::Ok)
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdmascope_control::coordinator::{IncastRequest, Measure, PairRequest, Settings};
    use rdmascope_model::{DatagramAddress, LabelBy};
    use rdmascope_probe::mesh::MeshEvent;
    use rdmascope_sim::{Cluster, Shape};
    use serde_json::Value;
    use std::time::Duration;

    /// Nodes whose ports are as RoCE ports with datagrams, path labels and a network device of MTU 9000.
    fn nodes(nodes: usize) -> Cluster {
        let settings = Settings { pings_per_second: 0, ..Settings::default() };
        let mut c = Cluster::new(&Shape { seed: 3, nodes, one_machine: false, settings });
        c.run_for(Duration::from_secs(5));
        for host in 0..nodes {
            c.change_endpoint(host, |info| {
                let gid = format!("::ffff:10.0.0.{}", host + 1).parse().unwrap();
                info.gid = Some(gid);
                info.netdev = Some("eth0".to_owned());
                info.netdev_mtu = Some(9_000);
                info.connections_labelled_by = LabelBy::FlowLabel;
                info.datagrams_labelled_by = LabelBy::FlowLabel;
            });
            let gid = format!("::ffff:10.0.0.{}", host + 1).parse().unwrap();
            let address = DatagramAddress { gid, lid: 0, queue_pair: 17, queue_key: 1, mtu_bytes: 4_096 };
            let name = c.endpoint(host);
            c.mesh_says(host, MeshEvent::Opened(name, address));
        }
        c.run_for(Duration::from_secs(1));
        c
    }

    fn finished(c: &mut Cluster, id: u64) -> ProbeView {
        assert!(c.run_until(Duration::from_secs(600), |c| c.coordinator().probe(id).unwrap().left == 0));
        let (now, state) = (c.now(), c.coordinator());
        rdmascope_coordinator::probe_view(state, id, state.probe(id).unwrap(), now)
    }

    fn of_pair(c: &mut Cluster) -> ProbeView {
        let request = PairRequest {
            source: "node-0".to_owned(),
            target: "node-1".to_owned(),
            device: None,
            class: Some(26),
            service: None,
            drained: true,
            forced: false,
            measure: Measure::Full { paths: 4, gpu: None },
        };
        let id = c.command(|coordinator, now| coordinator.start_pair(&request, now)).unwrap().unwrap();
        finished(c, id)
    }

    #[test]
    fn a_report_has_its_figures_by_section_and_the_verdicts_last() {
        let mut c = nodes(2);
        let (a, b) = (c.endpoint(0), c.endpoint(1));
        c.fabric().borrow_mut().set_label_fault(&a, &b, 7, 4_000, 0);
        let text = full(&of_pair(&mut c));
        let sections = [
            "node-0/sim0/1 -> node-1/sim0/1, and back, DSCP 26\n",
            "\nends\n  node-0/sim0/1 ",
            "\ndatagrams\n  pings, small and of the full path MTU     200 of 200 of 64 bytes answered",
            "\nlatency, half round trips (reads: whole ones)\n  latency WRITE",
            "\npath labels\n  21 labels measured: ",
            "(label 7)\n",
            "\nbandwidth, share of the goodput ceiling\n",
            "  WRITE  1 MiB, 4 QP ",
            "\nTCP on the same network devices\n  latency over TCP",
            "\nverdicts\nWARN    path label 7: ",
            "        next step: One of the equal-cost paths is slow",
            "OK      node-0/sim0/1 <-> node-1/sim0/1: RDMA gains over TCP: latency ",
            " ok\n",
        ];
        let mut rest = text.as_str();
        for section in sections {
            let at = rest.find(section).unwrap_or_else(|| panic!("no {section:?} in the rest of\n{text}"));
            rest = &rest[at..];
        }
        assert!(!text.contains("GPU"), "what was not asked for is not listed");
    }

    #[test]
    fn an_incast_tells_the_share_of_each_source() {
        let mut c = nodes(5);
        let request = IncastRequest {
            sources: (1..5).map(|node| format!("node-{node}")).collect(),
            target: "node-0".to_owned(),
            device: None,
            class: None,
            drained: true,
        };
        let id = c.command(|coordinator, now| coordinator.start_incast(&request, now)).unwrap().unwrap();
        let text = incast(&finished(&mut c, id));
        assert!(text.starts_with("4 sources -> node-0/sim0/1\n\nsources\n  node-1/sim0/1 "), "{text}");
        for words in ["share of the line rate 9", "pause frames           none", "0 fail, 0 unknown, 0 warn"]
        {
            assert!(text.contains(words), "no {words:?} in\n{text}");
        }
    }

    #[test]
    fn the_json_reads_back_as_it_was_written() {
        let view = of_pair(&mut nodes(2));
        let text = serde_json::to_string(&view).unwrap();
        // Numbers with fractions may differ in their last digit once they are read.
        let read = serde_json::from_str::<ProbeView>(&text).unwrap();
        assert_eq!(serde_json::to_value(&read).unwrap(), serde_json::from_str::<Value>(&text).unwrap());
        let ratios =
            view.measurements.iter().filter(|m| m.part == "bandwidth").map(|m| m.ratio_to_ceiling.unwrap());
        assert!(ratios.into_iter().all(|ratio| (0.8..1.0).contains(&ratio)), "shares of the ceiling");
    }
}
