//! What this side of a connection is to the peer, and which way packets take to it.

use super::device::gid_index;
use super::{Offer, Trouble};
use rdmascope_model::{Cause, EndpointInfo, Fabric, ProbePlan, Role, Step};
use rdmascope_sys::{
    AddressVector, Context, GlobalRoute, MemoryRegion, Mtu, PortState, QueuePair, RemoteBuffer,
};

/// As perftest: enough for every router there is.
const HOP_LIMIT: u8 = 64;

/// What this side is to the peer.
pub(super) struct Own {
    pub(super) name: String,
    pub(super) fabric: Fabric,
    pub(super) gid: [u8; 16],
    pub(super) lid: u16,
    pub(super) port: u8,
    pub(super) mtu: Mtu,
    pub(super) sequence: u32,
}

/// Reads what this side is, and refuses early what cannot work.
pub(super) fn own_address(
    context: &Context,
    endpoint: &EndpointInfo,
    plan: &ProbePlan,
) -> Result<Own, Trouble> {
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
    // Packets of an earlier probe on a queue pair of the same number must not be taken for ours.
    let nanoseconds = std::time::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.subsec_nanos());
    let sequence = (nanoseconds ^ (plan.lease.0 as u32).rotate_left(12)) & 0x00FF_FFFF;
    let own = Own {
        name: name.to_string(),
        fabric: endpoint.fabric,
        gid,
        lid: port.lid,
        port: name.port,
        mtu,
        sequence,
    };
    own.gid_index(context, Step::Open)?;
    Ok(own)
}

impl Own {
    pub(super) fn offer(&self, role: Role, pair: &QueuePair, region: &MemoryRegion) -> Offer {
        Offer {
            role,
            gid: self.gid,
            lid: self.lid,
            queue_pair: pair.number(),
            sequence: self.sequence,
            mtu: self.mtu,
            buffer: RemoteBuffer { address: region.address(), key: region.remote_key() },
            buffer_bytes: region.len() as u64,
        }
    }

    /// Where our GID stands in the port's table now: looked up by address each time, since entries move.
    fn gid_index(&self, context: &Context, step: Step) -> Result<u8, Trouble> {
        if self.fabric == Fabric::InfiniBand {
            return Ok(0);
        }
        gid_index(context, &self.name, self.port, self.gid, step)
    }

    pub(super) fn way_to(&self, peer: &Offer, context: &Context) -> Result<AddressVector, Trouble> {
        if self.fabric == Fabric::InfiniBand {
            return Ok(AddressVector {
                port: self.port,
                destination_lid: peer.lid,
                service_level: 0,
                source_path_bits: 0,
                static_rate: 0,
                global: None,
            });
        }
        let (own, other) = (rdmascope_model::Gid(self.gid), rdmascope_model::Gid(peer.gid));
        if own.ip().is_ipv4() != other.ip().is_ipv4() {
            let evidence = format!("own address {}, peer's {}", own.ip(), other.ip());
            return Err(Trouble::new(Cause::AddressFamily, Step::Rtr, evidence));
        }
        let route = GlobalRoute {
            destination: peer.gid,
            source_index: self.gid_index(context, Step::Rtr)?,
            hop_limit: HOP_LIMIT,
            traffic_class: 0,
            flow_label: 0,
        };
        Ok(AddressVector::routed(self.port, route))
    }
}
