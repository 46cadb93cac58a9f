//! The mesh over a fake libibverbs: opening, pinging and answering, leases, and every way to fail.

#[path = "../../sys/tests/fake/mod.rs"]
mod fake;
#[path = "support/lab.rs"]
mod lab;
mod support;

use fake::Fake;
use lab::{LIMIT, Lab, info, plan};
use rdmascope_model::{Cause, EndpointInfo, Fabric, LeaseId, Mono, Outcome, PingSpec, Role, Step};
use rdmascope_probe::TransportEvent;
use rdmascope_probe::mesh::{MeshCommand, MeshEvent, MeshGrant};
use rdmascope_transport::Transport;
use rdmascope_transport::mesh::{Clock, Mesh};
use std::path::Path;
use std::sync::Arc;
use std::thread::park_timeout;
use std::time::{Duration, Instant};
use support::waker;

#[test]
fn both_endpoints_ping_each_other_with_both_sizes_and_answer() {
    let mut lab = Lab::new();
    lab.open();
    let (a, b) = (lab.addresses["a/fake_0/1"], lab.addresses["b/fake_1/1"]);
    assert_eq!((a.gid, a.lid, a.mtu_bytes), (info(0).gid.unwrap(), 0, 4096));
    assert!(a.queue_pair != b.queue_pair && a.queue_key >> 31 == 0 && a.queue_key != b.queue_key);
    lab.grant(60);
    for node in ["a", "b"] {
        let stats = lab.batch(node);
        assert_eq!((stats.small.sent, stats.small.answered, stats.small.payload_bytes), (20, 20, 64));
        assert_eq!((stats.large.sent, stats.large.answered, stats.large.payload_bytes), (10, 10, 4096));
        assert_eq!((stats.small.lost_forward, stats.large.lost_backward), (Some(0), Some(0)));
        assert_eq!(stats.stale, 0);
        // A busy machine leaves some without a share of the network; each of them is counted as what it is.
        let timed = stats.network.map_or(0, |network| network.count);
        assert!(timed + stats.host_delayed + stats.invalid_stamps >= 20, "{stats:?}");
    }
    assert_eq!(lab.fake.get("ah_is_global"), 1);
    assert_eq!(lab.fake.get("ah_sgid_index"), 3, "RoCE v2 of the endpoint's address");
    let health = lab.health();
    assert_eq!((health.endpoints, health.receives_posted, health.receives_wanted), (2, 64, 64));
    assert_eq!((health.refused, health.dropped), (0, 0));
    lab.endpoints(&[]);
    assert_eq!(lab.closed("a"), None, "it was told to");
    lab.wait("everything is released", |lab| (lab.fake.get("live") == 0).then_some(()));
    lab.fake.assert_nothing_left();
}

#[test]
fn the_other_layout_of_the_header_and_infiniband_by_lid_work_as_well() {
    for (switch, global) in [("grh_v6", 1), ("infiniband", 0)] {
        let fake = Fake::new();
        fake.set("devices", 2);
        fake.set(switch, 1);
        let mut lab = Lab::with(fake);
        let info = |device: usize| {
            let fabric = if switch == "infiniband" { Fabric::InfiniBand } else { Fabric::Roce };
            // Link-local GIDs are of one subnet.
            let own = if switch == "infiniband" { "fe80::200:0:0:" } else { "fe80::" };
            let gid = Some(format!("{own}{}", device + 1).parse().unwrap());
            EndpointInfo { fabric, gid, ..info(device) }
        };
        lab.mesh.command(MeshCommand::Endpoints(vec![info(0), info(1)]));
        lab.wait("both are open", |lab| (lab.addresses.len() == 2).then_some(()));
        lab.hand_out_book();
        lab.grant(60);
        let stats = lab.batch("b");
        assert_eq!((stats.small.answered, stats.large.answered), (20, 10), "{switch}");
        assert_eq!(lab.fake.get("ah_is_global"), global, "{switch}");
        assert!(switch != "infiniband" || [0x10, 0x11].contains(&lab.fake.get("ah_dlid")));
    }
}

#[test]
fn infiniband_across_subnets_is_addressed_by_gid_too() {
    let fake = Fake::new();
    fake.set("devices", 2);
    fake.set("infiniband", 1);
    fake.set("subnets", 1);
    let mut lab = Lab::with(fake);
    let gid = |text: &str| Some(text.parse().unwrap());
    let ends = [gid("fec0:0:0:1:200::1"), gid("fec0:0:0:2:200::2")]
        .into_iter()
        .enumerate()
        .map(|(device, gid)| EndpointInfo { fabric: Fabric::InfiniBand, gid, ..info(device) });
    lab.mesh.command(MeshCommand::Endpoints(ends.collect()));
    lab.wait("both are open", |lab| (lab.addresses.len() == 2).then_some(()));
    lab.hand_out_book();
    lab.grant(60);
    lab.wait("addresses are made", |lab| (lab.fake.get("addresses") >= 2).then_some(()));
    assert_eq!(lab.fake.get("ah_is_global"), 1);
}

#[test]
fn datagrams_travel_in_the_default_partition_wherever_that_stands_in_the_table() {
    let fake = Fake::new();
    fake.set("devices", 2);
    fake.set("infiniband", 1);
    fake.set("pkey_0", 0x8001);
    fake.set("pkey_2", 0xffff);
    let mut lab = Lab::with(fake);
    let ends = [0, 1].map(|device| {
        let gid = Some(format!("fe80::200:0:0:{}", device + 1).parse().unwrap());
        EndpointInfo { fabric: Fabric::InfiniBand, gid, ..info(device) }
    });
    lab.mesh.command(MeshCommand::Endpoints(ends.into()));
    lab.wait("both are open", |lab| (lab.addresses.len() == 2).then_some(()));
    assert_eq!([0, 1].map(|device| lab.fake.get(&format!("pkey_index_{device}"))), [2, 2]);
}

#[test]
fn an_address_that_moved_in_the_table_is_found_where_it_stands_now() {
    let mut lab = Lab::new();
    lab.open();
    lab.fake.set("gid_shift", 4);
    lab.grant(60);
    lab.batch("a");
    assert_eq!(lab.fake.get("ah_sgid_index"), 7, "RoCE v2 of both was at 3");
}

#[test]
fn each_step_of_opening_fails_with_its_own_cause() {
    let cases = [
        ("get_device_list", 38, Cause::VerbsMissing, Step::Open),
        ("open_device", 13, Cause::PermissionDenied, Step::Open),
        ("alloc_pd", 12, Cause::NoResources, Step::Open),
        ("port_down", 1, Cause::PortDown, Step::Open),
        ("no_gids", 1, Cause::NoUsableGid, Step::Open),
        ("create_comp_channel", 24, Cause::NoResources, Step::Init),
        ("create_cq", 12, Cause::NoResources, Step::Init),
        ("create_qp", 12, Cause::NoResources, Step::Init),
        ("modify_qp_init", 22, Cause::BadParameters, Step::Init),
        ("modify_qp_rtr", 22, Cause::BadParameters, Step::Rtr),
        ("modify_qp_rts", 22, Cause::BadParameters, Step::Rts),
        ("post_recv", 12, Cause::NoResources, Step::Init),
    ];
    for (switch, value, cause, step) in cases {
        let mut lab = Lab::new();
        lab.fake.set(switch, value);
        lab.endpoints(&[0]);
        let failed = lab.closed("a").expect("a reason");
        assert_eq!((failed.cause, failed.step), (cause, step), "{switch}: {failed}");
        // A lease on it fails for the same reason.
        lab.mesh.prepare(&plan(Role::Source, 1, PING, 5), &info(0), Mono(0));
        match lab.lease_event() {
            (LeaseId(1), TransportEvent::Finished(Outcome::Failed(failed))) => {
                assert_eq!(failed.cause, cause)
            }
            other => panic!("{switch}: {other:?}"),
        }
    }
}

const PING: PingSpec = PingSpec { count: 20, labels: 3, interval: Duration::from_millis(1) };

#[test]
fn refused_memory_is_told_with_the_limit_where_there_is_one() {
    let mut lab = Lab::new();
    lab.fake.set("reg_mr", 12);
    lab.endpoints(&[0]);
    let failed = lab.closed("a").expect("a reason");
    let unlimited = rustix::process::getrlimit(rustix::process::Resource::Memlock).current.is_none();
    let expected = if unlimited { Cause::NoResources } else { Cause::MemoryLock };
    assert_eq!((failed.cause, failed.step), (expected, Step::Open), "{failed}");
}

#[test]
fn without_the_library_every_endpoint_says_so() {
    let clock: Clock = Arc::new(|| Mono(1));
    let mut mesh =
        Mesh::new(clock, waker(), Some(Path::new("/nonexistent/lib.so")), Path::new("/none")).unwrap();
    mesh.command(MeshCommand::Endpoints(vec![info(0)]));
    let until = Instant::now() + LIMIT;
    let failed = loop {
        if let Some(MeshEvent::Closed(_, why)) = mesh.next_event() {
            break why.unwrap();
        }
        assert!(Instant::now() < until);
        park_timeout(Duration::from_millis(1));
    };
    assert_eq!((failed.cause, failed.step), (Cause::VerbsMissing, Step::Open));
}

#[test]
fn a_lease_pings_with_all_labels_and_its_class_and_both_sides_tell_their_end() {
    let mut lab = Lab::new();
    lab.open();
    let ends = lab.lease(PING);
    assert_eq!(ends[&LeaseId(2)], Outcome::Served);
    let Outcome::Pings(stats) = &ends[&LeaseId(1)] else { panic!("{ends:?}") };
    assert_eq!((stats.small.sent, stats.small.answered, stats.large.answered), (60, 60, 60), "{stats:?}");
    assert_eq!(stats.labels.iter().map(|label| label.answered).collect::<Vec<_>>(), [40, 40, 40]);
    assert_eq!(lab.fake.get("ah_traffic_class"), 104);
    assert_ne!(lab.fake.get("ah_flow_label"), 0, "the last addresses were those of the labels");
}

#[test]
fn an_address_that_cannot_be_resolved_is_told_with_its_cause() {
    let mut lab = Lab::new();
    lab.open();
    lab.fake.set("create_ah", 113);
    lab.grant(60);
    let why = lab.wait("a peer out of reach", |lab| {
        lab.events.iter().find_map(|event| match event {
            MeshEvent::Unreachable(local, peer, why) if local.node == "a" && peer.node == "b" => {
                Some(why.clone())
            }
            _ => None,
        })
    });
    assert_eq!((why.cause, why.step), (Cause::NoRoute, Step::Resolve), "{why}");
    // And when it can be, it is pinged.
    lab.fake.set("create_ah", 0);
    assert_eq!(lab.batch("a").small.answered, 20);
}

#[test]
fn a_device_that_is_removed_is_let_go_and_told() {
    let mut lab = Lab::new();
    lab.open();
    lab.grant(60);
    lab.batch("a");
    std::fs::remove_file(lab.nodes.join("uverbs0")).unwrap();
    lab.wait("the device is closed", |lab| (lab.fake.get("contexts") == 1).then_some(()));
    let why = lab.closed("a").expect("a reason");
    assert_eq!(why.cause, Cause::DeviceGone, "{why}");
    lab.events.clear();
    let stats = lab.batch("b");
    assert!(
        stats.small.answered < stats.small.sent || stats.stale > 0 || stats.small.sent == 20,
        "{stats:?}"
    );
}

#[test]
fn failed_sends_and_receives_end_in_a_fresh_queue_pair_with_all_buffers_posted() {
    let mut lab = Lab::new();
    lab.open();
    let before = lab.addresses["a/fake_0/1"].queue_pair;
    lab.grant(60);
    lab.batch("a");
    // A completion error puts the fake's queue pair into the error state and flushes all its buffers.
    lab.fake.set("completion", 4);
    assert_eq!(lab.closed("a").expect("a reason").cause, Cause::LocalFault);
    lab.fake.set("completion", 0);
    lab.wait("both are open again", |lab| (lab.addresses.len() == 2).then_some(()));
    lab.hand_out_book();
    assert_ne!(lab.addresses["a/fake_0/1"].queue_pair, before);
    lab.events.clear();
    lab.wait("pings are answered again", |lab| {
        lab.events.iter().find_map(|event| match event {
            MeshEvent::Pings(_, _, stats) if stats.small.answered == 20 => Some(()),
            _ => None,
        })
    });
    let health = lab.health();
    assert_eq!((health.receives_posted, health.receives_wanted), (64, 64));
}

#[test]
fn a_buffer_that_cannot_be_posted_is_told_and_posted_later() {
    let mut lab = Lab::new();
    lab.open();
    lab.grant(60);
    lab.fake.set("post_recv", 12);
    let health = lab.wait("missing buffers show", |lab| {
        lab.events.iter().find_map(|event| match event {
            MeshEvent::Health(health) if health.receives_posted < health.receives_wanted => Some(*health),
            _ => None,
        })
    });
    assert_eq!(health.receives_wanted, 64);
    lab.fake.set("post_recv", 0);
    lab.events.clear();
    lab.wait("all are posted again", |lab| {
        lab.events.iter().find_map(|event| match event {
            MeshEvent::Health(health) if health.receives_posted == 64 => Some(()),
            _ => None,
        })
    });
}

#[test]
fn a_hole_for_large_datagrams_is_seen_through_verbs() {
    let mut lab = Lab::new();
    lab.open();
    lab.fake.set("lose_large", 1);
    lab.grant(60);
    let stats = lab.batch("a");
    assert_eq!((stats.small.answered, stats.large.answered), (20, 0));
    assert_eq!((stats.large.lost_forward, stats.large.lost_backward), (Some(10), Some(0)));
}

#[test]
fn results_that_nobody_takes_are_dropped_and_counted_but_openings_are_not() {
    let mut lab = Lab::new();
    lab.open();
    let grant = MeshGrant {
        until: lab.now().after(Duration::from_secs(60)),
        pings_per_second: 100,
        pings_per_batch: 1,
        labels: 1,
        cross_rail_every: 1,
        sweep: None,
    };
    lab.mesh.command(MeshCommand::Grant(Some(grant)));
    // 50 batches of one ping a second, and as many reports of what was heard: five seconds fill the queue.
    std::thread::sleep(Duration::from_secs(7));
    lab.endpoints(&[0]);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(lab.closed("b"), None);
    assert!(lab.health().dropped > 0);
}
