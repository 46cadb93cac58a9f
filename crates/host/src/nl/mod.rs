//! Asks the kernel through netlink for what no typed crate knows: data centre bridging, ethtool, devlink, RDMA.
//!
//! A call goes into the kernel and may stay there for as long as a driver's firmware or a lock takes: a request is worked on within
//! the sending system call. So these functions block, and whoever calls them gives each device a thread and a deadline of its own.

mod attributes;
pub(crate) mod dcb;
pub(crate) mod ethtool;
pub(crate) mod module;
mod question;

pub(crate) use attributes::{Attributes, Writer};
pub(crate) use question::{DcbQuestion, DevlinkQuestion, EthtoolQuestion, Question, RdmaQuestion};

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_ACK_TLVS, NLM_F_CAPPED, NLM_F_DUMP, NLM_F_DUMP_INTR, NLM_F_REQUEST, NetlinkBuffer,
    NetlinkDeserializable, NetlinkHeader, NetlinkMessage, NetlinkPayload, NetlinkSerializable,
};
use question::{FAMILY_ID, FAMILY_NAME, Subsystem};
use rdmascope_model::Reading;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};
use std::cell::Cell;
use std::convert::Infallible;
use std::time::{Duration, Instant};

/// How long the kernel may take to answer; it takes well below a millisecond, and a module's I2C bus some ten.
const DEADLINE: Duration = Duration::from_secs(1);

/// Room for one answer. The kernel fills at most 32 KiB at once in a dump.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A message of any netlink protocol: its type, and the bytes after the netlink header.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Raw {
    kind: u16,
    body: Vec<u8>,
}

impl NetlinkSerializable for Raw {
    fn message_type(&self) -> u16 {
        self.kind
    }

    fn buffer_len(&self) -> usize {
        self.body.len()
    }

    fn serialize(&self, buffer: &mut [u8]) {
        buffer.copy_from_slice(&self.body);
    }
}

impl NetlinkDeserializable for Raw {
    type Error = Infallible;

    fn deserialize(header: &NetlinkHeader, payload: &[u8]) -> Result<Self, Infallible> {
        Ok(Self { kind: header.message_type, body: payload.to_vec() })
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The kernel said no: its error, and its words where it had any.
    Errno(Errno, String),
    /// Nothing came in time.
    Late,
    /// What came cannot be understood.
    Odd(String),
}

/// Errors with which the kernel says that a device or a driver has no such thing.
pub(crate) const NOT_SUPPORTED: &[Errno] = &[Errno::OPNOTSUPP, Errno::NODATA];

/// Errors with which the kernel says that it was built, or loaded, without the whole subsystem.
pub(crate) const NO_SUBSYSTEM: &[Errno] = &[Errno::OPNOTSUPP, Errno::PROTONOSUPPORT, Errno::NOENT];

impl Refusal {
    /// The reading that this is: `Absent` for the errors in `absent`, otherwise failed, with what was asked (`what`) in front.
    pub(crate) fn reading<T>(&self, what: &str, absent: &[Errno]) -> Reading<T> {
        match self {
            Self::Errno(errno, _) if absent.contains(errno) => Reading::Absent,
            refusal => Reading::Failed(refusal.words(what)),
        }
    }

    /// What was asked, and why there is no answer.
    pub(crate) fn words(&self, what: &str) -> String {
        match self {
            Self::Errno(errno @ (Errno::PERM | Errno::ACCESS), _) => {
                format!("{what}: {}; it needs CAP_NET_ADMIN: run as root", std::io::Error::from(*errno))
            }
            Self::Errno(errno, words) if words.is_empty() => {
                format!("{what}: {}", std::io::Error::from(*errno))
            }
            Self::Errno(errno, words) => format!("{what}: {} ({words})", std::io::Error::from(*errno)),
            Self::Late => format!("{what}: no answer from the kernel within {} s", DEADLINE.as_secs()),
            Self::Odd(why) => format!("{what}: {why}"),
        }
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Self {
        match errno {
            Errno::AGAIN => Self::Late,
            errno => Self::Errno(errno, String::new()),
        }
    }
}

/// A socket on which one subsystem is asked.
pub(crate) struct Socket {
    socket: rtnetlink::sys::Socket,
    subsystem: Subsystem,
    /// Message type of a generic netlink family.
    family: u16,
    sequence: Cell<u32>,
}

impl Socket {
    /// A socket to the data centre bridging part of rtnetlink.
    pub(crate) fn dcb() -> Result<Self, Refusal> {
        Self::open(Subsystem::Dcb)
    }

    /// A socket to ethtool; `ENOENT` where the kernel is older than 5.6.
    pub(crate) fn ethtool() -> Result<Self, Refusal> {
        Self::generic(Subsystem::Ethtool, "ethtool")
    }

    /// A socket to devlink; `ENOENT` where the kernel has none.
    pub(crate) fn devlink() -> Result<Self, Refusal> {
        Self::generic(Subsystem::Devlink, "devlink")
    }

    /// A socket to the RDMA subsystem; `EPROTONOSUPPORT` where the kernel has none.
    pub(crate) fn rdma() -> Result<Self, Refusal> {
        Self::open(Subsystem::Rdma)
    }

    fn open(subsystem: Subsystem) -> Result<Self, Refusal> {
        let refused = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
        let mut socket = rtnetlink::sys::Socket::new(subsystem.protocol()).map_err(refused)?;
        socket.bind_auto().map_err(refused)?;
        // The kernel's own words beside an error number, where it has them.
        socket.set_ext_ack(true).map_err(refused)?;
        sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(DEADLINE))?;
        Ok(Self { socket, subsystem, family: 0, sequence: Cell::new(0) })
    }

    /// The same for a family of generic netlink, whose message type is told by name.
    fn generic(subsystem: Subsystem, name: &str) -> Result<Self, Refusal> {
        let mut socket = Self::open(subsystem)?;
        let attributes = Writer::default().text(FAMILY_NAME, name);
        let answer = socket.one(Question::Family, &attributes)?;
        socket.family = Attributes(&answer)
            .u16(FAMILY_ID)
            .ok_or_else(|| Refusal::Odd(format!("the kernel gave no number for '{name}'")))?;
        Ok(socket)
    }

    /// Asks for one thing; gives the attributes of the answer.
    pub(crate) fn one(&self, question: Question, attributes: &Writer) -> Result<Vec<u8>, Refusal> {
        let answers = self.ask(question, attributes, NLM_F_ACK)?;
        answers.into_iter().next().ok_or_else(|| Refusal::Odd("the kernel's answer is empty".to_owned()))
    }

    /// Asks for all there are; gives the attributes of each answer.
    pub(crate) fn all(&self, question: Question, attributes: &Writer) -> Result<Vec<Vec<u8>>, Refusal> {
        self.ask(question, attributes, NLM_F_DUMP)
    }

    fn ask(&self, question: Question, attributes: &Writer, flags: u16) -> Result<Vec<Vec<u8>>, Refusal> {
        if !question.belongs_to(self.subsystem) {
            return Err(Refusal::Odd(format!("{question:?} cannot be asked on this socket")));
        }
        let sequence = self.sequence.get().wrapping_add(1);
        self.sequence.set(sequence);
        let sent = request(question, self.family, attributes, flags, sequence);
        rustix::net::send(&self.socket, &sent, SendFlags::empty())?;
        let deadline = Instant::now() + DEADLINE;
        let mut answers = Answers::new(sequence, question.header_bytes());
        let mut room = vec![0; ANSWER_BYTES_MAX];
        while Instant::now() < deadline {
            let receive = || rustix::net::recv(&self.socket, &mut room[..], RecvFlags::TRUNC);
            let (_, length) = rustix::io::retry_on_intr(receive)?;
            let datagram = room
                .get(..length)
                .ok_or_else(|| Refusal::Odd(format!("an answer of {length} bytes is too long")))?;
            if answers.take(datagram)? {
                return Ok(answers.found);
            }
        }
        Err(Refusal::Late)
    }
}

/// The bytes of a request.
fn request(question: Question, family: u16, attributes: &Writer, flags: u16, sequence: u32) -> Vec<u8> {
    let (kind, mut body) = question.message(family);
    body.extend_from_slice(attributes.as_bytes());
    let mut header = NetlinkHeader::default();
    header.flags = NLM_F_REQUEST | flags;
    header.sequence_number = sequence;
    let mut message = NetlinkMessage::new(header, NetlinkPayload::InnerMessage(Raw { kind, body }));
    message.finalize();
    let mut bytes = vec![0; message.buffer_len()];
    message.serialize(&mut bytes);
    bytes
}

/// The answers to one request, as they come.
pub(crate) struct Answers {
    sequence: u32,
    /// Bytes between the netlink header and the attributes.
    header_bytes: usize,
    /// The attributes of each answer.
    pub(crate) found: Vec<Vec<u8>>,
}

impl Answers {
    pub(crate) fn new(sequence: u32, header_bytes: usize) -> Self {
        Self { sequence, header_bytes, found: Vec::new() }
    }

    /// Takes the messages of one datagram; `true` when the last one has come.
    pub(crate) fn take(&mut self, datagram: &[u8]) -> Result<bool, Refusal> {
        let odd = |e: netlink_packet_core::DecodeError| Refusal::Odd(e.to_string());
        let mut rest = datagram;
        while !rest.is_empty() {
            let length = NetlinkBuffer::new_checked(rest).map_err(odd)?.length() as usize;
            let message = NetlinkMessage::<Raw>::deserialize(rest).map_err(odd)?;
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            // An answer to an earlier question that was given up.
            if message.header.sequence_number != self.sequence {
                continue;
            }
            if message.header.flags & NLM_F_DUMP_INTR != 0 {
                return Err(Refusal::Odd("the list changed while it was read".to_owned()));
            }
            match message.payload {
                NetlinkPayload::InnerMessage(Raw { mut body, .. }) => {
                    let attributes = body.split_off(self.header_bytes.min(body.len()));
                    self.found.push(attributes);
                }
                NetlinkPayload::Error(error) => {
                    return match error.code {
                        // The acknowledgement after the answer.
                        None => Ok(true),
                        Some(code) => Err(refused(code.get(), words(message.header.flags, &error.header))),
                    };
                }
                NetlinkPayload::Done(done) if done.code < 0 => {
                    return Err(refused(done.code, String::new()));
                }
                NetlinkPayload::Done(_) => return Ok(true),
                _ => {}
            }
        }
        Ok(false)
    }
}

fn refused(code: i32, words: String) -> Refusal {
    match code.saturating_neg() {
        // The kernel's errors (`MAX_ERRNO` in `include/linux/err.h`); of another number none can be made.
        errno @ 1..=4095 => Refusal::Errno(Errno::from_raw_os_error(errno), words),
        other => Refusal::Odd(format!("the kernel answered with {other}, which is no error number")),
    }
}

/// `NLMSGERR_ATTR_MSG`: the kernel's words, behind the header (or all, when not capped) of the request.
fn words(flags: u16, error: &[u8]) -> String {
    const WORDS: u16 = 1;
    const HEADER: usize = 16;
    if flags & NLM_F_ACK_TLVS == 0 {
        return String::new();
    }
    let length = match error.get(..4) {
        Some(&[a, b, c, d]) if flags & NLM_F_CAPPED == 0 => u32::from_ne_bytes([a, b, c, d]) as usize,
        _ => HEADER,
    };
    let tail = length.checked_next_multiple_of(4).and_then(|start| error.get(start..)).unwrap_or_default();
    crate::parse::plain(Attributes(tail).text(WORDS).unwrap_or_default()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
