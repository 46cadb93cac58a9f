//! `rdmascope replay`: what a changed policy would have said about the history that is kept.
//!
//! Nothing is guessed: each finding that was raised is looked up among the answers that its own check gave when it was raised. Where
//! the history does not hold enough, it says so and why.

use crate::client::{Client, escaped};
use crate::cluster::is_there;
use crate::cluster_arguments::ReplayFlags;
use crate::config_check;
use crate::failure::Failure;
use crate::output::{plain, print_json, show};
use rdmascope_checks::limits::Limits;
use rdmascope_checks::replay::{Again, Basis, again};
use rdmascope_expose::api::{
    EventList, EventView, IncidentList, IncidentView, ReplayChange, ReplayIncident, ReplayReport, ReplayRow,
};
use rdmascope_host::Clock;
use rdmascope_model::{Status, Wall};
use std::collections::BTreeMap;
use std::time::Duration;

/// Findings that are listed under each heading; `--json` has all.
const LISTED_MAX: usize = 20;

/// Runs it.
pub(crate) fn run(flags: &ReplayFlags) -> Result<u8, Failure> {
    let limits = config_check::load(&flags.policy)?.policy.limits;
    let since = flags.since.before(Clock::new().now().wall);
    let client = Client::new(&flags.at)?;
    let events = raised(&client, since, flags.node.as_deref())?;
    let mut path = format!("/api/v1/incidents?since={since}");
    path.push_str(&flags.node.as_ref().map(|node| format!("&node={}", escaped(node))).unwrap_or_default());
    let incidents: IncidentList = client.get(&path)?;
    if events.is_empty() && incidents.incidents.is_empty() {
        is_there(&client, flags.node.as_deref())?;
    }
    let replay = replayed(&events, &incidents.incidents, &limits, since);
    if flags.json {
        print_json(&replay)?;
    } else {
        show(&words(&replay))?;
    }
    Ok(0)
}

/// Every finding that was raised since then, the newest first.
fn raised(client: &Client, since: Wall, node: Option<&str>) -> Result<Vec<EventView>, Failure> {
    let mut path = format!("/api/v1/events?kind=finding-raised&limit=1000&since={since}");
    path.push_str(&node.map(|node| format!("&node={}", escaped(node))).unwrap_or_default());
    let (mut events, mut before) = (Vec::new(), None);
    loop {
        let page = before.map(|number: u64| format!("&before={number}")).unwrap_or_default();
        let list: EventList = client.get(&format!("{path}{page}"))?;
        events.extend(list.events);
        match list.older_before {
            Some(number) if Some(number) != before => before = Some(number),
            _ => return Ok(events),
        }
    }
}

/// What came of it.
fn replayed(events: &[EventView], incidents: &[IncidentView], limits: &Limits, since: Wall) -> ReplayReport {
    let mut replay = ReplayReport {
        since: since.to_string(),
        changed: Vec::new(),
        same: 0,
        silent: Vec::new(),
        becomes: Vec::new(),
        cannot_say: Vec::new(),
        incidents: Vec::new(),
    };
    let mut changed: BTreeMap<(String, u64, u64), usize> = BTreeMap::new();
    for event in events {
        let basis = event.basis.as_deref();
        for (limit, then, now) in
            basis.and_then(Basis::from_lines).iter().flat_map(|basis| basis.changed(limits))
        {
            *changed.entry((limit.to_owned(), then.to_bits(), now.to_bits())).or_default() += 1;
        }
        let again = judged(event, limits);
        let row = |now: &str| ReplayRow {
            at: event.at.clone(),
            node: event.node.clone(),
            subject: event.subject.clone(),
            id: event.id.clone(),
            was: event.after.clone(),
            now: now.to_owned(),
            text: event.text.clone(),
        };
        match again {
            Again::Same => replay.same += 1,
            Again::Silent => replay.silent.push(row(Status::Ok.as_str())),
            Again::Becomes(status) => replay.becomes.push(row(status.as_str())),
            Again::CannotSay(why) => replay.cannot_say.push(row(&why)),
        }
    }
    replay.changed = changed
        .into_iter()
        .map(|((limit, then, now), findings)| ReplayChange {
            limit,
            then: f64::from_bits(then),
            now: f64::from_bits(now),
            findings,
        })
        .collect();
    replay.incidents = incidents.iter().map(|incident| incident_row(incident, events, limits)).collect();
    replay
}

fn words(replay: &ReplayReport) -> String {
    let all = replay.same + replay.silent.len() + replay.becomes.len() + replay.cannot_say.len();
    let mut text = format!(
        "{all} findings were raised since {}: {} the same, {} silent, {} with another status, {} cannot say\n",
        replay.since,
        replay.same,
        replay.silent.len(),
        replay.becomes.len(),
        replay.cannot_say.len()
    );
    for changed in &replay.changed {
        let ReplayChange { limit, then, now, findings } = changed;
        text.push_str(&format!("  {limit}: {then} then, {now} in this policy ({findings} findings)\n"));
    }
    if replay.changed.is_empty() && all > 0 {
        text.push_str("  none of these findings was judged by a number that this policy changes\n");
    }
    for (title, rows) in
        [("silent", &replay.silent), ("another status", &replay.becomes), ("cannot say", &replay.cannot_say)]
    {
        text.push_str(&listed(title, rows));
    }
    if !replay.incidents.is_empty() {
        text.push_str("\nincidents\n");
    }
    for incident in &replay.incidents {
        text.push_str(&format!(
            "  {} {}\n      {}\n",
            incident.id,
            plain(&incident.title),
            plain(&incident.now)
        ));
    }
    text.push_str(
            "\nWhat stayed below its limit is not kept: what a stricter number would have raised besides cannot be said. Only numbers are \
             replayed, not the manifest.\n",
        );
    text
}

fn listed(title: &str, rows: &[ReplayRow]) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{title}\n");
    for row in rows.iter().take(LISTED_MAX) {
        text.push_str(&format!(
            "  {} {} {}: {} [{}]\n      was {}; {}: {}\n",
            row.at,
            plain(&row.node),
            plain(&row.subject),
            plain(&row.text),
            plain(&row.id),
            row.was,
            if title == "cannot say" { "why" } else { "now" },
            plain(&row.now)
        ));
    }
    if rows.len() > LISTED_MAX {
        text.push_str(&format!("  and {} more (--json has them)\n", rows.len() - LISTED_MAX));
    }
    text
}

fn judged(event: &EventView, limits: &Limits) -> Again {
    match Status::ALL.into_iter().find(|status| status.as_str() == event.after) {
        Some(was) => again(&event.id, was, event.basis.as_deref(), limits),
        None => Again::CannotSay(format!("its status '{}' is not known to this version", event.after)),
    }
}

/// An incident comes from the matrix; of the policy only its reasons depend.
fn incident_row(incident: &IncidentView, events: &[EventView], limits: &Limits) -> ReplayIncident {
    let raised = |id: &str, node: &str, subject: &str| {
        events.iter().find(|event| event.id == id && event.node == node && event.subject == subject)
    };
    let (mut silent, mut unknown) = (Vec::new(), Vec::new());
    for reason in &incident.reasons {
        match raised(&reason.id, &reason.node, &reason.subject).map(|event| judged(event, limits)) {
            Some(Again::Silent) => silent.push(reason.id.as_str()),
            Some(Again::Same | Again::Becomes(_)) => {}
            Some(Again::CannotSay(_)) | None => unknown.push(reason.id.as_str()),
        }
    }
    let from_matrix = incident.bad_pairs > 0;
    let mut now = match (from_matrix, incident.reasons.is_empty(), silent.len() == incident.reasons.len()) {
        (_, true, _) => "the same: it comes from the matrix, which no number of the policy judges".to_owned(),
        (true, false, true) => {
            "the same, but without the node's own reason: it would be less sure".to_owned()
        }
        (false, false, true) => {
            "cannot say: it was told by a node's own finding alone, which would be silent".to_owned()
        }
        (_, false, false) => "the same".to_owned(),
    };
    if !silent.is_empty() && silent.len() < incident.reasons.len() {
        now.push_str(&format!("; silent of its reasons: {}", silent.join(", ")));
    }
    if !unknown.is_empty() {
        now.push_str(&format!("; of these reasons it cannot be said: {}", unknown.join(", ")));
    }
    ReplayIncident { id: incident.id, title: incident.title.clone(), now }
}

/// How far back: a span of time, or a point in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Since {
    /// So long ago.
    Ago(Duration),
    /// Then.
    At(Wall),
}

impl Since {
    fn before(self, now: Wall) -> Wall {
        match self {
            Self::Ago(ago) => Wall(now.0.saturating_sub(u64::try_from(ago.as_millis()).unwrap_or(u64::MAX))),
            Self::At(at) => at,
        }
    }
}

/// `2h`, `7d`, or a time such as `2026-11-30T00:53:20Z`.
pub(crate) fn since(text: &str) -> Result<Since, String> {
    let ago = crate::cluster_arguments::duration(text).map(Since::Ago);
    ago.or_else(|_| text.parse().map(Since::At)).map_err(|error: rdmascope_model::WallError| {
        format!("{error}, and not how long ago, such as 2h or 7d")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::incidents::tests::incident;

    fn event(id: &str, after: &str, basis: Option<&[&str]>) -> EventView {
        EventView {
            number: 1,
            at: "T".to_owned(),
            at_ms: 0,
            node: "a".to_owned(),
            kind: "finding-raised".to_owned(),
            subject: "mlx5_0/1".to_owned(),
            id: id.to_owned(),
            before: "ok".to_owned(),
            after: after.to_owned(),
            text: "seen".to_owned(),
            basis: basis.map(|lines| lines.iter().map(|line| (*line).to_owned()).collect()),
        }
    }

    /// Retransmits of 3.2e-4: a fail.
    const RESENT: [&str; 6] = [
        "retransmit_minimum_packets 1e6 1e7",
        "retransmits_warn_ratio 1e-6 3.2e-4",
        "retransmits_fail_ratio 1e-4 3.2e-4",
        "retransmits_baseline_factor 1e1 -",
        "congestion_window_seconds 3e2 ?",
        "= fwoooooo",
    ];

    fn limits(numbers: &[(&str, f64)]) -> Limits {
        let mut limits = Limits::default();
        numbers.iter().for_each(|(name, value)| assert!(limits.set(name, *value)));
        limits
    }

    #[test]
    fn each_finding_is_the_same_silent_another_or_not_known() {
        let events = [
            event("retransmits", "fail", Some(&RESENT)),
            event("retransmits", "fail", None),
            event("mlx5-health", "fail", None),
        ];
        let of = |numbers: &[(&str, f64)]| replayed(&events, &[], &limits(numbers), Wall(0));
        let lax = of(&[("retransmits_warn_ratio", 1e-3), ("retransmits_fail_ratio", 1e-2)]);
        assert_eq!((lax.same, lax.silent.len(), lax.becomes.len(), lax.cannot_say.len()), (1, 1, 0, 1));
        let words = words(&lax);
        for part in [
            "3 findings were raised since 1970-01-01T00:00:00.000Z: 1 the same, 1 silent, 0 with another status, 1 cannot say\n",
            "  retransmits_warn_ratio: 0.000001 then, 0.001 in this policy (1 findings)\n",
            "\nsilent\n  T a mlx5_0/1: seen [retransmits]\n      was fail; now: ok\n",
            "was fail; why: what it was judged by was not kept with it",
            "What stayed below its limit is not kept",
        ] {
            assert!(words.contains(part), "no {part} in {words}");
        }
        let milder = of(&[("retransmits_fail_ratio", 1e-3)]);
        assert_eq!(milder.becomes.first().map(|row| row.now.as_str()), Some("warn"));
        let window = of(&[("congestion_window_seconds", 60.0)]);
        assert!(window.cannot_say.iter().any(|row| row.now.contains("span of time")), "{window:?}");
    }

    #[test]
    fn an_incident_stands_on_the_matrix_and_only_its_reasons_on_the_policy() {
        let mut told = incident(7, "closed");
        told.bad_pairs = 5;
        told.reasons[0].id = "retransmits".to_owned();
        let lax = limits(&[("retransmits_warn_ratio", 1e-3)]);
        let now = |incident: &IncidentView, events: &[EventView]| incident_row(incident, events, &lax).now;
        let raised = [event("retransmits", "fail", Some(&RESENT))];
        assert!(now(&told, &raised).starts_with("the same, but without the node's own reason"));
        assert!(now(&told, &[]).contains("it cannot be said: retransmits"));
        told.bad_pairs = 0;
        assert!(now(&told, &raised).starts_with("cannot say: it was told by a node's own finding alone"));
        told.reasons.clear();
        assert!(now(&told, &raised).starts_with("the same: it comes from the matrix"));
    }

    #[test]
    fn how_far_back_is_a_span_or_a_time() {
        assert_eq!(since("2h").unwrap().before(Wall(7_200_001)), Wall(1));
        assert_eq!(since("1970-01-02"), Ok(Since::At(Wall(86_400_000))));
        assert!(since("yesterday").unwrap_err().contains("such as 2h or 7d"));
    }
}
