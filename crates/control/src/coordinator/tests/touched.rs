//! Whom an incident touches, and what operators say of it.

use super::*;
use rdmascope_localise::{
    Component, Confidence, Effect, EndpointIndex, Incident, IncidentState, PlaceIndex, Places, Share,
    Support, Suspect, Way,
};
use rdmascope_model::Status;
use std::collections::BTreeSet;

fn incident(id: u64, blamed: &[(Component, &str)]) -> Incident {
    let suspect = Suspect {
        components: blamed.iter().map(|(component, _)| *component).collect(),
        effect: Effect::Lossy,
        way: Way::Both,
        share: Share::All,
        status: Status::Fail,
        confidence: Confidence::High,
        support: Support::default(),
        reasons: Vec::new(),
    };
    Incident {
        id,
        state: IncidentState::Open,
        suspect,
        subjects: blamed.iter().map(|(_, name)| (*name).to_owned()).collect(),
        title: "packets are lost".to_owned(),
        evidence: Vec::new(),
        next_step: String::new(),
        since: Wall(1),
        opened_at: Some(Wall(2)),
        seen_at: Wall(3),
        closed_at: None,
    }
}

/// Six nodes, three on each of two leaves, with one endpoint each.
fn six() -> Bench {
    let mut bench = Bench::apart(safety::two_leaves(6, 4), 6);
    // Places are worked out when everybody is there.
    bench.pass(Duration::from_secs(2));
    bench.handle(Event::Tick);
    bench
}

fn nodes(bench: &Bench, blamed: &[(Component, &str)]) -> Vec<String> {
    bench.c.touched(&incident(1, blamed)).nodes.into_iter().collect()
}

#[test]
fn an_incident_touches_the_nodes_of_what_is_blamed() {
    let bench = six();
    let n1 = bench.c.find_endpoint("n1").unwrap();
    let n2 = bench.c.find_endpoint("n2").unwrap();
    assert_eq!(nodes(&bench, &[(Component::Endpoint(n1), "n1/d/1")]), ["n1"]);
    assert_eq!(nodes(&bench, &[(Component::Pair(n1, n2), "n1/d/1 -> n2/d/1")]), ["n1", "n2"]);
    let of_leaf = |name: &str, places: &Places| {
        let leaf = places.leaves.iter().position(|leaf| leaf == name).unwrap();
        places.of.iter().flatten().filter(|place| place.leaf == Some(PlaceIndex(leaf as u32))).count()
    };
    let leaf = bench.c.places().leaves[0].clone();
    assert_eq!(
        nodes(&bench, &[(Component::Leaf(PlaceIndex(0)), &format!("leaf {leaf}"))]).len(),
        of_leaf(&leaf, bench.c.places())
    );
    let both = format!("{leaf} and {}", bench.c.places().leaves[1]);
    assert_eq!(nodes(&bench, &[(Component::LeafPair(PlaceIndex(0), PlaceIndex(1)), &both)]).len(), 6);
    let all = bench
        .c
        .touched(&incident(1, &[(Component::Endpoint(n1), "n1/d/1"), (Component::Spines, "the spines")]));
    assert!(all.everywhere && all.nodes.is_empty(), "what may be everywhere is not one node's");
}

/// Numbers of places change whenever somebody comes or goes, and after a restart there are none.
#[test]
fn names_count_where_numbers_are_out_of_date() {
    let bench = six();
    let other = bench.c.places().leaves[1].clone();
    let expected: BTreeSet<String> =
        bench.c.touched(&incident(1, &[(Component::Leaf(PlaceIndex(1)), &other)])).nodes;
    assert_eq!(expected.len(), 3);
    for stale in [PlaceIndex(0), PlaceIndex::UNKNOWN] {
        let touched = bench.c.touched(&incident(1, &[(Component::Leaf(stale), &format!("leaf {other}"))]));
        assert_eq!(touched.nodes, expected, "{stale:?}");
    }
    assert_eq!(nodes(&bench, &[(Component::Node(PlaceIndex::UNKNOWN), "n3")]), ["n3"]);
    assert_eq!(nodes(&bench, &[(Component::Node(PlaceIndex(0)), "node n3")]), ["n3"]);
    let gone = incident(1, &[(Component::Endpoint(EndpointIndex::UNKNOWN), "old/d/1")]);
    let touched = bench.c.touched(&gone);
    assert_eq!(
        (touched.nodes.len(), touched.endpoints.len()),
        (1, 0),
        "of an endpoint that is gone the name is left"
    );
}

#[test]
fn an_acknowledged_incident_is_known_until_it_is_over() {
    let mut bench = six();
    let n1 = bench.c.find_endpoint("n1").unwrap();
    bench.c.restore_incidents(vec![incident(4, &[(Component::Endpoint(n1), "n1/d/1")])]);
    bench.take();
    let now = bench.now;
    assert_eq!(bench.c.acknowledge_incident(4, Some("cable ordered".to_owned()), now), Ok(()));
    assert_eq!(bench.c.incident_acknowledged(4).unwrap().note, "cable ordered");
    let told = bench.take();
    assert!(told.contains(&Action::KeepNotes), "it is written down");
    assert!(told.iter().any(
        |action| matches!(action, Action::Keep(rows, None) if rows[0].kind == RowKind::Acknowledgement)
    ));
    let unknown = bench.c.acknowledge_incident(9, Some(String::new()), now);
    assert!(matches!(unknown, Err(CommandError::Unknown(text)) if text.contains("there are: 4")));
    assert_eq!(bench.c.acknowledge_incident(4, None, now), Ok(()));
    assert_eq!(bench.c.incident_acknowledged(4), None, "taken back");
    assert_eq!(bench.c.acknowledge_incident(4, Some(String::new()), now), Ok(()));
    // Nobody sees it any more.
    for _ in 0..6 {
        bench.pass(Duration::from_secs(15));
        bench.handle(Event::Tick);
    }
    assert_eq!(bench.c.incidents()[0].state, IncidentState::Closed);
    assert_eq!(bench.c.incident_acknowledged(4), None, "if it comes back, it is news");
    assert!(bench.c.acknowledge_incident(4, Some(String::new()), bench.now).is_err());
}

#[test]
fn an_incident_is_silenced_when_somebody_works_on_all_of_its_nodes() {
    let mut bench = six();
    let index = |name: &str| bench.c.find_endpoint(name).unwrap();
    let pair = incident(1, &[(Component::Pair(index("n1"), index("n2")), "n1/d/1 -> n2/d/1")]);
    let touched = bench.c.touched(&pair);
    assert!(!bench.c.incident_in_maintenance(&touched));
    let hour = Some(Duration::from_secs(3_600));
    bench.c.maintain("n1", hour, String::new(), bench.now).unwrap();
    assert!(!bench.c.incident_in_maintenance(&touched), "the other end works");
    bench.c.maintain("n2", hour, String::new(), bench.now).unwrap();
    assert!(bench.c.incident_in_maintenance(&touched));
    assert!(!bench.c.incident_in_maintenance(&Touched { everywhere: true, ..Touched::default() }));
}
