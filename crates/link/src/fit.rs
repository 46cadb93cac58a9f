//! Frames that are never too long, whatever a machine has to say: texts are cut, and lists end where the frame is full.

use crate::{
    BASIS_MAX, EVENTS_PER_FRAME_MAX, EVIDENCE_BYTES_MAX, EVIDENCE_MAX, FACTS_MAX, FINDINGS_MAX,
    FRAME_BYTES_MAX, Fact, FindingBrief, NodeEvent, ToCoordinator, to_wire,
};
use prost::Message;
use rdmascope_model::{EndpointInfo, Reading};

/// Longest name (a subject, an id, a key), bytes.
const NAME_BYTES_MAX: usize = 80;
/// Longest value of a fact or an event, bytes.
const VALUE_BYTES_MAX: usize = 120;
/// Longest sentence, bytes.
const SENTENCE_BYTES_MAX: usize = 320;
/// Kept free for the frame's own fields, bytes.
const FRAME_OVERHEAD_BYTES: usize = 64;
/// Tag and length of one entry of a list, bytes.
const ENTRY_OVERHEAD_BYTES: usize = 4;

/// A sentence as long as one may be.
pub(crate) fn sentence(text: &str) -> String {
    let mut text = text.to_owned();
    cut(&mut text, SENTENCE_BYTES_MAX);
    text
}

impl ToCoordinator {
    /// An inventory with as many findings, from the first on, as the frame has room for.
    #[must_use]
    pub fn inventory(mut endpoints: Vec<EndpointInfo>, findings: Vec<FindingBrief>) -> Self {
        for endpoint in &mut endpoints {
            cut(&mut endpoint.unusable_detail, SENTENCE_BYTES_MAX);
            endpoint.rail.iter_mut().for_each(|rail| cut(rail, NAME_BYTES_MAX));
            match &mut endpoint.switch_port {
                Reading::Value(at) => {
                    cut(&mut at.switch, VALUE_BYTES_MAX);
                    at.port.iter_mut().for_each(|port| cut(port, NAME_BYTES_MAX));
                }
                Reading::Failed(why) => cut(why, VALUE_BYTES_MAX),
                Reading::Absent => {}
            }
        }
        let taken: usize = endpoints.iter().map(|e| size(&to_wire::endpoint(e))).sum();
        let all = findings.len();
        let findings: Vec<_> = findings.into_iter().take(FINDINGS_MAX).map(FindingBrief::cut).collect();
        let findings = fitting(findings, taken, |finding| size(&to_wire::finding(finding)));
        let findings_left_out = u32::try_from(all - findings.len()).unwrap_or(u32::MAX);
        Self::Inventory { endpoints, findings, findings_left_out }
    }

    /// Facts, as many from the first on as the frame has room for.
    #[must_use]
    pub fn facts(facts: Vec<Fact>) -> Self {
        let facts = facts.into_iter().take(FACTS_MAX).map(Fact::cut).collect();
        Self::Facts(fitting(facts, 0, |fact| size(&to_wire::fact(fact))))
    }

    /// The first events, as many as one frame may have and has room for.
    #[must_use]
    pub fn events<'a>(events: impl IntoIterator<Item = &'a NodeEvent>) -> Self {
        let events = events.into_iter().take(EVENTS_PER_FRAME_MAX).cloned().map(NodeEvent::cut).collect();
        Self::Events(fitting(events, 0, |event| size(&to_wire::event(event))))
    }
}

impl FindingBrief {
    fn cut(mut self) -> Self {
        cut(&mut self.id, NAME_BYTES_MAX);
        cut(&mut self.subject, NAME_BYTES_MAX);
        for sentence in [&mut self.summary, &mut self.cause, &mut self.next_step] {
            cut(sentence, SENTENCE_BYTES_MAX);
        }
        self.evidence.truncate(EVIDENCE_MAX);
        for line in &mut self.evidence {
            cut(line, EVIDENCE_BYTES_MAX);
        }
        self
    }
}

impl Fact {
    fn cut(mut self) -> Self {
        cut(&mut self.subject, NAME_BYTES_MAX);
        cut(&mut self.key, NAME_BYTES_MAX);
        cut(&mut self.value, VALUE_BYTES_MAX);
        self
    }
}

impl NodeEvent {
    fn cut(mut self) -> Self {
        cut(&mut self.subject, NAME_BYTES_MAX);
        cut(&mut self.id, NAME_BYTES_MAX);
        cut(&mut self.before, VALUE_BYTES_MAX);
        cut(&mut self.after, VALUE_BYTES_MAX);
        cut(&mut self.text, SENTENCE_BYTES_MAX);
        // A part of it says nothing.
        let fits = |lines: &Vec<String>| {
            lines.len() <= BASIS_MAX && lines.iter().all(|line| line.len() <= VALUE_BYTES_MAX)
        };
        self.basis = self.basis.filter(fits);
        self
    }
}

fn size(message: &impl Message) -> usize {
    message.encoded_len() + ENTRY_OVERHEAD_BYTES
}

/// The first items that fit beside what is `taken` already, bytes.
fn fitting<T>(mut items: Vec<T>, mut taken: usize, size: impl Fn(&T) -> usize) -> Vec<T> {
    let fits = |item: &&T| {
        taken += size(item);
        taken + FRAME_OVERHEAD_BYTES <= FRAME_BYTES_MAX
    };
    let count = items.iter().take_while(fits).count();
    items.truncate(count);
    items
}

/// Cuts a text at a character's end; three dots say that there was more.
fn cut(text: &mut String, bytes_max: usize) {
    const DOTS: &str = "...";
    if text.len() > bytes_max {
        let room = bytes_max - DOTS.len();
        let end = (0..=room).rev().find(|place| text.is_char_boundary(*place)).unwrap_or(0);
        text.truncate(end);
        text.push_str(DOTS);
    }
}
