//! The target of an echo probe: sends back what comes from the leased peer, and counts it. It sends nothing when nothing came in.

use super::Line;
use super::datagram::{HEADER_BYTES, Header, Kind};
use crate::sockets::{Token, Trouble};
use crate::worker::Progress;
use rdmascope_model::Outcome;
use rdmascope_probe::limits::{ECHO_BYTES_MAX, ECHOES_MAX};
use std::time::{Duration, Instant};

/// The source asked how many were heard, and may ask again when the answer was lost; then it is over without its word.
const LINGER: Duration = Duration::from_millis(700);
/// So many datagrams are looked at before the thread looks after its other probes.
const AT_ONCE: u32 = 64;

/// What it heard so far.
pub(super) struct Answering {
    room: Vec<u8>,
    numbers: Vec<bool>,
    heard: u32,
    asked: Option<Instant>,
}

impl Default for Answering {
    fn default() -> Self {
        let room = vec![0; ECHO_BYTES_MAX as usize + 1];
        Self { room, numbers: vec![false; ECHOES_MAX as usize], heard: 0, asked: None }
    }
}

impl Answering {
    pub(super) fn run(&mut self, line: &Line, token: &Token) -> Result<Progress, Trouble> {
        for _ in 0..AT_ONCE {
            let Some(length) = line.receive(&mut self.room)?.map(<[u8]>::len) else {
                let left = self.asked.is_some_and(|asked| asked.elapsed() >= LINGER);
                return Ok(if left { Progress::Finished(Outcome::Served) } else { Progress::Waiting });
            };
            let Some(header) = self.room.get(..length).and_then(|datagram| Header::read(token, datagram))
            else {
                continue;
            };
            let length = match header.kind {
                Kind::Over => return Ok(Progress::Finished(Outcome::Served)),
                Kind::Count => {
                    self.asked.get_or_insert_with(Instant::now);
                    HEADER_BYTES
                }
                Kind::Echo => {
                    // A copy that the network made is no second one that was heard.
                    if let Some(known) = self.numbers.get_mut(header.number as usize) {
                        self.heard += u32::from(!*known);
                        *known = true;
                    }
                    length
                }
            };
            Header { heard: self.heard, ..header }.write(token, &mut self.room[..length]);
            line.send(&self.room[..length])?;
        }
        Ok(Progress::Waiting)
    }
}
