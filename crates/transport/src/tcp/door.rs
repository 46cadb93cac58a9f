//! The target's listener: it lives until the leased peer is in, and lets in nobody else.

use crate::sockets::{Offer, Own, Token, Trouble, random};
use rdmascope_model::{Cause, Role, Step};
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::ops::RangeInclusive;

/// Callers that have not shown their token yet; the eldest has to go for another.
const CALLERS_MAX: usize = 8;

/// Somebody connected and may be the peer.
struct Caller {
    stream: TcpStream,
    shown: Token,
    length: usize,
}

/// A listener for one peer.
pub(super) struct Door {
    listener: TcpListener,
    token: Token,
    peer: Option<IpAddr>,
    callers: Vec<Caller>,
}

impl Door {
    /// Listens on `own`, and makes the offer that leads there.
    pub(super) fn open(own: &Own, ports: Option<RangeInclusive<u16>>) -> Result<(Self, Offer), Trouble> {
        let token: Token = random().map_err(|e| Trouble::io(Step::Open, "reading /dev/urandom", &e))?;
        let listen = || {
            let listener = listen(own.address, ports, token[0])?;
            own.mark(&listener)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((listener, address))
        };
        let (listener, address) =
            listen().map_err(|e: io::Error| Trouble::io(Step::Open, format!("listening on {own}"), &e))?;
        let offer = Offer { role: Role::Target, address, token };
        Ok((Self { listener, token, peer: None, callers: Vec::new() }, offer))
    }

    /// Who is to come, as the relayed offer says.
    pub(super) fn expect(&mut self, peer: IpAddr) -> Result<(), Trouble> {
        let own = self.listener.local_addr().map_err(|e| Trouble::io(Step::Rtr, "the own address", &e))?.ip();
        if own.is_ipv4() != peer.is_ipv4() {
            let evidence = format!("own address {own}, peer's {peer}");
            return Err(Trouble::new(Cause::AddressFamily, Step::Rtr, evidence));
        }
        self.peer = Some(peer);
        Ok(())
    }

    /// The peer's connection, when it is there.
    pub(super) fn admit(&mut self) -> Result<Option<TcpStream>, Trouble> {
        loop {
            match self.listener.accept() {
                Ok((stream, from)) => self.receive(stream, from),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                // A connection that died in the queue is handed out as an error: accept(2).
                Err(e) if e.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(e) => return Err(Trouble::io(Step::FirstByte, "accepting the peer's connection", &e)),
            }
        }
        let mut at = 0;
        while let Some(caller) = self.callers.get_mut(at) {
            match caller.listen(&self.token) {
                Heard::Friend => return Ok(Some(self.callers.swap_remove(at).stream)),
                Heard::Nothing => at += 1,
                Heard::Stranger => {
                    tracing::warn!(peer = ?self.peer, "a caller without the lease's token was turned away");
                    self.callers.swap_remove(at);
                }
            }
        }
        Ok(None)
    }

    fn receive(&mut self, stream: TcpStream, from: SocketAddr) {
        if self.peer != Some(from.ip().to_canonical()) || stream.set_nonblocking(true).is_err() {
            tracing::warn!(%from, expected = ?self.peer, "a caller from another address was turned away");
            return;
        }
        if self.callers.len() >= CALLERS_MAX {
            self.callers.remove(0);
        }
        self.callers.push(Caller { stream, shown: Token::default(), length: 0 });
    }
}

enum Heard {
    Friend,
    Nothing,
    Stranger,
}

impl Caller {
    /// Reads no more than the token: what follows belongs to the probe.
    fn listen(&mut self, token: &Token) -> Heard {
        while self.length < token.len() {
            match (&self.stream).read(&mut self.shown[self.length..]) {
                Ok(0) => return Heard::Stranger,
                Ok(n) => self.length += n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Heard::Nothing,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return Heard::Stranger,
            }
        }
        if self.shown == *token { Heard::Friend } else { Heard::Stranger }
    }
}

/// Listens on the first free port, from a place in the range that differs from lease to lease.
fn listen(own: IpAddr, ports: Option<RangeInclusive<u16>>, seed: u8) -> io::Result<TcpListener> {
    let Some(ports) = ports else { return TcpListener::bind((own, 0)) };
    let all: Vec<u16> = ports.clone().collect();
    let start = usize::from(seed) % all.len().max(1);
    for port in all[start..].iter().chain(&all[..start]) {
        match TcpListener::bind((own, *port)) {
            Err(e) if e.kind() == io::ErrorKind::AddrInUse => {}
            other => return other,
        }
    }
    let words = format!("no port of {}-{} is free", ports.start(), ports.end());
    Err(io::Error::new(io::ErrorKind::AddrInUse, words))
}
