//! Completion queues with the device's stamps, against a fake libibverbs whose clock the test sets.
#![expect(clippy::unwrap_used, reason = "tests")]

mod fake;

use fake::Fake;
use rdmascope_sys::{
    Access, CompletionStatus, InitAttributes, MemoryRegion, ProtectionDomain, QueuePair, QueuePairKind,
    QueuePairOptions, StampUnit, StampedCompletion, StampedQueue,
};
use std::array::from_fn;

const EIO: i64 = 5;
const EMFILE: i64 = 24;
const MASK: i64 = (1 << 48) - 1;

/// A queue with stamps, and what makes completions on it.
struct Bench {
    queue: StampedQueue,
    domain: ProtectionDomain,
}

impl Bench {
    fn new(fake: &Fake) -> Self {
        let context = fake.open_first();
        let queue = context.create_stamped_queue(16, None).unwrap().expect("the fake has stamps");
        Self { queue, domain: context.alloc_protection_domain().unwrap() }
    }

    /// Receives that are flushed at once: failed completions.
    fn flush(&self, count: u64) -> (QueuePair, MemoryRegion) {
        let options = QueuePairOptions {
            kind: QueuePairKind::ReliableConnection,
            send_depth: 1,
            receive_depth: 16,
            max_inline: 0,
        };
        let region = self.domain.register(64, Access::LOCAL_WRITE).unwrap();
        let mut pair =
            self.domain.create_queue_pair(self.queue.queue(), self.queue.queue(), &options).unwrap();
        let init = InitAttributes { port: 1, pkey_index: 0, access: Access::LOCAL_WRITE, queue_key: 0 };
        pair.to_init(&init).unwrap();
        for id in 0..count {
            pair.post_receive(&region, 0..8, id).unwrap();
        }
        pair.to_error().unwrap();
        (pair, region)
    }

    /// Datagrams of 8 bytes to itself.
    fn datagrams(&self, count: u64) -> QueuePair {
        let options = QueuePairOptions {
            kind: QueuePairKind::Datagram,
            send_depth: 16,
            receive_depth: 16,
            max_inline: 64,
        };
        let region = self.domain.register(128, Access::LOCAL_WRITE).unwrap();
        let mut pair =
            self.domain.create_queue_pair(self.queue.queue(), self.queue.queue(), &options).unwrap();
        let init = InitAttributes { port: 1, pkey_index: 0, access: Access::LOCAL_WRITE, queue_key: 7 };
        pair.to_init(&init).unwrap();
        pair.to_ready_to_receive_datagrams().unwrap();
        let ready = rdmascope_sys::ReadyToSendAttributes {
            send_sequence: 0,
            timeout: 0,
            retries: 0,
            receiver_not_ready_retries: 0,
            max_outgoing_reads: 0,
        };
        pair.to_ready_to_send(&ready).unwrap();
        let route = rdmascope_sys::GlobalRoute {
            destination: [0; 16],
            source_index: 3,
            hop_limit: 64,
            traffic_class: 0,
            flow_label: 0,
        };
        let peer = rdmascope_sys::AddressVector::routed(1, route);
        let peer = self.domain.create_address(&peer).unwrap();
        for id in 0..count {
            pair.post_receive(&region, 64..128, 100 + id).unwrap();
            let mut request =
                rdmascope_sys::SendRequest::datagram(&region, 0..8, &peer, pair.number(), 7).unwrap();
            request.set_id(id);
            pair.post(&mut request).unwrap();
        }
        pair
    }
}

fn room<const N: usize>() -> [StampedCompletion; N] {
    from_fn(|_| StampedCompletion::default())
}

#[test]
fn a_device_without_stamps_says_so_and_is_no_failure() {
    for settings in [
        [("stamps", 0), ("stamp_mask", MASK), ("stamp_khz", 1000), ("old_abi", 0), ("query_device_ex", 0)],
        [("stamps", 1), ("stamp_mask", 0), ("stamp_khz", 1000), ("old_abi", 0), ("query_device_ex", 0)],
        [("stamps", 1), ("stamp_mask", MASK), ("stamp_khz", 0), ("old_abi", 0), ("query_device_ex", 0)],
        [("stamps", 1), ("stamp_mask", MASK), ("stamp_khz", 1000), ("old_abi", 1), ("query_device_ex", 0)],
        [("stamps", 1), ("stamp_mask", MASK), ("stamp_khz", 1000), ("old_abi", 0), ("query_device_ex", 95)],
    ] {
        let fake = Fake::new();
        settings.iter().for_each(|(name, value)| fake.set(name, *value));
        let made = fake.open_first().create_stamped_queue(16, None).unwrap();
        assert!(made.is_none(), "{settings:?}");
        drop(made);
        fake.assert_nothing_left();
    }
}

#[test]
fn a_device_that_fails_is_a_failure() {
    let fake = Fake::new();
    fake.set("stamps", 1);
    let context = fake.open_first();
    fake.set("query_device_ex", EIO);
    let error = context.create_stamped_queue(16, None).err().expect("an error");
    assert_eq!(error.to_string(), "fake_0: ibv_query_device: Input/output error (errno 5)");
    fake.set("stamps", 2);
    fake.set("create_cq", EMFILE);
    let error = context.create_stamped_queue(16, None).err().expect("an error");
    assert_eq!(error.to_string(), "fake_0: ibv_create_cq: Too many open files (errno 24)");
}

#[test]
fn stamps_come_with_their_completions_in_the_devices_unit() {
    let fake = Fake::new();
    fake.set("stamps", 1);
    fake.set("stamp_mask", MASK);
    fake.set("stamp_khz", 156_250);
    fake.set("stamp", 5000);
    fake.set("stamp_step", 7);
    let bench = Bench::new(&fake);
    assert_eq!(bench.queue.unit(), StampUnit { mask: MASK as u64, kilohertz: 156_250 });
    assert!(bench.queue.poll(&mut room::<2>()).unwrap().is_empty());
    let pair = bench.datagrams(2);
    // Each datagram completes twice: received, and sent. The room is smaller than what there is.
    let mut first = room::<3>();
    let first = bench.queue.poll(&mut first).unwrap();
    let seen: Vec<_> =
        first.iter().map(|done| (done.completion.id(), done.completion.is_receive(), done.stamp)).collect();
    assert_eq!(seen, [(100, true, 5007), (0, false, 5014), (101, true, 5021)]);
    assert_eq!((first[0].completion.received_bytes(), first[0].completion.queue_pair()), (48, pair.number()));
    assert_eq!(first[0].completion.source_queue_pair(), pair.number());
    let mut rest = room::<3>();
    let rest = bench.queue.poll(&mut rest).unwrap();
    assert_eq!(rest.iter().map(|done| done.stamp).collect::<Vec<_>>(), [5028]);
    assert!(bench.queue.poll(&mut []).unwrap().is_empty(), "no room, no completion is lost");
    assert_eq!(fake.get("polls_open"), 0, "each poll that was begun was ended");
    drop((pair, bench));
    fake.assert_nothing_left();
}

#[test]
fn nanoseconds_are_taken_where_the_provider_makes_them() {
    let fake = Fake::new();
    fake.set("stamps", 2);
    fake.set("stamp_mask", MASK);
    fake.set("stamp_khz", 156_250);
    assert_eq!(Bench::new(&fake).queue.unit(), StampUnit { mask: u64::MAX, kilohertz: 1_000_000 });
}

#[test]
fn failed_completions_and_failed_polls_are_told() {
    let fake = Fake::new();
    fake.set("stamps", 2);
    let bench = Bench::new(&fake);
    let _pair = bench.flush(2);
    let mut places = room::<4>();
    let done = bench.queue.poll(&mut places).unwrap();
    let seen: Vec<_> = done.iter().map(|done| (done.completion.id(), done.completion.status())).collect();
    assert_eq!(seen, [(0, CompletionStatus::Flushed), (1, CompletionStatus::Flushed)]);
    fake.set("poll_cq", EIO);
    let error = bench.queue.poll(&mut room::<4>()).err().expect("an error");
    assert_eq!(error.to_string(), "fake_0: ibv_poll_cq: Input/output error (errno 5)");
    assert_eq!(fake.get("polls_open"), 0);
}
