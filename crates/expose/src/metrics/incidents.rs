//! Incidents as metrics: counts that never grow, and a sample for each that somebody should look at, named by who is to blame and not
//! by who saw it.

use super::catalogue::{INCIDENT, INCIDENTS, INCIDENTS_LEFT_OUT};
use super::text::Text;
use rdmascope_model::Status;
use std::collections::BTreeSet;

/// Incidents with a sample of their own: a cluster with more has one problem, and not a hundred.
const SHOWN_MAX: usize = 50;
/// Longest subject as a label, characters: what cannot be told apart is named together.
const SUBJECT_MAX: usize = 120;

/// What becomes of an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IncidentState {
    /// Somebody should look.
    Open,
    /// It is being measured again.
    Suspected,
    /// Somebody knows of it.
    Acknowledged,
    /// Somebody works on all of its nodes.
    Maintenance,
}

impl IncidentState {
    const ALL: [Self; 4] = [Self::Open, Self::Suspected, Self::Acknowledged, Self::Maintenance];

    fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Suspected => "suspected",
            Self::Acknowledged => "acknowledged",
            Self::Maintenance => "maintenance",
        }
    }
}

/// One incident that is not over.
#[derive(Clone, Debug)]
pub struct IncidentInput {
    /// What becomes of it.
    pub state: IncidentState,
    /// How bad.
    pub status: Status,
    /// Names of what is blamed, in one text.
    pub subject: String,
    /// What kind of part that is.
    pub component: &'static str,
    /// What is wrong with it.
    pub effect: &'static str,
    /// The one node that it is about; empty where it is about several.
    pub node: String,
    /// The one leaf that it is about; likewise.
    pub leaf: String,
}

/// All families of incidents; the worst of them come first in `incidents`.
pub(super) fn incidents(text: &mut Text, incidents: &[IncidentInput]) {
    text.family(&INCIDENTS, |out| {
        for status in [Status::Fail, Status::Warn] {
            for state in IncidentState::ALL {
                let count = incidents.iter().filter(|i| i.status == status && i.state == state).count();
                out.add(&[status.as_str(), state.as_str()], count);
            }
        }
    });
    let open = || incidents.iter().filter(|incident| incident.state == IncidentState::Open);
    let mut shown = BTreeSet::new();
    text.family(&INCIDENT, |out| {
        for incident in open().take(SHOWN_MAX) {
            let subject: String = incident.subject.chars().take(SUBJECT_MAX).collect();
            // Two that share all labels are one series.
            if shown.insert((subject.clone(), incident.component, incident.effect, incident.status.as_str()))
            {
                let (status, node, leaf) = (incident.status.as_str(), &incident.node, &incident.leaf);
                out.add(&[&subject, incident.component, incident.effect, status, node, leaf], 1);
            }
        }
    });
    text.single(&INCIDENTS_LEFT_OUT, open().count().saturating_sub(SHOWN_MAX));
}
