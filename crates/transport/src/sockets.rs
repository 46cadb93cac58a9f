//! What probes over plain sockets share: the endpoint's address, network device and marks, offers and tokens, and what an errno means.

mod offer;
mod trouble;

pub(crate) use offer::{Kind, Offer};
pub(crate) use trouble::Trouble;

use rdmascope_model::{Cause, EndpointInfo, Fabric, ProbePlan, Step};
use rdmascope_sys::bind_to_device;
use rustix::fd::AsFd;
use rustix::net::sockopt;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;

/// The secret that a peer must show; new for each lease.
pub(crate) type Token = [u8; 16];

/// From the kernel's generator: nobody may guess a token.
pub(crate) fn random() -> io::Result<Token> {
    let mut token = Token::default();
    File::open("/dev/urandom")?.read_exact(&mut token)?;
    Ok(token)
}

/// Where an endpoint's sockets are, and how their packets look.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) address: IpAddr,
    /// The network device that packets go through; `None` leaves that to the routing table.
    device: Option<String>,
    traffic_class: u8,
}

impl Own {
    /// On `bind`, or where that is unspecified on the endpoint's own address. An endpoint of a fabric that is more than TCP uses its
    /// network device alone: two of them on one machine would else talk over loopback.
    pub(crate) fn of(bind: IpAddr, plan: &ProbePlan, endpoint: &EndpointInfo) -> Result<Self, Trouble> {
        let traffic_class = plan.manner.marks.traffic_class;
        if !bind.is_unspecified() {
            return Ok(Self { address: bind, device: None, traffic_class });
        }
        let name = &endpoint.name;
        let Some(address) = endpoint.gid.map(|gid| gid.ip()) else {
            let evidence = format!("{name} has no IP address to probe from");
            return Err(Trouble::new(Cause::NoUsableGid, Step::Open, evidence));
        };
        if endpoint.fabric == Fabric::Tcp {
            return Ok(Self { address, device: None, traffic_class });
        }
        let link_local = matches!(address, IpAddr::V6(v6) if v6.is_unicast_link_local());
        if endpoint.fabric == Fabric::InfiniBand || link_local {
            let evidence = format!("the address of {name} is no IP address of a network device");
            return Err(Trouble::new(Cause::NotAvailable, Step::Open, evidence));
        }
        let Some(device) = endpoint.netdev.clone() else {
            let evidence = format!("the network device underneath {name} is not known");
            return Err(Trouble::new(Cause::NotAvailable, Step::Open, evidence));
        };
        Ok(Self { address, device: Some(device), traffic_class })
    }

    /// Ties a socket to the device and marks what it sends; before it sends anything.
    pub(crate) fn mark(&self, socket: impl AsFd) -> rustix::io::Result<()> {
        if let Some(device) = &self.device {
            bind_to_device(&socket, device)?;
        }
        if self.traffic_class == 0 {
            return Ok(());
        }
        match self.address {
            IpAddr::V4(_) => sockopt::set_ip_tos(&socket, self.traffic_class),
            IpAddr::V6(_) => sockopt::set_ipv6_tclass(&socket, u32::from(self.traffic_class)),
        }
    }
}

impl fmt::Display for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.device {
            Some(device) => write!(f, "{} on {device}", self.address),
            None => write!(f, "{}", self.address),
        }
    }
}
