//! What this side of a connection is to the peer, and which way packets take to it.
//!
//! RoCE always has a network layer (GIDs). InfiniBand goes by LID, and has one only between subnets.
//!
//! Not shown on InfiniBand, because nothing asks the subnet administrator for a path record:
//! - routers: between subnets the peer's own LID is named, which is right only where LIDs are routable (the router's is not looked up);
//! - the service level, rate limit and MTU that the subnet manager wants for a path: the service level is what the probe's manner says (0
//!   where it says nothing), the rate is full, the MTU is the smaller of the two ports';
//! - a LID mask: only the base LID is probed, so of the paths that it opens only one is seen;
//! - partitions other than the default one, where a port is in that: two ports that are both limited members of it do not reach each
//!   other, which shows as `retry-exceeded`;
//! - automatic path migration, multicast, dynamically connected queue pairs and extended reliable connections.

use super::device::gid_index;
use super::{Offer, Trouble};
use rdmascope_model::{Cause, EndpointInfo, Fabric, Gid, Marks, Step};
use rdmascope_sys::{AddressVector, Context, GlobalRoute, Mtu, PortState};
use std::sync::atomic::{AtomicU32, Ordering};

/// As perftest: enough for every router there is.
const HOP_LIMIT: u8 = 64;
/// The partition that every subnet has, for its full members (InfiniBand Architecture Specification, volume 1, 10.9.1).
const DEFAULT_PARTITION: u16 = 0xffff;
/// Bit of a P_Key: full member.
const FULL_MEMBER: u16 = 0x8000;

/// What this side is to the peer.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) name: String,
    pub(crate) fabric: Fabric,
    pub(crate) gid: [u8; 16],
    pub(crate) lid: u16,
    pub(crate) port: u8,
    pub(crate) mtu: Mtu,
    pub(crate) pkey_index: u16,
    /// The sequence number that its queue pair starts with, 24 bits.
    pub(crate) sequence: u32,
    marks: Marks,
}

/// Reads what this side is, and refuses early what cannot work.
pub(crate) fn own_address(context: &Context, endpoint: &EndpointInfo, marks: Marks) -> Result<Own, Trouble> {
    let name = &endpoint.name;
    let port = context.query_port(name.port).map_err(|e| Trouble::verb(Step::Open, &e))?;
    if port.state != PortState::Active {
        let evidence =
            format!("{name}: port state {:?}, physical state {:?}", port.state, port.physical_state);
        return Err(Trouble::new(Cause::PortDown, Step::Open, evidence));
    }
    let Some(mtu) = port.active_mtu else {
        return Err(Trouble::new(Cause::LocalFault, Step::Open, format!("{name} reports no active MTU")));
    };
    let gid = match (endpoint.gid, endpoint.fabric) {
        (Some(gid), _) => gid.0,
        (None, Fabric::InfiniBand) => [0; 16],
        (None, _) => {
            let evidence = format!("{name}: {}", endpoint.unusable_detail);
            return Err(Trouble::new(Cause::NoUsableGid, Step::Open, evidence));
        }
    };
    let pkey_index = match endpoint.fabric {
        Fabric::InfiniBand => partition(context, &name.to_string(), name.port, port.pkey_entries)?,
        // Ethernet knows the default partition only, in slot 0.
        _ => 0,
    };
    // Packets of an earlier probe on a queue pair of the same number must not be taken for ours.
    static MADE: AtomicU32 = AtomicU32::new(0);
    let nanoseconds = std::time::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.subsec_nanos());
    let sequence = (nanoseconds ^ MADE.fetch_add(1, Ordering::Relaxed).rotate_left(12)) & 0x00FF_FFFF;
    let own = Own {
        name: name.to_string(),
        fabric: endpoint.fabric,
        gid,
        lid: port.lid,
        port: name.port,
        mtu,
        pkey_index,
        sequence,
        marks,
    };
    own.gid_index(context, Step::Open)?;
    Ok(own)
}

/// Where the port's table has the default partition, as full member before limited; a port that is not in it uses the first that it is
/// a full member of, or else the first of all. The subnet manager decides the order of the table: slot 0 means nothing.
fn partition(context: &Context, name: &str, port: u8, entries: u16) -> Result<u16, Trouble> {
    let mut best: Option<(u8, u16)> = None;
    for index in 0..entries {
        let key = context.query_pkey(port, index).map_err(|e| Trouble::verb(Step::Open, &e))?;
        let rank = match key {
            DEFAULT_PARTITION => return Ok(index),
            0 | FULL_MEMBER => continue,
            _ if key | FULL_MEMBER == DEFAULT_PARTITION => 0,
            _ if key & FULL_MEMBER != 0 => 1,
            _ => 2,
        };
        if best.is_none_or(|(found, _)| rank < found) {
            best = Some((rank, index));
        }
    }
    best.map(|(_, index)| index).ok_or_else(|| {
        let evidence = format!("{name} is in no partition: its P_Key table of {entries} is empty");
        Trouble::new(Cause::BadParameters, Step::Open, evidence)
    })
}

impl Own {
    /// Where our GID stands in the port's table now: looked up by address each time, since entries move.
    fn gid_index(&self, context: &Context, step: Step) -> Result<u8, Trouble> {
        match self.fabric {
            // The subnet manager's GID, which is what endpoints are told by.
            Fabric::InfiniBand => return Ok(0),
            // Goes by the network device's address, not by its GID.
            Fabric::Iwarp => return Ok(0),
            _ => {}
        }
        gid_index(context, &self.name, self.port, self.gid, step)
    }

    /// The way of a connection to the peer that made an offer.
    pub(super) fn way_to(&self, peer: &Offer, context: &Context) -> Result<AddressVector, Trouble> {
        let source_index = self.gid_index(context, Step::Rtr)?;
        self.way(source_index, peer.gid, peer.lid, self.marks, Step::Rtr)
    }

    /// The way of datagrams to a peer; their marks are each datagram's own, not this side's. The flow label moves them to another
    /// equal-cost path where the device makes the UDP source port from it.
    pub(crate) fn way_to_datagrams(
        &self,
        gid: Gid,
        lid: u16,
        marks: Marks,
        context: &Context,
    ) -> Result<AddressVector, Trouble> {
        let source_index = self.gid_index(context, Step::Resolve)?;
        self.way(source_index, gid.0, lid, marks, Step::Resolve)
    }

    fn way(
        &self,
        source_index: u8,
        gid: [u8; 16],
        lid: u16,
        marks: Marks,
        step: Step,
    ) -> Result<AddressVector, Trouble> {
        let infiniband = self.fabric == Fabric::InfiniBand;
        let (own, other) = (Gid(self.gid), Gid(gid));
        if !infiniband && own.ip().is_ipv4() != other.ip().is_ipv4() {
            let evidence = format!("own address {}, peer's {}", own.ip(), other.ip());
            return Err(Trouble::new(Cause::AddressFamily, step, evidence));
        }
        if infiniband && lid == 0 {
            let evidence = "the peer's port has no LID: no subnet manager gave it one";
            return Err(Trouble::new(Cause::BadPeerData, step, evidence));
        }
        let route = GlobalRoute {
            destination: gid,
            source_index,
            hop_limit: HOP_LIMIT,
            traffic_class: marks.traffic_class,
            flow_label: marks.flow_label,
        };
        Ok(AddressVector {
            port: self.port,
            destination_lid: if infiniband { lid } else { 0 },
            service_level: marks.service_level,
            source_path_bits: 0,
            static_rate: 0,
            global: (!infiniband || self.crosses_subnets(gid)).then_some(route),
        })
    }

    /// The subnet prefixes of both GIDs differ; a GID that is not known is taken to be in our subnet.
    fn crosses_subnets(&self, peer: [u8; 16]) -> bool {
        let known = self.gid != [0; 16] && peer != [0; 16];
        known && self.gid[..8] != peer[..8]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own(fabric: Fabric, gid: &str) -> Own {
        Own {
            name: "a/mlx5_0/1".to_owned(),
            fabric,
            gid: gid.parse::<Gid>().unwrap().0,
            lid: 7,
            port: 2,
            mtu: Mtu::Bytes4096,
            pkey_index: 0,
            sequence: 1,
            marks: Marks { traffic_class: 104, service_level: 3, flow_label: 9 },
        }
    }

    fn way(own: &Own, gid: &str, lid: u16) -> Result<AddressVector, Trouble> {
        own.way(5, gid.parse::<Gid>().unwrap().0, lid, own.marks, Step::Rtr)
    }

    #[test]
    fn infiniband_goes_by_lid_and_has_a_network_layer_only_between_subnets() {
        let own = own(Fabric::InfiniBand, "fe80::2");
        let near = way(&own, "fe80::3", 8).unwrap();
        let plain = AddressVector {
            port: 2,
            destination_lid: 8,
            service_level: 3,
            source_path_bits: 0,
            static_rate: 0,
            global: None,
        };
        assert_eq!(near, plain);
        let far = way(&own, "fec0::3", 8).unwrap();
        let route = far.global.expect("another subnet");
        assert_eq!((far.destination_lid, route.hop_limit, route.source_index), (8, 64, 5));
        assert_eq!(way(&own, "::", 8).unwrap().global, None, "a peer whose GID is not known");
        assert_eq!(way(&own, "fe80::3", 0).unwrap_err().cause, Cause::BadPeerData);
    }

    #[test]
    fn roce_always_has_a_network_layer_and_no_lid() {
        let own = own(Fabric::Roce, "::ffff:10.0.0.1");
        let way_there = way(&own, "::ffff:10.0.0.2", 8).unwrap();
        let route = way_there.global.expect("always");
        assert_eq!((way_there.destination_lid, way_there.service_level), (0, 3));
        assert_eq!((route.traffic_class, route.flow_label, route.hop_limit), (104, 9, 64));
        assert_eq!(way(&own, "2001:db8::1", 0).unwrap_err().cause, Cause::AddressFamily);
    }
}
