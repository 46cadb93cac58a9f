//! `rdmascope incidents`: what is to blame, in words for people and for the ticket.

use crate::client::Client;
use crate::cluster::event_words;
use crate::cluster_arguments::IncidentsFlags;
use crate::failure::Failure;
use crate::output::{plain, print_answer, show};
use rdmascope_expose::api::{IncidentDetail, IncidentList, IncidentView, PartView};

/// Runs it.
pub(crate) fn run(flags: &IncidentsFlags) -> Result<u8, Failure> {
    let client = Client::new(&flags.at)?;
    if let Some(id) = flags.id {
        let path = format!("/api/v1/incidents/{id}");
        let text = client.text(&path).map_err(|failure| match failure.is_unknown_name() {
            true => failure.then("`rdmascope incidents --all` lists them all"),
            false => failure,
        })?;
        let detail: IncidentDetail = client.parsed(&text)?;
        if flags.json {
            print_answer(&text)?;
        } else {
            show(&ticket(&detail))?;
        }
        return Ok(u8::from(detail.incident.counts()));
    }
    let text = client.text("/api/v1/incidents")?;
    let list: IncidentList = client.parsed(&text)?;
    if flags.json {
        print_answer(&text)?;
    } else {
        show(&words(&list.incidents, flags.all))?;
    }
    Ok(u8::from(list.incidents.iter().any(IncidentView::counts)))
}

fn words(incidents: &[IncidentView], all: bool) -> String {
    let shown = incidents.iter().filter(|incident| all || incident.counts());
    let mut text: String = shown.map(|incident| block(incident) + "\n").collect();
    let count =
        |what: &dyn Fn(&IncidentView) -> bool| incidents.iter().filter(|incident| what(incident)).count();
    let mut counts = vec![format!("{} open", count(&IncidentView::counts))];
    for (number, what) in [
        (count(&|i| i.state == "suspected"), "suspected"),
        (count(&|i| i.state == "open" && !i.counts()), "acknowledged or in maintenance"),
        (count(&|i| i.state == "closed"), "over"),
    ] {
        if number > 0 {
            counts.push(format!("{number} {what}"));
        }
    }
    let hidden = if counts.len() > 1 && !all { " (--all shows them)" } else { "" };
    text.push_str(&format!("{}{hidden}\n", counts.join(", ")));
    text
}

/// One incident with everything that helps.
pub(crate) fn block(incident: &IncidentView) -> String {
    let marks: String = [
        (incident.state == "suspected", " (suspected: being measured again)"),
        (incident.state == "closed", " (over)"),
        (incident.maintenance, " (maintenance)"),
    ]
    .into_iter()
    .filter_map(|(is, mark)| is.then_some(mark))
    .collect();
    let mut text = format!(
        "{:<8}incident {}: {}{marks}\n",
        incident.status.to_uppercase(),
        incident.id,
        plain(&incident.title)
    );
    let known = incident.acknowledged.as_ref().map(|note| format!("{} {}", note.at, note.note));
    let mut line = |name: &str, words: &str| {
        if !words.trim().is_empty() {
            text.push_str(&format!("        {:<12}{}\n", format!("{name}:"), plain(words)));
        }
    };
    line("who", &incident.who);
    line("since", &times(incident));
    incident.evidence.iter().for_each(|seen| line("seen", seen));
    line("next step", &incident.next_step);
    line("known", &known.unwrap_or_default());
    text
}

fn times(incident: &IncidentView) -> String {
    let mut text = incident.since.clone();
    match &incident.closed_at {
        Some(closed) => text.push_str(&format!(", over {closed}")),
        None => text.push_str(&format!(", last seen {}", incident.seen_at)),
    }
    text
}

/// All that a ticket needs.
fn ticket(detail: &IncidentDetail) -> String {
    let mut text = block(&detail.incident);
    for part in &detail.parts {
        text.push_str(&format!("\n{}\n", plain(&part.endpoint)));
        for (name, value) in part_rows(part) {
            text.push_str(&format!("        {:<12}{}\n", format!("{name}:"), plain(&value)));
        }
    }
    if detail.parts_left_out > 0 {
        text.push_str(&format!(
            "and {} more ports (--json has the first ones only, too)\n",
            detail.parts_left_out
        ));
    }
    text.push_str("\nchanged in the hour before\n");
    for event in &detail.changes {
        text.push_str(&format!("  {}", event_words(event)));
    }
    if detail.changes_left_out > 0 {
        text.push_str(&format!("  and more: rdmascope events; these are {} of them\n", detail.changes.len()));
    }
    match (detail.changes.is_empty(), detail.changes_incomplete) {
        (_, true) => text.push_str(
            "  the history does not reach back so far: there may have been more (a state_dir keeps it)\n",
        ),
        (true, false) => {
            text.push_str("  nothing that the nodes tell of: settings, firmware, drivers, cables\n")
        }
        (false, false) => {}
    }
    text
}

/// What is known of a part.
fn part_rows(part: &PartView) -> Vec<(&'static str, String)> {
    let both = |first: &Option<String>, name: &str, second: &Option<String>| match (first, second) {
        (Some(first), Some(second)) => Some(format!("{first}, {name} {second}")),
        (first, second) => first.clone().or_else(|| second.as_ref().map(|second| format!("{name} {second}"))),
    };
    let adapter = both(&part.adapter, "serial number", &part.adapter_serial);
    let adapter = both(&adapter, "PSID", &part.psid);
    let rows = [
        ("switch", both(&part.switch, "port", &part.switch_port)),
        ("leaf", part.leaf.clone().filter(|leaf| part.switch.as_ref() != Some(leaf))),
        ("adapter", both(&adapter, "firmware", &part.firmware)),
        ("module", both(&part.module, "serial number", &part.module_serial)),
        ("driver", both(&part.driver, "kernel", &part.kernel)),
        ("netdev", both(&part.netdev, "rate", &part.rate)),
    ];
    let known = rows.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let known: Vec<_> = known.collect();
    if known.is_empty() { vec![("unknown", "its node has told nothing of it".to_owned())] } else { known }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use rdmascope_expose::api::{AcknowledgementView, EventView, PairNames, ReasonView};

    pub(crate) fn incident(id: u64, state: &str) -> IncidentView {
        IncidentView {
            id,
            state: state.to_owned(),
            status: "fail".to_owned(),
            title: "* -> a/mlx5_0/1 loses packets".to_owned(),
            who: "a/mlx5_0/1 (its adapter, cable or switch port)".to_owned(),
            components: Vec::new(),
            effect: "lossy".to_owned(),
            way: "in".to_owned(),
            share: "all".to_owned(),
            confidence: "high".to_owned(),
            evidence: ["61 of 64 peers agree", "confidence: high, many peers agree"]
                .map(str::to_owned)
                .to_vec(),
            figures: Vec::new(),
            reasons: vec![ReasonView {
                id: "symbol-errors".to_owned(),
                node: "a".to_owned(),
                subject: "mlx5_0/1".to_owned(),
                status: "fail".to_owned(),
                summary: "9 symbol errors".to_owned(),
                next_step: String::new(),
                since: Some("T0".to_owned()),
            }],
            next_step: "Swap the cable.".to_owned(),
            bad_pairs: 0,
            pairs: 0,
            bad_peers: 0,
            peers: 0,
            worst: None,
            fine: Some(PairNames { source: "b/mlx5_0/1".to_owned(), target: "c/mlx5_0/1".to_owned() }),
            nodes: vec!["a".to_owned()],
            since: "T1".to_owned(),
            opened_at: Some("T2".to_owned()),
            seen_at: "T3".to_owned(),
            closed_at: (state == "closed").then(|| "T4".to_owned()),
            acknowledged: None,
            maintenance: false,
        }
    }

    #[test]
    fn an_open_incident_says_who_since_when_why_and_what_to_do() {
        let known = IncidentView {
            acknowledged: Some(AcknowledgementView { at: "T".to_owned(), note: "ordered".to_owned() }),
            ..incident(3, "open")
        };
        let all = [incident(2, "open"), known, incident(4, "suspected"), incident(1, "closed")];
        assert_eq!(
            words(&all, false),
            "FAIL    incident 2: * -> a/mlx5_0/1 loses packets\n        \
                     who:        a/mlx5_0/1 (its adapter, cable or switch port)\n        \
                     since:      T1, last seen T3\n        \
                     seen:       61 of 64 peers agree\n        \
                     seen:       confidence: high, many peers agree\n        \
                     next step:  Swap the cable.\n\n\
             1 open, 1 suspected, 1 acknowledged or in maintenance, 1 over (--all shows them)\n"
        );
        let everything = words(&all, true);
        for part in ["known:      T ordered", "(suspected: being measured again)", "T1, over T4", "(over)"] {
            assert!(everything.contains(part), "no {part} in {everything}");
        }
        assert_eq!(words(&[], false), "0 open\n");
    }

    #[test]
    fn a_ticket_has_serial_numbers_switch_ports_and_changes_and_says_what_it_does_not_know() {
        let part = PartView {
            endpoint: "a/mlx5_0/1".to_owned(),
            switch: Some("leaf7".to_owned()),
            switch_port: Some("Ethernet1/4".to_owned()),
            leaf: Some("leaf7".to_owned()),
            adapter: Some("MT4129".to_owned()),
            adapter_serial: Some("MT2245X01234".to_owned()),
            psid: Some("MT_0000000838".to_owned()),
            module_serial: Some("MT2301VS0042".to_owned()),
            ..PartView::default()
        };
        let change = EventView {
            number: 5,
            at: "T".to_owned(),
            at_ms: 0,
            node: "a".to_owned(),
            kind: "setting-change".to_owned(),
            subject: "mlx5_0".to_owned(),
            id: "firmware".to_owned(),
            before: "1".to_owned(),
            after: "2".to_owned(),
            text: "mlx5_0: firmware was 1 and is 2".to_owned(),
            basis: None,
        };
        let mut detail = IncidentDetail {
            incident: incident(2, "open"),
            parts: vec![part, PartView { endpoint: "b/mlx5_0/1".to_owned(), ..PartView::default() }],
            parts_left_out: 0,
            changes: vec![change],
            changes_left_out: 0,
            changes_incomplete: false,
        };
        let text = ticket(&detail);
        for part in [
            "switch:     leaf7, port Ethernet1/4\n",
            "adapter:    MT4129, serial number MT2245X01234, PSID MT_0000000838\n",
            "module:     serial number MT2301VS0042\n",
            "unknown:    its node has told nothing of it",
            "  T a setting-change: mlx5_0: firmware was 1 and is 2 [1 -> 2]\n",
        ] {
            assert!(text.contains(part), "no {part} in {text}");
        }
        assert!(!text.contains("leaf:"), "the same name once: {text}");
        detail.changes.clear();
        assert!(ticket(&detail).contains("nothing that the nodes tell of"));
        detail.changes_incomplete = true;
        assert!(ticket(&detail).contains("does not reach back so far"));
    }
}
