//! Drives every error path of the wrapper against a fake libibverbs, and watches the order of releases.
#![expect(clippy::unwrap_used, reason = "tests")]

mod fake;

use std::path::Path;
use std::sync::atomic::Ordering;

use fake::Fake;
use rdmascope_sys::{
    Access, AddressVector, AsyncEvent, Completion, CompletionQueue, CompletionStatus, Context, EventKind,
    GidKind, GlobalRoute, InitAttributes, LinkLayer, LoadError, MemoryRegion, Mtu, PhysicalState, PortState,
    ProtectionDomain, QueuePair, QueuePairKind, QueuePairOptions, QueuePairState, ReadyToReceiveAttributes,
    ReadyToSendAttributes, RemoteBuffer, SendRequest, Verb, VerbError, Verbs,
};

const ENOMEM: i32 = 12;
const EACCES: i32 = 13;
const EPERM: i32 = 1;
const EINVAL: i32 = 22;
const EIO: i32 = 5;
const ENOSYS: i32 = 38;
const ETIMEDOUT: i32 = 110;

const RC: QueuePairOptions = QueuePairOptions {
    kind: QueuePairKind::ReliableConnection,
    send_depth: 16,
    receive_depth: 4,
    max_inline: 64,
};

const INIT: InitAttributes =
    InitAttributes { port: 1, pkey_index: 0, access: Access::REMOTE_WRITE, queue_key: 0x1111_1111 };

const RTS: ReadyToSendAttributes = ReadyToSendAttributes {
    send_sequence: 7,
    timeout: 14,
    retries: 7,
    receiver_not_ready_retries: 7,
    max_outgoing_reads: 1,
};

fn address() -> AddressVector {
    let mut destination = [0; 16];
    destination[10..16].copy_from_slice(&[0xff, 0xff, 10, 8, 0, 1]);
    let route = GlobalRoute { destination, source_index: 3, hop_limit: 64, traffic_class: 0, flow_label: 0 };
    AddressVector::routed(1, route)
}

fn rtr(peer_queue_pair: u32) -> ReadyToReceiveAttributes {
    ReadyToReceiveAttributes {
        address: address(),
        path_mtu: Mtu::Bytes1024,
        peer_queue_pair,
        receive_sequence: 7,
        max_incoming_reads: 1,
        receiver_not_ready_timer: 12,
    }
}

/// One end of a connection, in an order of fields that releases parents first if children did not hold them.
struct End {
    context: Context,
    domain: ProtectionDomain,
    queue: CompletionQueue,
    region: MemoryRegion,
    pair: QueuePair,
}

impl End {
    fn new(fake: &Fake) -> Self {
        let context = fake.open_first();
        let domain = context.alloc_protection_domain().unwrap();
        let queue = context.create_completion_queue(16, None).unwrap();
        let region = domain.register(64, Access::LOCAL_WRITE | Access::REMOTE_WRITE).unwrap();
        let pair = domain.create_queue_pair(&queue, &queue, &RC).unwrap();
        Self { context, domain, queue, region, pair }
    }

    fn remote(&self) -> RemoteBuffer {
        RemoteBuffer { address: self.region.address(), key: self.region.remote_key() }
    }

    fn connect(&mut self, peer: u32) {
        self.pair.to_init(&INIT).unwrap();
        self.pair.to_ready_to_receive(&rtr(peer)).unwrap();
        self.pair.to_ready_to_send(&RTS).unwrap();
    }

    fn one_completion(&self) -> (u64, CompletionStatus) {
        let mut room = [Completion::default()];
        let done = self.queue.poll(&mut room).unwrap();
        assert_eq!(done.len(), 1, "one completion");
        assert_eq!(done[0].queue_pair(), self.pair.number());
        (done[0].id(), done[0].status())
    }
}

fn connected(fake: &Fake) -> (End, End) {
    let (mut left, mut right) = (End::new(fake), End::new(fake));
    left.connect(right.pair.number());
    right.connect(left.pair.number());
    (left, right)
}

fn expect_error<T>(result: Result<T, VerbError>, text: &str, errno: i32) {
    let error = result.err().expect("an error");
    assert_eq!(error.to_string(), text);
    assert_eq!(error.errno, errno);
}

#[test]
fn missing_library_is_a_value_with_the_next_step() {
    let error = Verbs::open(Some(Path::new("/nonexistent/libibverbs.so.1"))).err().expect("no such library");
    assert!(matches!(error, LoadError::Library { .. }));
    let text = error.to_string();
    assert!(text.starts_with("/nonexistent/libibverbs.so.1 cannot be loaded"), "{text}");
    assert!(text.contains("libibverbs1"), "{text}");
}

#[test]
fn missing_function_is_named() {
    let fake = Fake::built_with(&["-DFAKE_WITHOUT_CREATE_AH"]);
    let error = Verbs::open(Some(fake.path())).err().expect("a function is missing");
    assert!(matches!(error, LoadError::Symbol { symbol: "ibv_create_ah", .. }), "{error}");
}

#[test]
fn library_without_the_gid_table_still_works() {
    let fake = Fake::built_with(&["-DFAKE_WITHOUT_GID_TABLE"]);
    let context = fake.open_first();
    assert_eq!(context.gid_table().unwrap(), None);
    assert_eq!(context.query_gid(1, 3).unwrap(), address().global.unwrap().destination);
}

#[test]
fn devices_are_listed_with_their_names() {
    let fake = Fake::new();
    fake.set("devices", 2);
    let devices = fake.verbs().devices().unwrap();
    let seen: Vec<_> = devices.iter().map(|d| (d.name(), d.uverbs_name(), d.guid())).collect();
    assert_eq!(
        seen,
        [
            ("fake_0", "uverbs0".to_owned(), 0x0200_0000_0000_0001),
            ("fake_1", "uverbs1".to_owned(), 0x0200_0000_0000_0002)
        ]
    );
    // A device outlives its siblings and the vector.
    let last = devices.into_iter().next_back().unwrap();
    let context = last.open().unwrap();
    drop(last);
    assert_eq!(context.device(), "fake_1");
    drop(context);
    fake.assert_nothing_left();
}

#[test]
fn no_devices_is_an_empty_list_and_no_kernel_support_an_error() {
    let fake = Fake::new();
    fake.set("devices", 0);
    assert!(fake.verbs().devices().unwrap().is_empty());
    fake.set("get_device_list", ENOSYS.into());
    expect_error(fake.verbs().devices(), "ibv_get_device_list: Function not implemented (errno 38)", ENOSYS);
    fake.assert_nothing_left();
}

#[test]
fn opening_without_permission_names_device_and_errno() {
    let fake = Fake::new();
    for (errno, words) in [(EPERM, "Operation not permitted"), (EACCES, "Permission denied")] {
        fake.set("open_device", errno.into());
        let devices = fake.verbs().devices().unwrap();
        expect_error(devices[0].open(), &format!("fake_0: ibv_open_device: {words} (errno {errno})"), errno);
    }
    fake.assert_nothing_left();
}

#[test]
fn device_port_gid_and_pkey_are_read() {
    let fake = Fake::new();
    let context = fake.open_first();
    let device = context.query_device().unwrap();
    assert_eq!((device.firmware.as_str(), device.ports, device.max_queue_pairs), ("1.2.3", 1, 1000));
    assert_eq!((device.max_incoming_reads, device.max_outgoing_reads), (16, 128));
    fake.set("max_reads", 4096);
    assert_eq!(context.query_device().unwrap().max_outgoing_reads, 255, "all that a queue pair can be told");
    let port = context.query_port(1).unwrap();
    assert_eq!((port.state, port.physical_state), (PortState::Active, PhysicalState::LinkUp));
    assert_eq!((port.link_layer, port.active_mtu), (LinkLayer::Ethernet, Some(Mtu::Bytes4096)));
    assert_eq!(port.rate_mbps(), Some(200_000), "4 lanes of HDR");
    let gids = context.gid_table().unwrap().expect("the fake has the call");
    let v2: Vec<_> = gids.iter().filter(|g| g.kind == GidKind::RoceV2).map(|g| (g.index, g.gid)).collect();
    assert_eq!(v2.len(), 2);
    assert_eq!(v2[1], (3, address().global.unwrap().destination));
    assert_eq!(gids[0].netdev_index, Some(2));
    assert_eq!(context.query_pkey(1, 0).unwrap(), 0xffff);
    assert_eq!(fake.get("compat_query_port"), 0, "the extended call was used");
}

#[test]
fn old_library_without_extended_contexts_is_asked_the_old_way() {
    let fake = Fake::new();
    fake.set("old_abi", 1);
    let port = fake.open_first().query_port(1).unwrap();
    assert_eq!((port.state, port.link_layer), (PortState::Active, LinkLayer::Ethernet));
    assert_eq!(fake.get("compat_query_port"), 1);
}

#[test]
fn failing_queries_name_the_verb() {
    let fake = Fake::new();
    let context = fake.open_first();
    fake.set("query_port", EIO.into());
    expect_error(context.query_port(1), "fake_0: ibv_query_port: Input/output error (errno 5)", EIO);
    fake.set("query_port", 0);
    expect_error(context.query_port(9), "fake_0: ibv_query_port: Invalid argument (errno 22)", EINVAL);
    expect_error(context.query_pkey(1, 7), "fake_0: ibv_query_pkey: Invalid argument (errno 22)", EINVAL);
    fake.set("query_gid_table", EIO.into());
    expect_error(context.gid_table(), "fake_0: ibv_query_gid_table: Input/output error (errno 5)", EIO);
    fake.set("query_device", EIO.into());
    expect_error(context.query_device(), "fake_0: ibv_query_device: Input/output error (errno 5)", EIO);
}

#[test]
fn failing_creations_name_the_verb_and_leave_nothing() {
    let fake = Fake::new();
    let context = fake.open_first();
    let memory = "Cannot allocate memory (errno 12)";
    fake.set("alloc_pd", ENOMEM.into());
    expect_error(context.alloc_protection_domain(), &format!("fake_0: ibv_alloc_pd: {memory}"), ENOMEM);
    fake.set("alloc_pd", 0);
    let domain = context.alloc_protection_domain().unwrap();
    fake.set("reg_mr", ENOMEM.into());
    expect_error(
        domain.register(4096, Access::LOCAL_WRITE),
        &format!("fake_0: ibv_reg_mr: {memory}"),
        ENOMEM,
    );
    fake.set("reg_mr", 0);
    expect_error(
        domain.register(0, Access::LOCAL_WRITE),
        "fake_0: ibv_reg_mr: Invalid argument (errno 22)",
        EINVAL,
    );
    fake.set("create_comp_channel", EIO.into());
    expect_error(
        context.create_channel(),
        "fake_0: ibv_create_comp_channel: Input/output error (errno 5)",
        EIO,
    );
    fake.set("create_cq", ENOMEM.into());
    expect_error(
        context.create_completion_queue(8, None),
        &format!("fake_0: ibv_create_cq: {memory}"),
        ENOMEM,
    );
    fake.set("create_cq", 0);
    let queue = context.create_completion_queue(8, None).unwrap();
    fake.set("create_qp", ENOMEM.into());
    expect_error(
        domain.create_queue_pair(&queue, &queue, &RC),
        &format!("fake_0: ibv_create_qp: {memory}"),
        ENOMEM,
    );
    fake.set("create_ah", ETIMEDOUT.into());
    expect_error(
        domain.create_address(&address()),
        "fake_0: ibv_create_ah: Connection timed out (errno 110)",
        ETIMEDOUT,
    );
    drop((context, domain, queue));
    fake.assert_nothing_left();
}

#[test]
fn each_step_of_a_queue_pair_names_itself_when_it_fails() {
    let fake = Fake::new();
    let steps = [
        ("modify_qp_init", QueuePairState::Init, "INIT"),
        ("modify_qp_rtr", QueuePairState::ReadyToReceive, "RTR"),
        ("modify_qp_rts", QueuePairState::ReadyToSend, "RTS"),
    ];
    for (switch, state, name) in steps {
        let mut end = End::new(&fake);
        fake.set(switch, EINVAL.into());
        let error = end
            .pair
            .to_init(&INIT)
            .and_then(|()| end.pair.to_ready_to_receive(&rtr(1)))
            .and_then(|()| end.pair.to_ready_to_send(&RTS))
            .unwrap_err();
        fake.set(switch, 0);
        assert_eq!(error.to_string(), format!("fake_0: ibv_modify_qp({name}): Invalid argument (errno 22)"));
        assert_eq!(error.verb, Verb::ModifyQp(state));
    }
    fake.assert_nothing_left();
}

#[test]
fn rdma_write_reaches_the_peers_memory() {
    let fake = Fake::new();
    let (left, right) = connected(&fake);
    left.region.write(0, b"ping!");
    let mut request = SendRequest::write(&left.region, 0..5, right.remote()).unwrap().inline(true);
    request.set_id(42);
    left.pair.post(&mut request).unwrap();
    assert_eq!(left.one_completion(), (42, CompletionStatus::Success));
    assert_eq!(right.region.bytes()[4].load(Ordering::Acquire), b'!');
    let mut seen = [0; 6];
    assert_eq!(right.region.read(0, &mut seen), 6);
    assert_eq!(&seen, b"ping!\0");
    // The same request again, unsignalled: no completion.
    request.set_signalled(false);
    left.pair.post(&mut request).unwrap();
    assert!(left.queue.poll(&mut [Completion::default()]).unwrap().is_empty());
}

#[test]
fn rdma_read_fetches_what_the_peer_allows() {
    let fake = Fake::new();
    let (mut left, mut right) = (End::new(&fake), End::new(&fake));
    right.region = right.domain.register(64, Access::LOCAL_WRITE | Access::REMOTE_READ).unwrap();
    left.connect(right.pair.number());
    let readable = InitAttributes { access: Access::REMOTE_READ, ..INIT };
    right.pair.to_init(&readable).unwrap();
    right.pair.to_ready_to_receive(&rtr(left.pair.number())).unwrap();
    right.pair.to_ready_to_send(&RTS).unwrap();
    right.region.write(8, b"there");
    let there = RemoteBuffer { address: right.remote().address + 8, ..right.remote() };
    let mut request = SendRequest::read(&left.region, 16..21, there).unwrap();
    request.set_id(9);
    left.pair.post(&mut request).unwrap();
    assert_eq!(left.one_completion(), (9, CompletionStatus::Success));
    let mut seen = [0; 7];
    left.region.read(15, &mut seen);
    assert_eq!(&seen, b"\0there\0");
    assert!(SendRequest::read(&left.region, 60..65, there).is_err(), "outside the own region");
    // What may be written only is not read.
    let (left, right) = connected(&fake);
    left.pair.post(&mut SendRequest::read(&left.region, 0..5, right.remote()).unwrap()).unwrap();
    assert_eq!(left.one_completion().1, CompletionStatus::RemoteAccess);
}

#[test]
fn messages_and_datagrams_arrive_in_receive_buffers() {
    let fake = Fake::new();
    let (left, right) = connected(&fake);
    right.pair.post_receive(&right.region, 8..16, 5).unwrap();
    left.region.write(0, b"hello");
    left.pair.post(&mut SendRequest::send(&left.region, 0..5).unwrap()).unwrap();
    assert_eq!(right.one_completion(), (5, CompletionStatus::Success));
    let mut seen = [0; 5];
    right.region.read(8, &mut seen);
    assert_eq!(&seen, b"hello");

    let options = QueuePairOptions { kind: QueuePairKind::Datagram, ..RC };
    let mut pair = right.domain.create_queue_pair(&right.queue, &right.queue, &options).unwrap();
    assert!(pair.to_ready_to_receive(&rtr(1)).is_err(), "a datagram queue pair has no peer");
    pair.to_init(&INIT).unwrap();
    pair.to_ready_to_receive_datagrams().unwrap();
    pair.to_ready_to_send(&RTS).unwrap();
    let peer = right.domain.create_address(&address()).unwrap();
    pair.post_receive(&right.region, 16..64, 6).unwrap();
    right.region.write(0, b"datagram");
    let mut request =
        SendRequest::datagram(&right.region, 0..8, &peer, pair.number(), INIT.queue_key).unwrap();
    pair.post(&mut request).unwrap();
    let mut room = [Completion::default(), Completion::default()];
    let done = right.queue.poll(&mut room).unwrap();
    let received = done.iter().find(|c| c.is_receive()).expect("the datagram to itself");
    assert_eq!((received.id(), received.received_bytes()), (6, 48), "40 bytes of header and 8 of payload");
    assert_eq!(received.source_queue_pair(), pair.number());
    let mut seen = [0; 8];
    right.region.read(56, &mut seen);
    assert_eq!(&seen, b"datagram");
}

#[test]
fn misuse_is_refused_before_the_library_sees_it() {
    let fake = Fake::new();
    fake.set("devices", 2);
    let (left, right) = connected(&fake);
    let outside = SendRequest::write(&left.region, 0..65, right.remote());
    expect_error(outside.map(|_| ()), "fake_0: ibv_post_send: Invalid argument (errno 22)", EINVAL);
    let backwards = std::ops::Range { start: 9, end: 8 };
    assert!(SendRequest::send(&left.region, backwards).is_err());
    let far = left.pair.post_receive(&left.region, 64..usize::MAX, 1);
    expect_error(far, "fake_0: ibv_post_recv: Invalid argument (errno 22)", EINVAL);

    // A provider would follow a pointer of the wrong kind or of another provider's object.
    let peer = left.domain.create_address(&address()).unwrap();
    let mut datagram = SendRequest::datagram(&left.region, 0..8, &peer, 1, 1).unwrap();
    assert_eq!(left.pair.post(&mut datagram).unwrap_err().errno, EINVAL);
    let other = fake.verbs().devices().unwrap()[1].open().unwrap();
    let channel = other.create_channel().unwrap();
    assert!(left.context.create_completion_queue(8, Some(&channel)).is_err());
    let queue = other.create_completion_queue(8, None).unwrap();
    assert!(left.domain.create_queue_pair(&queue, &left.queue, &RC).is_err());
    let options = QueuePairOptions { kind: QueuePairKind::Datagram, ..RC };
    let foreign =
        other.alloc_protection_domain().unwrap().create_queue_pair(&queue, &queue, &options).unwrap();
    assert_eq!(foreign.post(&mut datagram).unwrap_err().errno, EINVAL);
}

#[test]
fn failed_completions_say_why() {
    let fake = Fake::new();
    let (left, right) = connected(&fake);
    // A key that the peer never gave out.
    let wrong = RemoteBuffer { key: right.remote().key + 1000, ..right.remote() };
    left.pair.post(&mut SendRequest::write(&left.region, 0..8, wrong).unwrap()).unwrap();
    let (_, status) = left.one_completion();
    assert_eq!(status, CompletionStatus::RemoteAccess);
    assert!(status.to_string().contains("IBV_WC_REM_ACCESS_ERR"), "{status}");
    // The queue pair has failed: what follows is flushed.
    left.pair.post(&mut SendRequest::write(&left.region, 0..8, right.remote()).unwrap()).unwrap();
    assert_eq!(left.one_completion().1, CompletionStatus::Flushed);
}

#[test]
fn silent_peer_shows_as_retries_exceeded() {
    let fake = Fake::new();
    let (left, right) = connected(&fake);
    let remote = right.remote();
    drop(right);
    left.pair.post(&mut SendRequest::write(&left.region, 0..8, remote).unwrap()).unwrap();
    assert_eq!(left.one_completion().1, CompletionStatus::RetryExceeded);
}

#[test]
fn moving_to_error_flushes_receives() {
    let fake = Fake::new();
    let (mut left, _right) = connected(&fake);
    left.pair.post_receive(&left.region, 0..8, 3).unwrap();
    left.pair.to_error().unwrap();
    assert_eq!(left.one_completion(), (3, CompletionStatus::Flushed));
}

#[test]
fn failing_data_path_calls_name_the_verb() {
    let fake = Fake::new();
    let (left, right) = connected(&fake);
    let mut request = SendRequest::write(&left.region, 0..8, right.remote()).unwrap();
    fake.set("post_send", ENOMEM.into());
    expect_error(
        left.pair.post(&mut request),
        "fake_0: ibv_post_send: Cannot allocate memory (errno 12)",
        ENOMEM,
    );
    fake.set("post_recv", ENOMEM.into());
    expect_error(
        left.pair.post_receive(&left.region, 0..8, 1),
        "fake_0: ibv_post_recv: Cannot allocate memory (errno 12)",
        ENOMEM,
    );
    fake.set("poll_cq", EIO.into());
    let mut room = [Completion::default()];
    expect_error(
        left.queue.poll(&mut room).map(<[Completion]>::len),
        "fake_0: ibv_poll_cq: Input/output error (errno 5)",
        EIO,
    );
    fake.set("req_notify_cq", EIO.into());
    expect_error(left.queue.request_notify(), "fake_0: ibv_req_notify_cq: Input/output error (errno 5)", EIO);
}

#[test]
fn sleeper_is_woken_once_per_request() {
    let fake = Fake::new();
    let context = fake.open_first();
    let channel = context.create_channel().unwrap();
    let domain = context.alloc_protection_domain().unwrap();
    let queue = context.create_completion_queue(16, Some(&channel)).unwrap();
    let region = domain.register(64, Access::LOCAL_WRITE).unwrap();
    let mut pair = domain.create_queue_pair(&queue, &queue, &RC).unwrap();
    pair.to_init(&INIT).unwrap();
    assert!(!channel.take_event().unwrap(), "nothing yet, and the call does not wait");
    queue.request_notify().unwrap();
    pair.post_receive(&region, 0..8, 1).unwrap();
    pair.post_receive(&region, 0..8, 2).unwrap();
    pair.to_error().unwrap();
    assert!(channel.take_event().unwrap());
    assert!(!channel.take_event().unwrap(), "two completions, one event");
    fake.set("get_cq_event", EIO.into());
    expect_error(channel.take_event(), "fake_0: ibv_get_cq_event: Input/output error (errno 5)", EIO);
    drop((channel, context, domain, queue, region, pair));
    fake.assert_nothing_left();
}

#[test]
fn asynchronous_events_are_read_and_acknowledged() {
    let fake = Fake::new();
    let end = End::new(&fake);
    assert_eq!(end.context.next_event().unwrap(), None, "nothing yet, and the call does not wait");
    fake.raise(10, 1, 0);
    fake.raise(1, 0, end.pair.number());
    fake.raise(4711, 1, 0);
    let down = AsyncEvent { kind: EventKind::PortError, port: Some(1), queue_pair: None };
    let failed =
        AsyncEvent { kind: EventKind::QueuePairFatal, port: None, queue_pair: Some(end.pair.number()) };
    let newer = AsyncEvent { kind: EventKind::Other(4711), port: None, queue_pair: None };
    for expected in [down, failed, newer] {
        assert_eq!(end.context.next_event().unwrap(), Some(expected));
    }
    fake.set("get_async_event", EIO.into());
    expect_error(end.context.next_event(), "fake_0: ibv_get_async_event: Input/output error (errno 5)", EIO);
    drop(end);
    fake.assert_nothing_left();
}

#[test]
fn parents_outlive_children_whatever_is_dropped_first() {
    let fake = Fake::new();
    let End { context, domain, queue, region, pair } = End::new(&fake);
    let peer = domain.create_address(&address()).unwrap();
    drop(context);
    drop(domain);
    drop(queue);
    assert_eq!(fake.get("contexts"), 1, "the children keep it open");
    drop(peer);
    drop(region);
    drop(pair);
    fake.assert_nothing_left();
}

#[test]
fn relaxed_ordering_uses_the_call_that_knows_it() {
    let fake = Fake::new();
    let domain = fake.open_first().alloc_protection_domain().unwrap();
    drop(domain.register(64, Access::LOCAL_WRITE).unwrap());
    assert_eq!(fake.get("relaxed"), 0);
    drop(domain.register(64, Access::LOCAL_WRITE | Access::RELAXED_ORDERING).unwrap());
    assert_eq!(fake.get("relaxed"), 1);
}

#[test]
fn memory_that_the_device_did_not_give_back_is_counted_and_kept() {
    let fake = Fake::new();
    let domain = fake.open_first().alloc_protection_domain().unwrap();
    let region = domain.register(64, Access::LOCAL_WRITE).unwrap();
    let before = rdmascope_sys::failed_releases();
    fake.set("dereg_mr", EIO.into());
    drop(region);
    assert!(rdmascope_sys::failed_releases() > before);
}

#[test]
fn writes_to_a_region_stop_at_its_end() {
    let fake = Fake::new();
    let domain = fake.open_first().alloc_protection_domain().unwrap();
    let region = domain.register(4, Access::LOCAL_WRITE).unwrap();
    assert_eq!(region.len(), 4);
    assert_eq!(region.address() % 4096, 0, "page-aligned");
    assert_eq!(region.write(2, b"abc"), 2);
    assert_eq!(region.write(5, b"x"), 0);
    let mut seen = [9; 6];
    assert_eq!(region.read(0, &mut seen), 4);
    assert_eq!(seen, [0, 0, b'a', b'b', 9, 9]);
}
