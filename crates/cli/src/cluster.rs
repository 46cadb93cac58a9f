//! `rdmascope findings`, `events`, `ack` and `maintenance`: what the coordinator knows of the nodes' health.

use crate::client::{Client, escaped};
use crate::cluster_arguments::{AckFlags, EventsFlags, FindingsFlags, MaintenanceFlags};
use crate::columns::{Cell, Columns};
use crate::failure::{Failure, code};
use crate::output::{plain, print_answer, print_json, show};
use crate::screen::{Screen, screen};
use crate::similar;
use rdmascope_expose::api::{
    AcknowledgeAnswer, AcknowledgeRequest, EventList, EventView, FindingList, MaintenanceList,
    MaintenanceRequest, MaintenanceView, NodeFinding, NodeList,
};

/// `rdmascope findings`.
pub(crate) fn findings(flags: &FindingsFlags) -> Result<u8, Failure> {
    let client = Client::new(&flags.at)?;
    let path = flags.node.as_ref().map_or_else(
        || "/api/v1/findings".to_owned(),
        |node| format!("/api/v1/findings?node={}", escaped(node)),
    );
    let text = client.text(&path)?;
    let list: FindingList = client.parsed(&text)?;
    if list.findings.is_empty() {
        is_there(&client, flags.node.as_deref())?;
    }
    let open = list.findings.iter().filter(|found| is_open(found)).count();
    if flags.json {
        print_answer(&text)?;
    } else {
        show(&finding_words(&list.findings, flags.all))?;
    }
    Ok(u8::from(open > 0))
}

/// Of a node that is not known nothing is told, which must not read as "nothing is wrong".
pub(crate) fn is_there(client: &Client, node: Option<&str>) -> Result<(), Failure> {
    let Some(node) = node.filter(|node| !node.is_empty()) else { return Ok(()) };
    let list: NodeList = client.get("/api/v1/nodes")?;
    if list.nodes.iter().any(|known| known.name == node) {
        return Ok(());
    }
    Err(similar::unknown_node(node, list.nodes.iter().map(|known| known.name.as_str())))
}

fn is_open(found: &NodeFinding) -> bool {
    found.acknowledged.is_none() && !found.maintenance
}

fn finding_words(findings: &[NodeFinding], all: bool) -> String {
    let mut text = String::new();
    for found in findings.iter().filter(|found| all || is_open(found)) {
        let node = if found.node.is_empty() { "cluster" } else { &found.node };
        let status = found.status.to_uppercase();
        let marks: String = [
            (found.settling, " (settling)"),
            (found.latched, " (over)"),
            (found.maintenance, " (maintenance)"),
            (found.node_lost, " (its agent is not connected)"),
        ]
        .into_iter()
        .filter_map(|(is, mark)| is.then_some(mark))
        .collect();
        text.push_str(&format!(
            "{status:<8}{} {}: {} [{}]{marks}\n",
            plain(node),
            plain(&found.subject),
            plain(&found.summary),
            plain(&found.id)
        ));
        let since = found.since.clone().unwrap_or_default();
        let known =
            found.acknowledged.as_ref().map(|note| format!("{} {}", note.at, note.note)).unwrap_or_default();
        for (name, words) in [
            ("since", &since),
            ("seen", &found.evidence.join(", ")),
            ("cause", &found.cause),
            ("next step", &found.next_step),
            ("known", &known),
        ] {
            if !words.trim().is_empty() {
                text.push_str(&format!("        {:<11}{}\n", format!("{name}:"), plain(words)));
            }
        }
        text.push('\n');
    }
    let hidden = findings.iter().filter(|found| !is_open(found)).count();
    let open = findings.len() - hidden;
    let rest = if hidden > 0 && !all {
        format!(", {hidden} acknowledged or in maintenance (--all shows them)")
    } else {
        String::new()
    };
    text + &format!("{open} open{rest}\n")
}

/// `rdmascope events`.
pub(crate) fn events(flags: &EventsFlags) -> Result<u8, Failure> {
    let client = Client::new(&flags.at)?;
    let mut path = format!("/api/v1/events?limit={}", flags.limit);
    if let Some(node) = &flags.node {
        path.push_str(&format!("&node={}", escaped(node)));
    }
    if let Some(before) = flags.before {
        path.push_str(&format!("&before={before}"));
    }
    let answer = client.text(&path)?;
    let list: EventList = client.parsed(&answer)?;
    if list.events.is_empty() {
        is_there(&client, flags.node.as_deref())?;
    }
    if flags.json {
        print_answer(&answer)?;
        return Ok(0);
    }
    let mut text: String = list.events.iter().map(event_words).collect();
    if text.is_empty() {
        text.push_str("no events\n");
    }
    if let Some(before) = list.older_before {
        text.push_str(&format!("older ones: --before {before}\n"));
    }
    show(&text)?;
    Ok(0)
}

/// One event in one line.
pub(crate) fn event_words(event: &EventView) -> String {
    let node = if event.node.is_empty() { "cluster" } else { &event.node };
    let change = match (event.before.as_str(), event.after.as_str()) {
        ("", "") => String::new(),
        (before, after) => format!(" [{} -> {}]", or_none(before), or_none(after)),
    };
    // Many texts name their subject already.
    let subject = Some(&event.subject).filter(|subject| !event.text.contains(subject.as_str()));
    let subject = subject.map(|subject| format!("{subject}: ")).unwrap_or_default();
    format!(
        "{} {} {}: {}{}{}\n",
        event.at,
        plain(node),
        plain(&event.kind),
        plain(&subject),
        plain(&event.text),
        plain(&change)
    )
}

fn or_none(value: &str) -> &str {
    if value.is_empty() { "none" } else { value }
}

/// `rdmascope ack`.
pub(crate) fn ack(flags: &AckFlags) -> Result<u8, Failure> {
    let request = AcknowledgeRequest {
        node: flags.node.clone().unwrap_or_default(),
        id: flags.id.clone().unwrap_or_default(),
        subject: flags.subject.clone(),
        incident: flags.incident,
        note: flags.note.clone(),
        undo: flags.undo,
    };
    let client = Client::new(&flags.at)?;
    let answer: AcknowledgeAnswer = client
        .post("/api/v1/acknowledgements", &request)
        .map_err(|failure| what_there_is(&client, failure, flags))?;
    if flags.json {
        print_json(&answer)?;
        return Ok(0);
    }
    let what = if flags.undo { "no longer acknowledged" } else { "acknowledged" };
    let whom = match (flags.incident, answer.findings) {
        (Some(incident), _) => format!("incident {incident}"),
        (None, 1) => "1 finding".to_owned(),
        (None, findings) => format!("{findings} findings"),
    };
    show(&format!("{whom} {what}\n"))?;
    Ok(0)
}

/// What was probably meant by a node or an id that does not exist.
fn what_there_is(client: &Client, failure: Failure, flags: &AckFlags) -> Failure {
    if !failure.is_unknown_name() {
        return failure;
    }
    let (Some(node), Some(id)) = (&flags.node, &flags.id) else {
        return failure.then("`rdmascope incidents --all` lists them all");
    };
    if let Err(unknown) = is_there(client, Some(node)) {
        return unknown;
    }
    // The coordinator may be gone by now: its own words are worth showing all the same.
    let list = client.get::<FindingList>(&format!("/api/v1/findings?node={}", escaped(node)));
    let Ok(list) = list else { return failure };
    let near = similar::did_you_mean(id, list.findings.iter().map(|found| found.id.as_str()));
    let near = near.map(|near| near + " ").unwrap_or_default();
    failure.then(format!("{near}`rdmascope findings --node {} --all` lists what it has", plain(node)))
}

/// `rdmascope maintenance`.
pub(crate) fn maintenance(flags: &MaintenanceFlags) -> Result<u8, Failure> {
    let client = Client::new(&flags.at)?;
    let list: MaintenanceList = match (&flags.nodes, flags.how_long, flags.end) {
        (None, ..) => client.get("/api/v1/maintenance")?,
        (Some(_), None, false) => {
            return Err(Failure::new(code::USAGE, "it is not said how long the maintenance lasts")
                .then("give --for 2h, or --end to end it"));
        }
        (Some(nodes), how_long, _) => {
            let request = MaintenanceRequest {
                nodes: nodes.clone(),
                seconds: how_long.map(|how_long| how_long.as_secs()),
                note: flags.note.clone(),
            };
            client.post("/api/v1/maintenance", &request)?
        }
    };
    if flags.json {
        print_json(&list)?;
    } else {
        show(&maintenance_words(&list, screen()))?;
    }
    Ok(0)
}

fn maintenance_words(list: &MaintenanceList, screen: Screen) -> String {
    let until = |work: &MaintenanceView| match (&work.until, &list.file) {
        (Some(until), _) => until.clone(),
        (None, Some(file)) => format!("as long as {} says so", plain(&file.path)),
        (None, None) => "until it is ended".to_owned(),
    };
    let mut columns = Columns::new(&["NODES", "UNTIL", "NOTE"], &[]);
    for work in &list.maintenances {
        columns.push([plain(&work.nodes).into(), until(work).into(), Cell::from(plain(&work.note))]);
    }
    let none = list.maintenances.is_empty();
    let mut text = if none { "nothing is in maintenance\n".to_owned() } else { columns.text(screen) };
    if let Some(problem) = list.file.as_ref().and_then(|file| file.problem.as_ref()) {
        text.push_str(&format!("what the file said before still holds: {}\n", plain(problem)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(node: &str, known: bool) -> NodeFinding {
        NodeFinding {
            node: node.to_owned(),
            id: "port-state".to_owned(),
            status: "warn".to_owned(),
            subject: "mlx5_0/1".to_owned(),
            summary: "the port is DOWN".to_owned(),
            cause: "no cable".to_owned(),
            next_step: "Plug it in.".to_owned(),
            evidence: vec!["state = DOWN".to_owned()],
            since: Some("2026-11-29T10:00:00.000Z".to_owned()),
            settling: true,
            latched: false,
            acknowledged: known.then(|| rdmascope_expose::api::AcknowledgementView {
                at: "then".to_owned(),
                note: "ordered".to_owned(),
            }),
            maintenance: false,
            node_lost: false,
        }
    }

    #[test]
    fn what_is_open_is_shown_in_full_and_what_is_known_is_counted() {
        let text = finding_words(&[found("n1", false), found("n2", true)], false);
        assert_eq!(
            text,
            "WARN    n1 mlx5_0/1: the port is DOWN [port-state] (settling)\n        \
                     since:     2026-11-29T10:00:00.000Z\n        \
                     seen:      state = DOWN\n        \
                     cause:     no cable\n        \
                     next step: Plug it in.\n\n\
             1 open, 1 acknowledged or in maintenance (--all shows them)\n"
        );
        let all = finding_words(&[found("", true)], true);
        assert!(
            all.starts_with("WARN    cluster mlx5_0/1") && all.contains("known:     then ordered"),
            "{all}"
        );
    }

    #[test]
    fn an_event_shows_what_changed() {
        let event = EventView {
            number: 1,
            at: "T".to_owned(),
            at_ms: 0,
            node: "n1".to_owned(),
            kind: "setting-change".to_owned(),
            subject: "mlx5_0/1".to_owned(),
            id: "pfc".to_owned(),
            before: "3".to_owned(),
            after: String::new(),
            text: "pfc changed".to_owned(),
            basis: None,
        };
        assert_eq!(event_words(&event), "T n1 setting-change: mlx5_0/1: pfc changed [3 -> none]\n");
    }
}
