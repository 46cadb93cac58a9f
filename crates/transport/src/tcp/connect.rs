//! The source's connection, made without waiting for it.

use crate::sockets::{Own, Trouble};
use rdmascope_model::{Cause, Step};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, socket_with, sockopt};
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

/// A socket on its way to the target.
pub(super) struct Connecting {
    socket: Option<OwnedFd>,
    own: IpAddr,
    began: Option<Instant>,
}

impl Connecting {
    /// A socket that will come from `own`, which the target checks.
    pub(super) fn bind(own: &Own) -> Result<Self, Trouble> {
        let family = if own.address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let made = || -> Result<OwnedFd, Errno> {
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(family, SocketType::STREAM, flags, None)?;
            // An address in TIME_WAIT is no obstacle, and closing leaves none: a sweep makes thousands of connections.
            sockopt::set_socket_reuseaddr(&socket, true)?;
            sockopt::set_socket_linger(&socket, Some(Duration::ZERO))?;
            own.mark(&socket)?;
            bind(&socket, &SocketAddr::new(own.address, 0))?;
            Ok(socket)
        };
        let socket = made().map_err(|e| Trouble::io(Step::Open, format!("a socket on {own}"), &e.into()))?;
        Ok(Self { socket: Some(socket), own: own.address, began: None })
    }

    /// Begins, or looks how far it is; the stream is non-blocking.
    pub(super) fn go_on(
        &mut self,
        peer: SocketAddr,
        patience: Duration,
    ) -> Result<Option<TcpStream>, Trouble> {
        let failed = |e: &io::Error| Trouble::io(Step::Rtr, format!("connecting to {peer}"), e);
        let Some(socket) = &self.socket else {
            return Err(Trouble::new(Cause::Internal, Step::Rtr, "connected twice"));
        };
        let Some(began) = self.began else {
            if self.own.is_ipv4() != peer.is_ipv4() {
                let evidence = format!("own address {}, peer's {}", self.own, peer.ip());
                return Err(Trouble::new(Cause::AddressFamily, Step::Rtr, evidence));
            }
            self.began = Some(Instant::now());
            return match connect(socket, &peer) {
                Ok(()) => Ok(self.connected()),
                Err(Errno::INPROGRESS) => Ok(None),
                Err(e) => Err(failed(&e.into())),
            };
        };
        let mut fds = [PollFd::new(socket, PollFlags::OUT)];
        poll(&mut fds, Some(&Timespec::default())).map_err(|e| failed(&e.into()))?;
        if fds[0].revents().is_empty() {
            if began.elapsed() < patience {
                return Ok(None);
            }
            let evidence =
                format!("connecting to {peer}: no answer within {:.1} s", began.elapsed().as_secs_f64());
            return Err(Trouble::new(Cause::RetryExceeded, Step::Rtr, evidence));
        }
        match sockopt::socket_error(socket) {
            Ok(Ok(())) => Ok(self.connected()),
            Ok(Err(e)) | Err(e) => Err(failed(&e.into())),
        }
    }

    fn connected(&mut self) -> Option<TcpStream> {
        self.socket.take().map(TcpStream::from)
    }
}
