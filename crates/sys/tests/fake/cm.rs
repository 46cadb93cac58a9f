//! A kernel's connection manager without a kernel: ends of one process reach each other, and a test steers what becomes of them.
#![expect(unsafe_code, reason = "answers commands as the kernel does: at the address that they name")]
#![allow(dead_code, reason = "each test file that includes this uses a part of it")]

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rdmascope_sys::ConnectionManager;

/// Numbers of the commands (`<rdma/rdma_user_cm.h>`) that a test may let fail.
pub(crate) const CREATE_ID: u32 = 0;
pub(crate) const RESOLVE_ROUTE: u32 = 4;
pub(crate) const CONNECT: u32 = 6;
pub(crate) const LISTEN: u32 = 7;
pub(crate) const ACCEPT: u32 = 8;
pub(crate) const BIND: u32 = 20;
pub(crate) const RESOLVE_ADDRESS: u32 = 21;

const EVENT_WORDS: usize = 84;
const EAGAIN: i32 = 11;
const EINVAL: i32 = 22;
const ECONNREFUSED: i32 = 111;

/// Moves two queue pairs to RTS, and one to ERR: what a driver does for the connection manager.
pub(crate) trait QueuePairs: Send {
    fn join(&self, one: u32, other: u32);
    fn part(&self, one: u32);
}

/// The connection managers of all ends. Cloning shares them.
#[derive(Clone)]
pub(crate) struct FakeManagers(Arc<Mutex<State>>);

struct State {
    pairs: Box<dyn QueuePairs>,
    ends: BTreeMap<u32, End>,
    events: BTreeMap<u32, VecDeque<[u32; EVENT_WORDS]>>,
    managers: u32,
    made: u32,
    ports: u16,
    /// Commands that fail, with the errno.
    failing: BTreeMap<u32, i32>,
    /// Commands whose event is this one instead: kind and status.
    answers: BTreeMap<u32, (u32, i32)>,
}

#[derive(Clone)]
struct End {
    manager: u32,
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
    listens: bool,
    queue_pair: u32,
    other: Option<u32>,
}

/// Ends everything of one manager when its file is closed.
struct Closed(FakeManagers, u32);

impl Drop for Closed {
    fn drop(&mut self) {
        let mut state = self.0.state();
        let own: Vec<u32> =
            state.ends.iter().filter(|(_, end)| end.manager == self.1).map(|(id, _)| *id).collect();
        own.into_iter().for_each(|id| state.destroy(id));
        state.events.remove(&self.1);
    }
}

impl FakeManagers {
    pub(crate) fn new(pairs: impl QueuePairs + 'static) -> Self {
        Self(Arc::new(Mutex::new(State {
            pairs: Box::new(pairs),
            ends: BTreeMap::new(),
            events: BTreeMap::new(),
            managers: 0,
            made: 0,
            ports: 40_000,
            failing: BTreeMap::new(),
            answers: BTreeMap::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As opening `/dev/infiniband/rdma_cm`.
    pub(crate) fn open(&self) -> ConnectionManager {
        let mut state = self.state();
        state.managers += 1;
        let manager = state.managers;
        state.events.insert(manager, VecDeque::new());
        let closed = Closed(self.clone(), manager);
        ConnectionManager::over(move |bytes| closed.0.state().obey(closed.1, bytes).map(|()| bytes.len()))
    }

    /// Lets a command fail from now on.
    pub(crate) fn fail(&self, command: u32, errno: i32) {
        self.state().failing.insert(command, errno);
    }

    /// Lets a command's event be another one from now on.
    pub(crate) fn answer(&self, command: u32, kind: u32, status: i32) {
        self.state().answers.insert(command, (kind, status));
    }

    /// Ends and listeners that exist.
    pub(crate) fn ends(&self) -> usize {
        self.state().ends.len()
    }

    /// Of them listeners.
    pub(crate) fn listeners(&self) -> Vec<SocketAddr> {
        self.state().ends.values().filter(|end| end.listens).filter_map(|end| end.local).collect()
    }
}

fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn address(storage: &[u8]) -> Option<SocketAddr> {
    let ip = <[u8; 4]>::try_from(&storage[4..8]).map(Ipv4Addr::from).ok()?;
    let v4 = storage[..2] == 2_u16.to_ne_bytes();
    v4.then(|| SocketAddr::new(IpAddr::V4(ip), u16::from_be_bytes([storage[2], storage[3]])))
}

fn storage(address: Option<SocketAddr>) -> [u8; 128] {
    let mut bytes = [0; 128];
    if let Some(SocketAddr::V4(v4)) = address {
        bytes[..2].copy_from_slice(&2_u16.to_ne_bytes());
        bytes[2..4].copy_from_slice(&v4.port().to_be_bytes());
        bytes[4..8].copy_from_slice(&v4.ip().octets());
    }
    bytes
}

/// Writes an answer where the command wants it.
fn reply(command: &[u8], at: usize, answer: &[u8]) {
    let place = u64::from_ne_bytes(command[at..at + 8].try_into().expect("eight bytes"));
    let room = usize::from(u16::from_ne_bytes([command[6], command[7]]));
    assert!(answer.len() <= room, "the command has no room for its answer");
    let place = std::ptr::with_exposed_provenance_mut::<u8>(place as usize);
    // SAFETY: the command's sender owns `room` bytes there until its call comes back, and told the address for this.
    unsafe { place.copy_from_nonoverlapping(answer.as_ptr(), answer.len()) };
}

impl State {
    fn obey(&mut self, manager: u32, bytes: &[u8]) -> io::Result<()> {
        let (command, body) = (number(bytes, 0), &bytes[8..]);
        assert_eq!(usize::from(u16::from_ne_bytes([bytes[4], bytes[5]])), body.len(), "the header's length");
        if let Some(errno) = self.failing.get(&command) {
            return Err(io::Error::from_raw_os_error(*errno));
        }
        match command {
            CREATE_ID => {
                assert_ne!(body[..8], [0; 8], "the kernel tells nothing of an end without a mark");
                let id = self.create(manager);
                reply(bytes, 16, &id.to_ne_bytes());
            }
            1 => {
                self.end(number(body, 8))?;
                self.destroy(number(body, 8));
                reply(bytes, 8, &[0; 4]);
            }
            RESOLVE_ROUTE => self.told(number(body, 0), command, 2)?,
            CONNECT => {
                self.connect(number(body, 272), number(body, 0), &body[8..][..usize::from(body[264])])?
            }
            LISTEN => self.end(number(body, 0))?.listens = true,
            ACCEPT => self.accept(number(body, 280), number(body, 8))?,
            9 => {
                let other = self.end(number(body, 0))?.other.take();
                other.into_iter().for_each(|other| self.tell(other, 8, -ECONNREFUSED, &[]));
            }
            12 => {
                let next = self.events.get_mut(&manager).and_then(VecDeque::pop_front);
                let words = next.ok_or_else(|| io::Error::from_raw_os_error(EAGAIN))?;
                let event: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                reply(bytes, 8, &event);
            }
            19 => {
                let end = self.end(number(body, 8))?;
                let answer = [&[0; 16][..], &storage(end.local), &storage(end.peer), &[0; 8]].concat();
                reply(bytes, 8, &answer);
            }
            BIND => self.bind(number(body, 0), address(&body[8..]))?,
            RESOLVE_ADDRESS => {
                let id = number(body, 0);
                self.bind(id, address(&body[16..]))?;
                self.end(id)?.peer = address(&body[144..]);
                self.told(id, command, 0)?;
            }
            other => panic!("command {other}"),
        }
        Ok(())
    }

    fn end(&mut self, id: u32) -> io::Result<&mut End> {
        self.ends.get_mut(&id).ok_or_else(|| io::Error::from_raw_os_error(EINVAL))
    }

    fn create(&mut self, manager: u32) -> u32 {
        let id = self.made;
        self.made += 1;
        let end = End { manager, local: None, peer: None, listens: false, queue_pair: 0, other: None };
        self.ends.insert(id, end);
        id
    }

    fn bind(&mut self, id: u32, local: Option<SocketAddr>) -> io::Result<()> {
        self.ports += 1;
        let port = self.ports;
        self.end(id)?.local = local.map(|local| SocketAddr::new(local.ip(), port));
        Ok(())
    }

    fn tell(&mut self, id: u32, kind: u32, status: i32, data: &[u8]) {
        let Some(manager) = self.ends.get(&id).map(|end| end.manager) else { return };
        let mut bytes = [0; EVENT_WORDS * 4];
        bytes[8..12].copy_from_slice(&id.to_ne_bytes());
        bytes[12..16].copy_from_slice(&kind.to_ne_bytes());
        bytes[16..20].copy_from_slice(&status.to_ne_bytes());
        bytes[28..28 + data.len()].copy_from_slice(data);
        bytes[284] = data.len() as u8;
        let words = std::array::from_fn(|word| number(&bytes, word * 4));
        self.events.entry(manager).or_default().push_back(words);
    }

    /// The event of a command that went well, or the one that the test wants.
    fn told(&mut self, id: u32, command: u32, kind: u32) -> io::Result<()> {
        self.end(id)?;
        let (kind, status) = self.answers.get(&command).copied().unwrap_or((kind, 0));
        self.tell(id, kind, status, &[]);
        Ok(())
    }

    fn connect(&mut self, id: u32, queue_pair: u32, data: &[u8]) -> io::Result<()> {
        if self.answers.contains_key(&CONNECT) {
            return self.told(id, CONNECT, 0);
        }
        let asks = self.end(id)?;
        asks.queue_pair = queue_pair;
        let asks = asks.clone();
        let listener = self.ends.values().find(|end| end.listens && end.local == asks.peer).cloned();
        let Some(listener) = listener else {
            self.tell(id, 8, -ECONNREFUSED, &[]);
            return Ok(());
        };
        let new = self.create(listener.manager);
        self.ends.insert(
            new,
            End { local: asks.peer, peer: asks.local, other: Some(id), listens: false, ..listener },
        );
        self.tell(new, 4, 0, data);
        Ok(())
    }

    fn accept(&mut self, id: u32, queue_pair: u32) -> io::Result<()> {
        let end = self.end(id)?;
        end.queue_pair = queue_pair;
        let Some(other) = end.other else { return Err(io::Error::from_raw_os_error(EINVAL)) };
        let asked = self.end(other)?;
        asked.other = Some(id);
        let asked = asked.queue_pair;
        self.pairs.join(asked, queue_pair);
        self.tell(id, 9, 0, &[]);
        self.tell(other, 9, 0, &[]);
        Ok(())
    }

    fn destroy(&mut self, id: u32) {
        let Some(end) = self.ends.remove(&id) else { return };
        let Some(other) = end.other else { return };
        self.pairs.part(end.queue_pair);
        let pair = self.ends.get(&other).map(|other| other.queue_pair);
        pair.into_iter().for_each(|pair| self.pairs.part(pair));
        self.tell(other, 10, 0, &[]);
    }
}
