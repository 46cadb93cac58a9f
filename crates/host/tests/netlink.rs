//! rtnetlink against the real kernel, in a network namespace of its own: each test runs itself again inside `unshare --net`.

use rdmascope_host::{Host, LinkEvent, LinkEvents};
use rdmascope_model::{Netdev, Reading};
use std::future::Future;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Set for the copy of this program that runs inside the namespace.
const INSIDE: &str = "RDMASCOPE_TEST_IN_NAMESPACE";

/// How long the kernel may take to show what was done; it takes milliseconds.
const DEADLINE: Duration = Duration::from_secs(20);

/// Runs the test called `name` in a new network namespace and gives `true` there; outside, runs it and gives `false`.
fn in_namespace(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let mut command = Command::new("unshare");
    command.arg("--net");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let program = std::env::current_exe().expect("a test knows its own program");
    let status = command
        .arg(program)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .status()
        .expect("`unshare` (package util-linux) can be started");
    assert!(
        status.success(),
        "the test failed inside its network namespace, or none could be made (it needs root, or user namespaces): {status}"
    );
    false
}

fn run(future: impl Future<Output = ()>) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime can be made");
    runtime.block_on(async {
        tokio::time::timeout(DEADLINE, future).await.expect("the kernel shows it in time")
    });
}

#[track_caller]
fn ip(arguments: &str) {
    let status = Command::new("ip")
        .args(arguments.split(' '))
        .status()
        .expect("`ip` (package iproute2) can be started");
    assert!(status.success(), "ip {arguments}: {status}");
}

async fn netdev(name: &str) -> Netdev {
    let host = Host::here().expect("/ can be opened");
    let Reading::Value(mut netdevs) = host.netdevs().await else { panic!("rtnetlink answers") };
    netdevs.remove(name).expect("the device is listed")
}

/// Reads on until the device is as wanted; the caller's deadline ends it.
async fn until(name: &str, wanted: impl Fn(&Netdev) -> bool) -> Netdev {
    loop {
        let seen = netdev(name).await;
        if wanted(&seen) {
            return seen;
        }
        tokio::task::yield_now().await;
    }
}

async fn event(events: &mut LinkEvents, wanted: impl Fn(&LinkEvent) -> bool) {
    while let Some(event) = events.next().await {
        if wanted(&event) {
            return;
        }
    }
    panic!("the socket was closed");
}

#[test]
fn devices_are_read_as_the_kernel_has_them() {
    if !in_namespace("devices_are_read_as_the_kernel_has_them") {
        return;
    }
    run(async {
        ip("link add va type veth peer name vb");
        let down = netdev("va").await;
        assert_eq!((&down.admin_up, &down.carrier), (&Reading::Value(false), &Reading::Value(false)));
        assert_eq!(down.addresses, Reading::Value(vec![]));
        ip("link set va mtu 9000 up");
        ip("link set vb up");
        ip("addr add 192.0.2.1/24 dev va");
        ip("addr add 192.0.2.7/24 dev va");
        ip("addr add 2001:db8::1/64 dev va nodad");
        // A point-to-point address: ours is the first.
        ip("addr add 198.51.100.1 peer 198.51.100.2 dev va");
        let up = until("va", |n| n.carrier == Reading::Value(true)).await;
        assert_eq!((&up.mtu, &up.admin_up), (&Reading::Value(9000), &Reading::Value(true)));
        let addresses: Vec<String> =
            up.addresses.value().unwrap().iter().map(|address| address.ip.to_string()).collect();
        assert!(
            addresses.starts_with(&["192.0.2.1".to_owned()]),
            "the primary address is first: {addresses:?}"
        );
        for wanted in ["192.0.2.7", "198.51.100.1", "2001:db8::1"] {
            assert!(addresses.iter().any(|a| a == wanted), "{wanted} in {addresses:?}");
        }
        assert!(
            !addresses.iter().any(|a| a == "198.51.100.2"),
            "the peer's address is not ours: {addresses:?}"
        );
        until("va", |n| n.oper_state == Reading::Value("up".to_owned())).await;
        let before = *up.carrier_changes.value().unwrap();
        ip("link set vb down");
        let dark = until("va", |n| n.carrier == Reading::Value(false)).await;
        assert_eq!(dark.admin_up, Reading::Value(true));
        assert!(*dark.carrier_changes.value().unwrap() > before);
        assert!(dark.tx_bytes.value().is_some() && dark.rx_bytes.value().is_some());
    });
}

#[test]
fn every_change_is_told() {
    if !in_namespace("every_change_is_told") {
        return;
    }
    run(async {
        let mut events = LinkEvents::open().expect("a netlink socket can be opened");
        let named = |name: &'static str| move |e: &LinkEvent| *e == LinkEvent::LinkChanged(name.to_owned());
        ip("link add va type veth peer name vb");
        event(&mut events, named("va")).await;
        let index = *netdev("va").await.index.value().unwrap();
        ip("link set va mtu 4220");
        event(&mut events, named("va")).await;
        until("va", |n| n.mtu == Reading::Value(4220)).await;
        ip("addr add 192.0.2.1/24 dev va");
        event(&mut events, |e| *e == LinkEvent::AddressChanged(index)).await;
        ip("addr add 2001:db8::1/64 dev va nodad");
        event(&mut events, |e| *e == LinkEvent::AddressChanged(index)).await;
        ip("link del va");
        event(&mut events, |e| *e == LinkEvent::LinkGone("va".to_owned())).await;
    });
}

#[test]
fn a_flood_of_changes_is_said_to_have_been_lost() {
    if !in_namespace("a_flood_of_changes_is_said_to_have_been_lost") {
        return;
    }
    run(async {
        let mut events = LinkEvents::open().expect("a netlink socket can be opened");
        // Lets the connection's task begin; from then on nothing reads the socket until the flood is over, because this thread
        // is the only one and does not come back to the runtime.
        tokio::task::yield_now().await;
        let mut batch = Command::new("ip")
            .args(["-batch", "-"])
            .stdin(Stdio::piped())
            .spawn()
            .expect("`ip` (package iproute2) can be started");
        let mut stdin = batch.stdin.take().expect("its input is a pipe");
        for mtu in 1_000..6_000 {
            writeln!(stdin, "link set lo mtu {mtu}").expect("`ip` reads its input");
        }
        drop(stdin);
        assert!(batch.wait().expect("`ip` ends").success());
        event(&mut events, |e| *e == LinkEvent::Overrun).await;
        let lo = netdev("lo").await;
        assert_eq!(lo.mtu, Reading::Value(5_999), "reading again gives the present state");
        // And the stream goes on afterwards.
        ip("link add va type veth peer name vb");
        event(&mut events, |e| *e == LinkEvent::LinkChanged("va".to_owned())).await;
    });
}

#[test]
fn drivers_tell_their_statistics() {
    if !in_namespace("drivers_tell_their_statistics") {
        return;
    }
    run(async {
        ip("link add va type veth peer name vb");
        let socket = rdmascope_sys::StatisticsSocket::open().expect("a socket can be made");
        let all = socket.read("va").expect("the driver answers");
        // `ethtool_stats_keys` in `drivers/net/veth.c`: the first is the index of the other end.
        let index = u64::from(*netdev("vb").await.index.value().unwrap());
        assert_eq!(all[0], ("peer_ifindex".to_owned(), index));
        let drops = all.iter().find(|(name, _)| name == "rx_queue_0_drops");
        assert_eq!(drops, Some(&("rx_queue_0_drops".to_owned(), 0)), "{all:?}");
        // None of them is in the counter catalogue, and that is no failure; a device that is gone is one.
        let host = Host::here().expect("/ can be opened");
        let seen = host.statistics(&["va".to_owned(), "lo".to_owned(), "vx".to_owned()]).await;
        assert_eq!(seen["va"], Reading::Value(std::collections::BTreeMap::new()));
        assert_eq!(seen["lo"], Reading::Absent);
        assert!(matches!(&seen["vx"], Reading::Failed(why) if why.contains("No such device")), "{seen:?}");
        // A snapshot asks none of it of a made device that no RDMA port has.
        let snapshot = host.snapshot(|_, _| rdmascope_host::PortMtu::failed("")).await;
        let va = &snapshot.netdevs.value().expect("rtnetlink answers")["va"];
        assert_eq!((&va.statistics, &va.ethtool.speed_mbps), (&Reading::Absent, &Reading::Absent));
    });
}
