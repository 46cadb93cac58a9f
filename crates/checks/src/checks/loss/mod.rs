//! Are packets lost, and does somebody have to send again?

pub(super) mod ack_timeouts;
pub(super) mod application_errors;
pub(super) mod icrc_errors;
pub(super) mod out_of_sequence;
pub(super) mod rate_restarts;
pub(super) mod retransmits;
pub(super) mod retry_exceeded;
pub(super) mod slow_receiver;

use crate::check::Look;
use crate::counters::{CATALOGUE, Meaning};
use crate::finding::port_subject;
use crate::verdict::Verdict;
use crate::watch::{Moved, by_rate, seen_at_port};
use rdmascope_model::{Device, Finding, Port};
use std::time::Duration;

/// Names of all counters of one meaning, over all drivers.
fn of_meaning(meaning: Meaning) -> Vec<&'static str> {
    CATALOGUE.iter().filter(|row| row.meaning == meaning).map(|row| row.name).collect()
}

/// One check over some counters of each port.
fn each_port<'a>(
    ports: impl Iterator<Item = (&'a Device, &'a Port)>,
    look: &Look<'_>,
    (id, what): (&'static str, &str),
    (names, window): (&[&str], Duration),
    verdict: impl Fn(&Moved, (&Device, &Port)) -> Option<Verdict>,
) -> Vec<Finding> {
    ports
        .map(|(device, port)| {
            let seen = seen_at_port(look, (device, port), names, window);
            by_rate(id, port_subject(device, port), what, seen, |moved| verdict(moved, (device, port)))
        })
        .collect()
}
