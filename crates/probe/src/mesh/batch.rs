//! One batch of pings to one peer: what was sent, what came back, and when it is over.

use super::packet::{Header, Sizes};
use super::plan::Plan;
use super::stamp::{Stamp, Stamps};
use rdmascope_model::{DatagramAddress, EndpointName, Mono, StampClock};
use std::time::Duration;

/// An answer after this is late: the usual value (R-Pingmesh, section 5).
pub const TIMEOUT: Duration = Duration::from_millis(500);
/// How long after its time-out a ping's answer is still told apart from a lost one.
const LINGER: Duration = Duration::from_millis(500);
/// How long after the last answer a second acknowledgement is waited for, once every ping is answered: it left right behind the first one,
/// and costs no more than its ping's share of the responder's host.
const SECOND_WITHIN: Duration = Duration::from_millis(100);
/// Times that the peer is asked how much it heard, where the answers leave that open.
const QUESTIONS_MAX: u8 = 3;
/// Between two of these questions.
const ASK_EVERY: Duration = Duration::from_millis(100);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It never left this host: not counted.
    Unsent,
    Waiting,
    Answered,
    /// Its time is over.
    Lost,
    Late,
    /// The peer's queue pair is not the one that it was sent to.
    Stale,
}

/// One ping of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ping {
    pub(super) state: State,
    pub(super) large: bool,
    pub(super) label: u16,
    /// t1 and t6.
    pub(super) posted: Mono,
    pub(super) handled: Mono,
    /// t2 and t5 in the batch's clock; 0 where missing.
    sent_ns: u64,
    received_ns: u64,
    /// One of these was taken by a program that was kept from running.
    vague: bool,
    /// t4 − t3; `None` until the second acknowledgement came.
    responder: Option<Responder>,
}

/// What the second acknowledgement said.
#[derive(Clone, Copy, Debug)]
struct Responder {
    delay_ns: u64,
    usable: bool,
    vague: bool,
}

/// What the stamps of one answered ping say, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shares {
    /// `None` where it cannot be told apart from what a host took that was busy with something else.
    pub(super) network: Option<u64>,
    pub(super) responder: u64,
    pub(super) prober: u64,
}

impl Ping {
    /// Something may still come of it.
    fn is_open(&self) -> bool {
        self.is_unanswered() || self.state == State::Answered && self.responder.is_none()
    }

    fn is_unanswered(&self) -> bool {
        matches!(self.state, State::Waiting | State::Lost)
    }

    /// `None` while the second acknowledgement is missing, `Some(None)` where the stamps are of no use.
    pub(super) fn shares(&self, clock: StampClock) -> Option<Option<Shares>> {
        let responder = self.responder?;
        if !responder.usable || self.sent_ns == 0 || self.received_ns == 0 {
            return Some(None);
        }
        let outside = self.received_ns.checked_sub(self.sent_ns);
        let network = outside.and_then(|outside| outside.checked_sub(responder.delay_ns));
        let total = self.handled.0.checked_sub(self.posted.0);
        let prober = total.zip(outside).and_then(|(total, outside)| total.checked_sub(outside));
        if let (false, false, Some(_), Some(prober)) = (self.vague, responder.vague, network, prober) {
            return Some(Some(Shares { network, responder: responder.delay_ns, prober }));
        }
        // Clocks of devices do not run backwards because a host is busy.
        let hosts = clock == StampClock::Software;
        let (total, outside) = (total.unwrap_or(0), outside.unwrap_or(0));
        let (responder, prober) = (responder.delay_ns.min(total), total.saturating_sub(outside));
        Some(hosts.then_some(Shares { network: None, responder, prober }))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// Its addresses are being made.
    Resolving,
    /// It waits for its turn.
    Ready,
    Sending,
    /// All is sent; answers are waited for.
    Draining,
}

/// A batch and its peer.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) number: u32,
    pub(super) peer: EndpointName,
    pub(super) address: DatagramAddress,
    pub(super) plan: Plan,
    pub(super) stage: Stage,
    pub(super) pings: Vec<Ping>,
    /// Whose stamps count: the plan's, or the program's from when the peer turns out to have no others.
    pub(super) clock: StampClock,
    pub(super) heard: Sizes,
    pub(super) acked: Sizes,
    /// Pings before this one are within what the peer told of.
    pub(super) told: u32,
    pub(super) duplicate: Sizes,
    pub(super) reordered: Sizes,
    /// Answers from a queue pair that the peer no longer has.
    pub(super) stale_answers: u32,
    /// Pings before this one have been looked at for their time-out.
    overdue: usize,
    /// One more than the last ping that was answered.
    newest: u32,
    /// Pings that something is still to come of.
    open: u32,
    /// Of these, pings that are not answered.
    unanswered: u32,
    /// When the last first acknowledgement came.
    answered_at: Mono,
    questions: u8,
    asked: Mono,
}

fn index(sequence: u32) -> usize {
    usize::try_from(sequence).unwrap_or(usize::MAX)
}

impl Batch {
    pub(super) fn new(number: u32, peer: EndpointName, address: DatagramAddress, plan: Plan) -> Self {
        Self {
            number,
            peer,
            address,
            stage: Stage::Resolving,
            pings: Vec::with_capacity(usize::try_from(plan.pings).unwrap_or(0)),
            clock: plan.clock,
            plan,
            heard: Sizes::default(),
            acked: Sizes::default(),
            told: 0,
            duplicate: Sizes::default(),
            reordered: Sizes::default(),
            stale_answers: 0,
            overdue: 0,
            newest: 0,
            open: 0,
            unanswered: 0,
            answered_at: Mono(0),
            questions: 0,
            asked: Mono(0),
        }
    }

    /// Pings sent until now, which is the number of the next one and of a question.
    pub(super) fn issued(&self) -> u32 {
        u32::try_from(self.pings.len()).unwrap_or(u32::MAX)
    }

    /// Takes the next ping into the books: its number, size and label.
    pub(super) fn issue(&mut self, now: Mono) -> (u32, bool, u16) {
        let sequence = self.issued();
        let (large, label) = self.plan.ping(sequence);
        self.pings.push(Ping {
            state: State::Waiting,
            large,
            label,
            posted: now,
            handled: now,
            sent_ns: 0,
            received_ns: 0,
            vague: false,
            responder: None,
        });
        self.open += 1;
        self.unanswered += 1;
        if self.issued() >= self.plan.pings {
            self.stage = Stage::Draining;
        }
        (sequence, large, label)
    }

    /// t2 of a ping. What the other clock says of it does not count.
    pub(super) fn sent(&mut self, sequence: u32, stamp: Stamp) {
        if stamp.clock != self.clock {
            return;
        }
        self.change(index(sequence), |ping| {
            ping.sent_ns = stamp.ns;
            ping.vague |= stamp.vague;
        });
    }

    /// The peer has no stamps of its device: from here on both ends' programs stamp. What the device said of the first pings is of no
    /// use any more.
    fn go_by_software(&mut self) {
        self.clock = StampClock::Software;
        for ping in &mut self.pings {
            (ping.sent_ns, ping.received_ns) = (0, 0);
        }
    }

    /// A ping did not leave this host.
    pub(super) fn unsent(&mut self, sequence: u32) {
        self.change(index(sequence), |ping| {
            if ping.state == State::Waiting {
                ping.state = State::Unsent;
            }
        });
    }

    /// Up to where an answer tells what was heard: pings that left at the same moment may have come behind it. The answer to a question,
    /// which has the number behind the last ping, tells of all.
    fn told_by(&self, sequence: u32) -> u32 {
        let Some(answered) = self.pings.get(index(sequence)) else { return self.issued() };
        let together = self.pings[..index(sequence)].iter().rev().take_while(|p| p.posted == answered.posted);
        let before = index(sequence) - together.count();
        let alone = self.pings.get(before + 1).is_none_or(|next| next.posted != answered.posted);
        u32::try_from(before + usize::from(alone)).unwrap_or(u32::MAX)
    }

    /// An answer from the right queue pair came.
    pub(super) fn answered(&mut self, header: &Header, first: bool, stamps: Stamps, now: Mono) {
        self.heard = self.heard.max(header.heard);
        self.acked = self.acked.max(header.acked);
        self.told = self.told.max(self.told_by(header.sequence));
        let at = index(header.sequence);
        if !first {
            if self.clock == StampClock::Hardware && matches!(header.delay, Some((_, StampClock::Software))) {
                self.go_by_software();
            }
            let clock = self.clock;
            let delay = header.delay.filter(|(_, whose)| *whose == clock);
            let (delay_ns, usable) = (delay.map_or(0, |(ns, _)| ns), delay.is_some());
            let told = Responder { delay_ns, usable, vague: header.vague };
            return self.change(at, |ping| {
                ping.responder.get_or_insert(told);
            });
        }
        let Some(ping) = self.pings.get(at) else { return };
        let stamp = stamps.by(self.clock);
        self.answered_at = now;
        let (large, state, in_time) = (ping.large, ping.state, now.since(ping.posted) < TIMEOUT);
        match state {
            State::Waiting if in_time => {
                self.change(at, |ping| {
                    ping.state = State::Answered;
                    ping.handled = now;
                    ping.received_ns = stamp.ns;
                    ping.vague |= stamp.vague;
                });
                if header.sequence < self.newest {
                    self.reordered.count(large);
                }
            }
            State::Waiting | State::Lost => self.change(at, |ping| ping.state = State::Late),
            State::Answered | State::Late => self.duplicate.count(large),
            State::Unsent | State::Stale => {}
        }
        self.newest = self.newest.max(header.sequence.saturating_add(1));
    }

    /// The peer has another address now: what it has not told of went to nobody.
    pub(super) fn outdated(&mut self) {
        let told = index(self.told);
        for at in told..self.pings.len() {
            self.change(at, |ping| {
                if matches!(ping.state, State::Waiting | State::Lost) {
                    ping.state = State::Stale;
                }
            });
        }
        self.stage = Stage::Draining;
        self.questions = QUESTIONS_MAX;
    }

    /// No more pings of it.
    pub(super) fn stop(&mut self) {
        self.stage = Stage::Draining;
    }

    /// Lets pings time out.
    pub(super) fn tick(&mut self, now: Mono) {
        while let Some(ping) = self.pings.get_mut(self.overdue) {
            if ping.state == State::Waiting {
                if now.since(ping.posted) < TIMEOUT {
                    return;
                }
                ping.state = State::Lost;
            }
            self.overdue += 1;
        }
    }

    /// Does it have to ask the peer how much it heard, now? Counts the question.
    pub(super) fn ask(&mut self, now: Mono) -> bool {
        let due = self.question_due().is_some_and(|due| now >= due);
        if due {
            self.questions += 1;
            self.asked = now;
        }
        due
    }

    fn question_due(&self) -> Option<Mono> {
        let open = self.stage == Stage::Draining && self.questions < QUESTIONS_MAX && self.untold();
        let all_overdue = open && self.overdue == self.pings.len();
        all_overdue
            .then(|| if self.questions == 0 { self.last_posted() } else { self.asked.after(ASK_EVERY) })
    }

    /// Are there lost pings of which the peer did not tell whether it heard them?
    pub(super) fn untold(&self) -> bool {
        let told = index(self.told);
        self.pings.iter().skip(told).any(|ping| ping.state == State::Lost)
    }

    fn last_posted(&self) -> Mono {
        self.pings.last().map_or(Mono(0), |ping| ping.posted)
    }

    /// When something happens to it by itself; `None` while nothing is sent. Questions are due from `ask_from` on, where
    /// they may be asked.
    pub(super) fn due(&self, ask_from: Option<Mono>) -> Option<Mono> {
        let waiting = self.pings.get(self.overdue).map(|ping| ping.posted.after(TIMEOUT));
        let end = (self.stage == Stage::Draining).then(|| self.end());
        let question = ask_from.and_then(|from| Some(self.question_due()?.max(from)));
        [waiting, question, end].into_iter().flatten().min()
    }

    /// When waiting ends, as it looks now.
    fn end(&self) -> Mono {
        let answers = self.last_posted().after(TIMEOUT + LINGER);
        match (self.open, self.questions) {
            (0, _) => Mono(0),
            _ if self.unanswered == 0 => self.answered_at.after(SECOND_WITHIN),
            (_, 0) => answers,
            (..) => answers.max(self.asked.after(TIMEOUT)),
        }
    }

    /// Nothing more is to come.
    pub(super) fn over(&self, now: Mono) -> bool {
        self.stage == Stage::Draining && now >= self.end()
    }

    /// Changes a ping, and keeps count of those that something is still to come of.
    fn change(&mut self, at: usize, change: impl FnOnce(&mut Ping)) {
        let Some(ping) = self.pings.get_mut(at) else { return };
        let before = (ping.is_open(), ping.is_unanswered());
        change(ping);
        self.open = self.open + u32::from(ping.is_open()) - u32::from(before.0);
        self.unanswered = self.unanswered + u32::from(ping.is_unanswered()) - u32::from(before.1);
    }
}

const _: () = assert!(size_of::<Ping>() <= 64);
