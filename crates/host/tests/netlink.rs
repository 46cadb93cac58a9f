//! rtnetlink against the real kernel, in a network namespace of its own: each test runs itself again inside `unshare --net`.

use rdmascope_host::{Host, LinkEvent, LinkEvents, PortMtu};
use rdmascope_model::{Netdev, Reading, Route, Routing};
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
        let snapshot = host.snapshot(|_, _| PortMtu::failed("")).await;
        let va = &snapshot.netdevs.value().expect("rtnetlink answers")["va"];
        assert_eq!((&va.statistics, &va.ethtool.speed_mbps), (&Reading::Absent, &Reading::Absent));
    });
}

async fn routing() -> Routing {
    let host = Host::here().expect("/ can be opened");
    host.snapshot(|_, _| PortMtu::failed("not asked")).await.routing
}

#[test]
fn stacked_devices_name_what_they_stand_on() {
    if !in_namespace("stacked_devices_name_what_they_stand_on") {
        return;
    }
    run(async {
        ip("link add va type veth peer name vb");
        ip("link add link va name mac0 type macvlan mode bridge");
        ip("link add br0 type bridge");
        ip("link set vb master br0");
        let value = |text: &str| Reading::Value(text.to_owned());
        let of = |seen: Netdev| (seen.kind, seen.parent, seen.master);
        // The other end of a pair is not underneath.
        assert_eq!(of(netdev("va").await), (value("veth"), Reading::Absent, Reading::Absent));
        assert_eq!(of(netdev("vb").await), (value("veth"), Reading::Absent, value("br0")));
        assert_eq!(of(netdev("mac0").await), (value("macvlan"), value("va"), Reading::Absent));
        assert_eq!(of(netdev("br0").await), (value("bridge"), Reading::Absent, Reading::Absent));
        let lo = netdev("lo").await;
        assert_eq!((&lo.kind, &lo.hardware), (&Reading::Absent, &Reading::Value(772)), "ARPHRD_LOOPBACK");
        assert_eq!(netdev("va").await.hardware, Reading::Value(1), "ARPHRD_ETHER");
        ip("link set va up");
        ip("link set vb up");
        let up = until("va", |n| n.carrier == Reading::Value(true)).await;
        let before = *up.carrier_down_count.value().unwrap();
        ip("link set vb down");
        let dark = until("va", |n| n.carrier == Reading::Value(false)).await;
        assert_eq!(dark.carrier_down_count, Reading::Value(before + 1), "one loss, whatever came back");
        assert_eq!(dark.phys_port_name, Reading::Absent, "a veth has no port");
    });
}

#[test]
fn a_parent_in_another_namespace_is_not_mistaken_for_one_of_ours() {
    if !in_namespace("a_parent_in_another_namespace_is_not_mistaken_for_one_of_ours") {
        return;
    }
    run(async {
        // A process that holds a namespace of its own open.
        let mut other = Command::new("unshare")
            .args(["--net", "sleep", "60"])
            .spawn()
            .expect("`unshare` (package util-linux) can be started");
        ip("link add va type veth peer name vb");
        let ours = std::fs::read_link("/proc/self/ns/net").unwrap();
        let theirs = format!("/proc/{}/ns/net", other.id());
        while std::fs::read_link(&theirs).unwrap() == ours {
            tokio::task::yield_now().await;
        }
        ip("link add link va name mac0 type macvlan mode bridge");
        ip(&format!("link set va netns {}", other.id()));
        let seen = netdev("mac0").await.parent;
        other.kill().expect("it is ours");
        other.wait().expect("it ends");
        assert!(
            matches!(&seen, Reading::Failed(why) if why.contains("another network namespace")),
            "{seen:?}"
        );
    });
}

#[test]
fn routes_rules_and_neighbours_are_read() {
    if !in_namespace("routes_rules_and_neighbours_are_read") {
        return;
    }
    run(async {
        let bare = routing().await;
        assert_eq!(bare.own_rules, Reading::Value(0), "the kernel's own do not count");
        assert_eq!((bare.routes, bare.unresolved), (Reading::Value(vec![]), Reading::Value(vec![])));
        ip("link add va type veth peer name vb");
        ip("link set va up");
        ip("link set vb up");
        until("va", |n| n.carrier == Reading::Value(true)).await;
        ip("addr add 192.0.2.1/24 dev va");
        ip("addr add 2001:db8::1/64 dev va nodad");
        ip("route add default via 192.0.2.254");
        ip("route add 198.51.100.0/24 table 101 via 192.0.2.253 dev va");
        ip("route add 203.0.113.0/24 nexthop via 192.0.2.251 nexthop via 192.0.2.252");
        ip("route add blackhole 203.0.113.128/25");
        ip("rule add from 192.0.2.1 lookup 101");
        ip("-6 rule add from 2001:db8::1 lookup 101");
        ip("neigh add 192.0.2.77 dev va nud incomplete");
        ip("neigh add 192.0.2.78 dev va lladdr 02:00:00:00:00:01 nud permanent");
        let seen = routing().await;
        let routes = seen.routes.value().expect("rtnetlink answers");
        let route = |to: Option<&str>, table: u32, gateway: Option<&str>| Route {
            to: to.map(|to| to.parse().unwrap()),
            netdev: "va".to_owned(),
            table,
            gateway: gateway.map(|ip| ip.parse().unwrap()),
        };
        for wanted in [
            route(None, 254, Some("192.0.2.254")),
            route(Some("192.0.2.0/24"), 254, None),
            route(Some("2001:db8::/64"), 254, None),
            route(Some("198.51.100.0/24"), 101, Some("192.0.2.253")),
            route(Some("203.0.113.0/24"), 254, Some("192.0.2.251")),
            route(Some("203.0.113.0/24"), 254, Some("192.0.2.252")),
        ] {
            assert!(routes.contains(&wanted), "{wanted:?} in {routes:?}");
        }
        assert!(routes.iter().all(|r| r.table != 255 && r.to != route(Some("203.0.113.128/25"), 0, None).to));
        assert_eq!(seen.own_rules, Reading::Value(2));
        let unresolved: Vec<_> =
            seen.unresolved.value().unwrap().iter().map(|n| (n.ip.to_string(), n.netdev.clone())).collect();
        assert_eq!(unresolved, [("192.0.2.77".to_owned(), "va".to_owned())]);
    });
}
