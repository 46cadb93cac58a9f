//! One open endpoint as verbs see it: a datagram queue pair with its small ring of buffers, and the addresses of its peers.

use super::queue::{Queue, queues};
use crate::verbs::address::{self, own_address};
use crate::verbs::device::Endpoint;
use crate::verbs::trouble::Trouble;
use rdmascope_model::{Cause, DatagramAddress, EndpointInfo, Fabric, Failure, Gid, Marks, Mono, Role, Step};
use rdmascope_probe::mesh::{
    Datagram, Destination, Engine, GRH_BYTES, HEADER_BYTES, Source, Stamp, source_gid,
};
use rdmascope_probe::{ClockTrust, DeviceClock};
use rdmascope_sys::{
    Access, AddressHandle, AddressVector, Completion, CompletionChannel, CompletionStatus, Context,
    InitAttributes, MemoryRegion, ProtectionDomain, QueuePair, QueuePairKind, QueuePairOptions,
    ReadyToSendAttributes, SendRequest, VerbError,
};
use rustix::event::epoll;
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Receive buffers of one endpoint: a second's worth of a third of all pings and answers, at the highest rate there is.
pub(super) const RECEIVES: u32 = 32;
/// Room of one receive buffer: the header that the device puts first, and the largest payload.
const RECEIVE_BYTES: usize = GRH_BYTES + 4096;
const SEND_BYTES: usize = 4096;
pub(super) const SENDS: usize = Engine::SENDS_MAX;
const RECEIVES_AT: usize = SENDS * SEND_BYTES;
/// An address is made anew after this: the way to a peer may have changed.
const FRESH: Duration = Duration::from_secs(60);
/// An address that nobody used for so long is let go.
const UNUSED: Duration = Duration::from_secs(180);

/// Names an address handle: port and marks.
pub(super) type Key = (Gid, u16, Marks);

/// The objects; emptied by the keeper when the device is removed.
pub(super) type Slot = Arc<Mutex<Option<Parts>>>;

/// What an endpoint is to its peers.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub(super) address: DatagramAddress,
    end: address::Own,
}

struct Known {
    handle: AddressHandle,
    made: Mono,
    used: Mono,
}

/// What an endpoint has on its device.
pub(super) struct Parts {
    known: BTreeMap<Key, Known>,
    pair: QueuePair,
    sends: Queue,
    receives: Queue,
    /// The device's, which both queues stamp by; `None` where they do not, or it cannot be believed.
    clock: Option<DeviceClock>,
    pub(super) channel: CompletionChannel,
    region: MemoryRegion,
    pub(super) domain: ProtectionDomain,
    /// Receive buffers that could not be posted, one bit each.
    unposted: u32,
    /// LIDs mean something here.
    infiniband: bool,
}

/// Is there an address to send to?
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Fresh,
    /// It is to be made anew.
    Old,
    Unknown,
}

/// What was received.
pub(super) struct Received {
    pub(super) source: Option<Source>,
    pub(super) payload: [u8; HEADER_BYTES],
    pub(super) payload_bytes: u32,
    /// By the device, where that can be believed.
    pub(super) stamp: Option<Stamp>,
    /// When it was looked at.
    pub(super) handled: Mono,
}

/// Opens an endpoint. May block in the kernel.
pub(super) fn open(device: &Endpoint, info: &EndpointInfo, queue_key: u32) -> Result<(Own, Slot), Trouble> {
    let opened = device.open(&info.name.device)?;
    let own = own(&opened.context, info, queue_key)?;
    let init = |e| Trouble::verb(Step::Init, &e);
    let bytes = RECEIVES_AT + RECEIVES as usize * RECEIVE_BYTES;
    let region =
        opened.domain.register(bytes, Access::LOCAL_WRITE).map_err(|e| Trouble::verb(Step::Open, &e))?;
    let channel = opened.context.create_channel().map_err(init)?;
    let (sends, receives, clock) = queues(&opened.context, &channel).map_err(init)?;
    let options = QueuePairOptions {
        kind: QueuePairKind::Datagram,
        send_depth: SENDS as u32,
        receive_depth: RECEIVES,
        max_inline: 0,
    };
    let mut pair =
        opened.domain.create_queue_pair(sends.plain(), receives.plain(), &options).map_err(init)?;
    let (port, pkey_index) = (own.end.port, own.end.pkey_index);
    let attributes = InitAttributes { port, pkey_index, access: Access::LOCAL_WRITE, queue_key };
    pair.to_init(&attributes).map_err(init)?;
    pair.to_ready_to_receive_datagrams().map_err(|e| Trouble::verb(Step::Rtr, &e))?;
    let ready = ReadyToSendAttributes {
        send_sequence: 0,
        timeout: 0,
        retries: 0,
        receiver_not_ready_retries: 0,
        max_outgoing_reads: 0,
    };
    pair.to_ready_to_send(&ready).map_err(|e| Trouble::verb(Step::Rts, &e))?;
    let own = Own { address: DatagramAddress { queue_pair: pair.number(), ..own.address }, ..own };
    let mut parts = Parts {
        known: BTreeMap::new(),
        pair,
        sends,
        receives,
        clock,
        channel,
        region,
        domain: opened.domain.clone(),
        unposted: u32::MAX,
        infiniband: own.end.fabric == Fabric::InfiniBand,
    };
    parts.post_receives();
    if parts.unposted != 0 {
        let evidence =
            format!("{}: only {} of {RECEIVES} receive buffers could be posted", info.name, parts.posted());
        return Err(Trouble::new(Cause::NoResources, Step::Init, evidence));
    }
    parts.receives.plain().request_notify().map_err(init)?;
    let slot: Slot = Arc::new(Mutex::new(Some(parts)));
    device.watch(&slot);
    Ok((own, slot))
}

/// Reads what the endpoint is, and refuses early what cannot work. Its queue pair is not known yet.
fn own(context: &Context, info: &EndpointInfo, queue_key: u32) -> Result<Own, Trouble> {
    let mut end = own_address(context, info, Marks::default())?;
    let infiniband = info.fabric == Fabric::InfiniBand;
    if infiniband && info.gid.is_none() {
        // Peers know an endpoint by its GID, also where packets go by LID.
        end.gid = context.query_gid(end.port, 0).map_err(|e| Trouble::verb(Step::Open, &e))?;
    }
    let lid = if infiniband { end.lid } else { 0 };
    let address =
        DatagramAddress { gid: Gid(end.gid), lid, queue_pair: 0, queue_key, mtu_bytes: end.mtu.bytes() };
    Ok(Own { address, end })
}

impl Own {
    /// Within an InfiniBand subnet the LID names a port, and answers know nothing else of it.
    pub(super) fn key(&self, to: &Destination) -> Key {
        let near = self.end.fabric == Fabric::InfiniBand && to.address.gid.0[..8] == self.address.gid.0[..8];
        (if near { Gid([0; 16]) } else { to.address.gid }, to.address.lid, to.marks)
    }

    /// The way to a peer: by LID within an InfiniBand subnet, else by GID. Asks the device where its own GID stands now.
    pub(super) fn way_to(&self, to: &Key, context: &Context) -> Result<AddressVector, Trouble> {
        let (gid, lid, marks) = *to;
        self.end.way_to_datagrams(gid, lid, marks, context)
    }
}

impl Parts {
    pub(super) fn posted(&self) -> u32 {
        RECEIVES - self.unposted.count_ones()
    }

    /// Posts the receive buffers that are not: a buffer that is forgotten makes the endpoint deaf in the end.
    pub(super) fn post_receives(&mut self) {
        for buffer in 0..RECEIVES {
            let at = RECEIVES_AT + buffer as usize * RECEIVE_BYTES;
            if self.unposted >> buffer & 1 == 1
                && self.pair.post_receive(&self.region, at..at + RECEIVE_BYTES, buffer.into()).is_ok()
            {
                self.unposted &= !(1 << buffer);
            }
        }
    }

    pub(super) fn knows(&mut self, key: &Key, now: Mono) -> bool {
        let known = self.known.get_mut(key);
        known.map(|known| known.used = now).is_some()
    }

    /// Is there no address, or one that is to be made anew?
    pub(super) fn needs(&self, key: &Key, now: Mono) -> bool {
        self.known.get(key).is_none_or(|known| now.since(known.made) >= FRESH)
    }

    /// Takes new addresses in, and gives back those that they replace.
    pub(super) fn learn(&mut self, made: Vec<(Key, AddressHandle)>, now: Mono) -> Vec<AddressHandle> {
        let insert = |(key, handle)| self.known.insert(key, Known { handle, made: now, used: now });
        made.into_iter().filter_map(insert).map(|old| old.handle).collect()
    }

    /// Gives back the addresses that nobody used for long.
    pub(super) fn forget(&mut self, now: Mono) -> Vec<AddressHandle> {
        let old: Vec<Key> =
            self.known.iter().filter(|(_, k)| now.since(k.used) >= UNUSED).map(|(key, _)| *key).collect();
        old.into_iter().filter_map(|key| self.known.remove(&key)).map(|known| known.handle).collect()
    }

    /// Posts a datagram, if its address, named by `key`, is known.
    pub(super) fn send(&mut self, datagram: &Datagram, key: &Key, now: Mono) -> (Way, Result<(), VerbError>) {
        let Some(known) = self.known.get_mut(key) else { return (Way::Unknown, Ok(())) };
        known.used = now;
        let way = if now.since(known.made) >= FRESH { Way::Old } else { Way::Fresh };
        (way, post(&self.pair, &self.region, &known.handle, datagram))
    }

    /// Takes the completions of sends: `done` hears of each, when it left by the device, and whether it went well.
    pub(super) fn sent(
        &mut self,
        now: impl Fn() -> Mono,
        mut done: impl FnMut(u64, Option<Stamp>, Result<(), Trouble>),
    ) -> Result<(), Trouble> {
        // One look is enough: there is room for all that can be under way.
        let count = self.sends.look().map_err(|e| Trouble::verb(Step::Measure, &e))?;
        for at in 0..count {
            let (completion, raw) = self.sends.found(at);
            if completion.is_success() {
                let stamp = self.clock.as_mut().and_then(|clock| stamp(clock, raw, now()));
                done(completion.id(), stamp, Ok(()));
            } else {
                let words = "a datagram was not sent";
                done(completion.id(), None, Err(Trouble::completion(Step::Measure, completion, words)));
            }
        }
        Ok(())
    }

    /// What is known of the device's clock; `None` where it does not stamp. One that cannot be believed is not looked at again.
    pub(super) fn trust(&mut self) -> Option<ClockTrust> {
        let trust = self.clock.as_ref().map(DeviceClock::trust);
        if matches!(trust, Some(ClockTrust::Refused(_))) {
            self.clock = None;
        }
        trust
    }

    /// Has the channel told? It tells once for each time that it was asked to.
    pub(super) fn told(&self) -> Result<bool, Trouble> {
        self.channel.take_event().map_err(|e| Trouble::verb(Step::Measure, &e))
    }

    /// The channel is to tell of the next one that comes in.
    pub(super) fn arm(&self) -> Result<(), Trouble> {
        self.receives.plain().request_notify().map_err(|e| Trouble::verb(Step::Measure, &e))
    }

    /// Takes the completions of up to as many receives as there are buffers. How many there are.
    pub(super) fn look(&mut self) -> Result<usize, Trouble> {
        self.receives.look().map_err(|e| Trouble::verb(Step::Measure, &e))
    }

    /// Gives each datagram that the last look found, so many, to `take`, and posts its buffer again.
    ///
    /// A receive that failed is posted again as well; when the queue pair itself has failed that is an error, since it takes
    /// nothing any more.
    pub(super) fn take(
        &mut self,
        count: usize,
        now: impl Fn() -> Mono,
        mut take: impl FnMut(Received),
    ) -> Result<(), Trouble> {
        let mut failed = Ok(());
        for at in 0..count {
            let (completion, raw) = self.receives.found(at);
            let buffer = completion.id() as u32 % RECEIVES;
            self.unposted |= 1 << buffer;
            if completion.is_success() {
                let handled = now();
                let stamp = self.clock.as_mut().and_then(|clock| stamp(clock, raw, handled));
                take(Received { stamp, handled, ..self.read(buffer, completion) });
            } else if completion.status() == CompletionStatus::Flushed {
                let words = "the queue pair takes nothing any more";
                failed = Err(Trouble::completion(Step::Measure, completion, words));
            }
        }
        self.post_receives();
        failed
    }

    fn read(&self, buffer: u32, completion: &Completion) -> Received {
        let at = RECEIVES_AT + buffer as usize * RECEIVE_BYTES;
        let (mut area, mut payload) = ([0; GRH_BYTES], [0; HEADER_BYTES]);
        self.region.read(at, &mut area);
        self.region.read(at + GRH_BYTES, &mut payload);
        let lid = if self.infiniband { completion.source_lid() } else { 0 };
        let gid = completion.has_global_route().then(|| source_gid(&area)).flatten();
        let queue_pair = completion.source_queue_pair();
        Received {
            source: (gid.is_some() || lid != 0).then_some(Source { gid, lid, queue_pair }),
            payload,
            payload_bytes: completion.received_bytes().saturating_sub(GRH_BYTES as u32),
            stamp: None,
            handled: Mono(0),
        }
    }
}

/// A raw stamp of the device, handled then, as a time; `None` as long as its clock is not known to be good.
fn stamp(clock: &mut DeviceClock, raw: u64, handled: Mono) -> Option<Stamp> {
    let nanoseconds = clock.nanoseconds(raw, handled).and_then(|ns| u64::try_from(ns).ok());
    (clock.trust() == ClockTrust::Trusted).then(|| Stamp::hardware(nanoseconds.unwrap_or(0)))
}

fn post(
    pair: &QueuePair,
    region: &MemoryRegion,
    handle: &AddressHandle,
    datagram: &Datagram,
) -> Result<(), VerbError> {
    let at = (datagram.id & 0xff) as usize % SENDS * SEND_BYTES;
    let length = (datagram.payload_bytes as usize).clamp(HEADER_BYTES, SEND_BYTES);
    region.write(at, &datagram.header);
    let to = &datagram.to.address;
    let mut request = SendRequest::datagram(region, at..at + length, handle, to.queue_pair, to.queue_key)?;
    request.set_id(datagram.id);
    pair.post(&mut request)
}

/// Lets epoll tell of what comes in at an endpoint.
pub(super) fn watch(slot: &Slot, serial: u64, epoll: &OwnedFd) -> Result<(), Failure> {
    let slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
    let parts = slot.as_ref().ok_or_else(|| removed().seen_by(Role::Source))?;
    epoll::add(epoll, parts.channel.fd(), epoll::EventData::new_u64(serial), epoll::EventFlags::IN).map_err(
        |error| {
            let words = format!("epoll does not take the completion channel: {error}");
            Trouble::new(Cause::NoResources, Step::Init, words).seen_by(Role::Source)
        },
    )
}

/// Takes what an endpoint has on its device, if the keeper did not.
pub(super) fn empty(slot: &Slot) -> Option<Box<Parts>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take().map(Box::new)
}

pub(super) fn removed() -> Trouble {
    Trouble::new(Cause::DeviceGone, Step::Measure, "the device was removed")
}
