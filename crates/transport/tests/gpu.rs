//! Buffers in GPUs, over a fake driver library: what is measured, what is refused and in which words.

#[path = "../../sys/tests/fake/driver.rs"]
mod driver;
#[path = "../../sys/tests/fake/mod.rs"]
mod fake;
mod support;

use driver::Driver;
use fake::Fake;
use rdmascope_model::{
    BandwidthSpec, Cause, Failure, LatencySpec, LeaseId, Manner, Memory, Operation, Outcome, ProbePlan,
    ProbeSpec, Role, Step,
};
use rdmascope_probe::TransportEvent;
use rdmascope_sys::ConnectionManager;
use rdmascope_transport::verbs::{Means, Verbs};
use rdmascope_transport::{PortReading, Transport};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use support::{NOW, connect, failure, next, plan, roce, waker};

const LEASE: LeaseId = LeaseId(1);
const LATENCY: ProbeSpec = ProbeSpec::Latency(LatencySpec { samples: 40, warmup: 4, message_bytes: 8 });
const STREAM: ProbeSpec = ProbeSpec::Bandwidth(BandwidthSpec {
    message_bytes: 4096,
    depth: 4,
    warmup: Duration::from_millis(1),
    duration: Duration::from_millis(5),
    completions_min: 5,
    bytes_max: 1 << 30,
});

fn lab() -> Fake {
    let fake = Fake::new();
    fake.set("devices", 2);
    fake
}

/// A transport that was asked to prepare one side.
fn asked(fake: &Fake, cuda: &Path, role: Role, spec: ProbeSpec, manner: Manner) -> Verbs {
    let nodes = Path::new("/nonexistent");
    let manager = Arc::new(|| ConnectionManager::open(Path::new("/nonexistent")));
    let means = Means { manager, cuda: Some(PathBuf::from(cuda)) };
    let mut verbs =
        Verbs::with_means(Arc::new(|_| PortReading::default()), waker(), Some(fake.path()), nodes, means);
    let plan = ProbePlan { manner, ..plan(role, LEASE.0, spec, Duration::from_secs(20)) };
    verbs.prepare(&plan, &roce(role), NOW);
    verbs
}

fn gpus(source: Memory, target: Memory) -> Manner {
    Manner { source_memory: source, target_memory: target, ..Manner::default() }
}

#[test]
fn bandwidth_is_measured_between_the_gpus_and_hosts_of_two_ends() {
    for (source_memory, target_memory) in
        [(Memory::Gpu(0), Memory::Host), (Memory::Host, Memory::Gpu(1)), (Memory::Gpu(0), Memory::Gpu(1))]
    {
        let (fake, driver) = (lab(), Driver::built_with("stream", &[]));
        let manner = gpus(source_memory, target_memory);
        let [mut source, mut target] =
            [Role::Source, Role::Target].map(|role| asked(&fake, driver.path(), role, STREAM, manner));
        connect(&mut source, &mut target, LEASE, |_| ());
        target.start(LEASE, NOW);
        source.start(LEASE, NOW);
        let outcome = loop {
            if let TransportEvent::Finished(outcome) = next(&mut source) {
                break outcome;
            }
        };
        assert!(matches!(outcome, Outcome::Bandwidth(..)), "{manner:?}: {outcome:?}");
        assert!(driver.live() > 0, "{manner:?}: a GPU's memory is in use");
        drop((source, target));
        assert_eq!(driver.live(), 0, "{manner:?}: freed");
        fake.assert_nothing_left();
    }
}

fn refused(fake: &Fake, cuda: &Path, spec: ProbeSpec, manner: Manner) -> Failure {
    let failed = failure(&mut asked(fake, cuda, Role::Source, spec, manner));
    assert_eq!((failed.cause, failed.step), (Cause::NotAvailable, Step::Open), "{failed}");
    failed
}

#[test]
fn what_needs_a_view_of_the_memory_is_not_available_and_says_so_on_both_ends() {
    let (fake, driver) = (lab(), Driver::built_with("view", &[]));
    let there = gpus(Memory::Host, Memory::Gpu(0));
    for (spec, manner) in [
        (LATENCY, there),
        (STREAM, Manner { both_ways: true, ..there }),
        (STREAM, Manner { operation: Operation::Send, ..there }),
    ] {
        let failed = refused(&fake, driver.path(), spec, manner);
        assert!(failed.evidence.contains("does not see the memory of a GPU"), "{failed}");
    }
    assert_eq!(driver.live(), 0, "nothing was allocated for it");
}

#[test]
fn each_missing_part_is_named() {
    let own = gpus(Memory::Gpu(0), Memory::Host);
    let words = |fake: &Fake, cuda: &Path| refused(fake, cuda, STREAM, own).evidence;
    let fake = lab();
    assert!(words(&fake, Path::new("/nonexistent/libcuda.so.1")).contains("no NVIDIA driver"));
    let without = Driver::built_with("no-dmabuf", &["-DNO_DMABUF=1"]);
    assert!(words(&fake, without.path()).contains("open kernel modules"));
    let driver = Driver::built_with("refused", &[]);
    fake.set("reg_dmabuf_mr", 95);
    let told = words(&fake, driver.path());
    assert!(told.contains("ibv_reg_dmabuf_mr") && told.contains("kernel (5.12)"), "{told}");
    assert_eq!(driver.live(), 0);
}
