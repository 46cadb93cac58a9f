//! A machine on a virtual clock, looked at by the real checks: what the coordinator is told of it, and when.

mod hard;

use super::*;
use rdmascope_checks::{Past, Policy, run};
use rdmascope_fixtures::snapshot::roce;
use rdmascope_model::{Device, KernelLog, Lldp, LogHit, PortState, Snapshot};

const BOOTED: u64 = 1_795_000_000_000;
const BEGAN: u64 = 1_796_000_000_000;

struct Machine {
    watch: Watch,
    snapshot: Snapshot,
    policy: Policy,
    log: Reading<KernelLog>,
    ms: u64,
    /// A finding that no check of ours gives, such as a kernel-log rule's.
    extra: Option<Finding>,
}

impl Machine {
    fn new(ports: usize) -> Self {
        let mut machine = Self {
            watch: Watch::default(),
            snapshot: roce(ports),
            policy: Policy::default(),
            log: Reading::Absent,
            ms: 0,
            extra: None,
        };
        machine.snapshot.system.booted_at = Reading::Value(Wall(BOOTED));
        machine
    }

    fn now(&self) -> Now {
        Now { mono: Mono(self.ms * 1_000_000), wall: Wall(BEGAN + self.ms) }
    }

    /// Looks now, as the agent does after a change; gives what happened.
    fn look(&mut self) -> Vec<(EventKind, String, String, String, String)> {
        let past = Past::new();
        let look = Look { now: &self.snapshot, past: &past, log: &self.log, policy: &self.policy };
        let findings = run(&look).into_iter().chain(self.extra.clone()).collect();
        self.watch.look(&look, findings, self.now());
        let events = self.watch.take_events();
        events.into_iter().map(|e| (e.kind, e.subject, e.id, e.before, e.after)).collect()
    }

    /// Lets time pass, with a look every second.
    fn pass(&mut self, seconds: u64) -> Vec<(EventKind, String, String, String, String)> {
        let mut all = Vec::new();
        for _ in 0..seconds {
            self.ms += 1_000;
            all.extend(self.look());
        }
        all
    }

    fn devices(&mut self) -> &mut Vec<Device> {
        let Reading::Value(devices) = &mut self.snapshot.devices else { panic!("no devices") };
        devices
    }

    fn port_is(&mut self, state: PortState) {
        self.devices()[0].ports[0].state = Reading::Value(state);
    }

    fn standing(&self, id: &str) -> Option<(Status, bool, bool)> {
        let standing = self.watch.standing();
        let found = standing.iter().find(|f| f.id == id)?;
        Some((found.status, found.settling, found.latched))
    }

    fn worst(&self) -> Status {
        rdmascope_checks::worst(self.watch.shown())
    }
}

fn told(
    kind: EventKind,
    subject: &str,
    id: &str,
    before: &str,
    after: &str,
) -> (EventKind, String, String, String, String) {
    (kind, subject.to_owned(), id.to_owned(), before.to_owned(), after.to_owned())
}

fn state(before: &str, after: &str) -> (EventKind, String, String, String, String) {
    told(EventKind::StateChange, "mlx5_0/1", "state", before, after)
}

#[test]
fn a_healthy_machine_says_nothing() {
    let mut machine = Machine::new(8);
    assert_eq!(machine.pass(60), []);
    assert!(machine.watch.standing().is_empty() && !machine.watch.is_settling());
    assert_eq!(machine.worst(), Status::Ok);
}

#[test]
fn a_bounce_of_two_seconds_is_an_event_and_no_fail() {
    let mut machine = Machine::new(1);
    machine.look();
    machine.port_is(PortState::Down);
    assert_eq!(machine.look(), [state("ACTIVE", "DOWN")], "told at once");
    assert_eq!(machine.standing("port-state"), Some((Status::Warn, true, false)));
    assert!(machine.watch.is_settling());
    assert_eq!(machine.pass(2), []);
    assert_eq!(machine.worst(), Status::Warn);
    machine.port_is(PortState::Active);
    assert_eq!(machine.look(), [state("DOWN", "ACTIVE")]);
    assert_eq!((machine.worst(), machine.standing("port-state")), (Status::Ok, None));
    assert_eq!(machine.pass(60), []);
}

#[test]
fn a_port_that_stays_down_is_raised_once_and_cleared_once() {
    let mut machine = Machine::new(1);
    machine.look();
    machine.port_is(PortState::Down);
    assert_eq!(machine.look().len(), 1);
    let since = machine.now().wall;
    assert_eq!(machine.pass(9), []);
    assert_eq!(machine.standing("port-state"), Some((Status::Warn, true, false)));
    let raised = told(EventKind::FindingRaised, "mlx5_0/1", "port-state", "ok", "fail");
    assert_eq!(machine.pass(2), [raised], "after three looks and ten seconds");
    assert_eq!(machine.standing("port-state"), Some((Status::Fail, false, false)));
    assert_eq!(machine.watch.standing()[0].since, since, "since it went down, not since it counts");
    assert_eq!(machine.pass(600), []);
    machine.port_is(PortState::Active);
    let cleared = told(EventKind::FindingCleared, "mlx5_0/1", "port-state", "fail", "ok");
    assert_eq!(machine.look(), [state("DOWN", "ACTIVE"), cleared]);
    assert_eq!(
        machine.standing("port-state"),
        None,
        "a state that is well again is no history to keep in sight"
    );
}

#[test]
fn ten_seconds_in_one_look_are_not_enough() {
    let mut machine = Machine::new(1);
    machine.look();
    machine.port_is(PortState::Down);
    machine.look();
    machine.ms += 60_000;
    machine.look();
    assert_eq!(machine.worst(), Status::Warn, "two looks");
    machine.ms += 1;
    machine.look();
    assert_eq!(machine.worst(), Status::Fail, "three");
}

#[test]
fn a_port_that_has_not_come_up_since_the_boot_is_initialising() {
    let mut machine = Machine::new(2);
    machine.snapshot.system.booted_at = Reading::Value(Wall(BEGAN - 100_000));
    machine.port_is(PortState::Down);
    assert_eq!(machine.pass(199), []);
    assert_eq!(machine.standing("port-state"), Some((Status::Unknown, true, false)));
    assert!(
        machine.watch.standing()[0].summary.starts_with("initialising (booted at 2026-11-30T00:51:40.000Z)")
    );
    let raised = told(EventKind::FindingRaised, "mlx5_0/1", "port-state", "ok", "fail");
    assert_eq!(machine.pass(2), [raised], "the time is over, and it was down for long enough");
    // A port that was up once is up no more: no grace for that.
    machine.snapshot.system.booted_at = Reading::Value(machine.now().wall);
    machine.devices()[1].ports[0].state = Reading::Value(PortState::Down);
    machine.look();
    let of_second = machine.watch.standing().into_iter().find(|f| f.subject == "mlx5_1/1");
    assert_eq!(of_second.map(|f| (f.status, f.settling)), Some((Status::Warn, true)));
}

#[test]
fn a_reload_of_the_driver_is_two_events_and_no_fail() {
    let mut machine = Machine::new(2);
    machine.policy.devices = vec!["mlx5_0".to_owned(), "mlx5_1".to_owned()];
    machine.look();
    let devices = std::mem::take(machine.devices());
    let both = |before: &str, after: &str| {
        ["mlx5_0/1", "mlx5_1/1"].map(|port| told(EventKind::StateChange, port, "state", before, after))
    };
    assert_eq!(machine.look(), both("ACTIVE", "gone"));
    assert_eq!(machine.pass(60), []);
    assert_eq!(machine.worst(), Status::Unknown);
    assert_eq!(machine.standing("device-present"), Some((Status::Unknown, true, false)));
    *machine.devices() = devices;
    assert_eq!(machine.look(), both("gone", "ACTIVE"));
    assert!(machine.watch.standing().is_empty());
    assert_eq!(machine.pass(600), []);
}

#[test]
fn what_was_wrong_before_a_reload_is_not_told_to_be_over_by_it() {
    let mut machine = Machine::new(1);
    machine.look();
    let Reading::Value(netdevs) = &mut machine.snapshot.netdevs else { panic!("no netdevs") };
    netdevs.get_mut("eth0").unwrap().carrier = Reading::Value(false);
    let raised = told(EventKind::FindingRaised, "netdev eth0", "netdev-link", "ok", "fail");
    assert!(machine.pass(20).contains(&raised));
    let devices = std::mem::take(machine.devices());
    let netdevs = std::mem::replace(&mut machine.snapshot.netdevs, Reading::Value(BTreeMap::new()));
    assert_eq!(machine.look(), [state("ACTIVE", "gone")]);
    machine.pass(30);
    assert_eq!(machine.standing("netdev-link"), Some((Status::Unknown, true, false)));
    *machine.devices() = devices;
    machine.snapshot.netdevs = netdevs;
    assert_eq!(machine.look(), [state("gone", "ACTIVE")]);
    assert_eq!(machine.standing("netdev-link"), Some((Status::Fail, false, false)));
}

#[test]
fn a_device_that_does_not_come_back_fails_in_the_end() {
    let mut machine = Machine::new(2);
    machine.policy.devices = vec!["mlx5_0".to_owned()];
    machine.look();
    machine.devices().remove(0);
    machine.look();
    assert_eq!(machine.pass(299), []);
    let raised = told(EventKind::FindingRaised, "mlx5_0", "device-present", "ok", "fail");
    assert_eq!(machine.pass(2), [raised]);
}

#[test]
fn a_machine_that_cannot_be_read_is_unknown_and_nothing_has_gone() {
    let mut machine = Machine::new(1);
    machine.look();
    machine.port_is(PortState::Down);
    machine.pass(20);
    let devices = std::mem::replace(&mut machine.snapshot.devices, Reading::failed("EIO"));
    let events = machine.look();
    let unknown = told(EventKind::FindingRaised, "machine", "device-present", "ok", "unknown");
    assert_eq!(events, [unknown], "no port is told to be gone, and no finding to be over");
    assert_eq!(machine.standing("port-state"), Some((Status::Unknown, true, false)));
    machine.pass(10);
    machine.snapshot.devices = devices;
    let cleared = told(EventKind::FindingCleared, "machine", "device-present", "unknown", "ok");
    assert_eq!(machine.look(), [cleared]);
    assert_eq!(
        machine.standing("port-state"),
        Some((Status::Fail, false, false)),
        "as before, and not told again"
    );
    machine.port_is(PortState::Active);
    assert!(machine.look().iter().any(|e| e.0 == EventKind::FindingCleared), "recovery is told");
}

#[test]
fn what_could_not_be_told_of_a_flap_leaves_nothing_in_sight() {
    let mut machine = Machine::new(1);
    machine.look();
    machine.extra = Some(Finding {
        id: "link-flaps".into(),
        status: Status::Unknown,
        subject: "mlx5_0/1".to_owned(),
        summary: "when the link was lost is not known after one look".to_owned(),
        cause: String::new(),
        next_step: String::new(),
        evidence: Vec::new(),
    });
    machine.look();
    assert_eq!(machine.standing("link-flaps"), Some((Status::Unknown, false, false)));
    machine.extra = None;
    machine.pass(1);
    assert_eq!(machine.standing("link-flaps"), None);
}

#[test]
fn a_flap_that_is_over_stays_in_sight_for_a_day() {
    let mut machine = Machine::new(1);
    machine.look();
    let flaps = Finding {
        id: "link-flaps".into(),
        status: Status::Fail,
        subject: "mlx5_0/1".to_owned(),
        summary: "the link was lost 5 times within an hour".to_owned(),
        cause: String::new(),
        next_step: String::new(),
        evidence: Vec::new(),
    };
    machine.extra = Some(flaps.clone());
    let raised = told(EventKind::FindingRaised, "mlx5_0/1", "link-flaps", "ok", "fail");
    assert_eq!(machine.look(), std::slice::from_ref(&raised), "it looks over an hour already: at once");
    machine.extra = None;
    let cleared = told(EventKind::FindingCleared, "mlx5_0/1", "link-flaps", "fail", "ok");
    assert_eq!(machine.pass(1), [cleared]);
    assert_eq!(machine.standing("link-flaps"), Some((Status::Fail, false, true)));
    assert_eq!(machine.worst(), Status::Ok, "it is over");
    machine.extra = Some(flaps);
    assert_eq!(machine.pass(1), [raised], "again: a new one");
    machine.extra = None;
    machine.pass(1);
    machine.ms += 86_400_000;
    machine.look();
    assert_eq!(machine.standing("link-flaps"), None);
}

#[test]
fn a_setting_that_changes_is_told_with_before_and_after() {
    let mut machine = Machine::new(1);
    machine.look();
    let fact = |machine: &Machine, key: &str| {
        machine.watch.facts().into_iter().find(|f| f.key == key).map(|f| (f.subject, f.value))
    };
    assert_eq!(fact(&machine, "pfc"), Some(("mlx5_0/1".to_owned(), "3".to_owned())));
    assert_eq!(fact(&machine, "rate"), Some(("mlx5_0/1".to_owned(), "100 Gb/s".to_owned())));
    assert_eq!(fact(&machine, "gid_index"), Some(("mlx5_0/1".to_owned(), "3".to_owned())));
    assert_eq!(fact(&machine, "kernel"), Some(("machine".to_owned(), "6.1.0-44-amd64".to_owned())));
    let Reading::Value(netdevs) = &mut machine.snapshot.netdevs else { panic!("no netdevs") };
    let netdev = netdevs.get_mut("eth0").unwrap();
    let Reading::Value(dcb) = &mut netdev.dcb else { panic!("no DCB") };
    dcb.pfc = Reading::Value(0);
    dcb.trust = Reading::failed("EPERM");
    let change = told(EventKind::SettingChange, "mlx5_0/1", "pfc", "3", "none");
    assert_eq!(machine.look(), [change], "what could not be read has not changed");
    assert_eq!(fact(&machine, "trust"), Some(("mlx5_0/1".to_owned(), "dscp".to_owned())));
}

/// Pitfall 3: after a flap the same address stands in another slot, and whoever remembers the old one fails.
#[test]
fn a_gid_that_comes_back_in_another_slot_is_told_with_both() {
    let mut machine = Machine::new(1);
    machine.look();
    let Reading::Value(gids) = &mut machine.devices()[0].ports[0].gids else { panic!("no GIDs") };
    let usable = gids.iter_mut().find(|entry| entry.index == 3).unwrap();
    usable.index = 4;
    let change = told(EventKind::SettingChange, "mlx5_0/1", "gid_index", "3", "4");
    assert_eq!(machine.look(), [change]);
}

#[test]
fn a_firmware_that_is_another_one_after_a_reload_is_a_change() {
    let mut machine = Machine::new(1);
    machine.look();
    let mut devices = std::mem::take(machine.devices());
    machine.pass(30);
    assert_eq!(machine.watch.facts().len(), 1, "the kernel alone");
    devices[0].firmware = Reading::Value("28.42.1000".to_owned());
    // While a port trains it has some rate, which is no change of a setting.
    devices[0].ports[0].state = Reading::Value(PortState::Down);
    devices[0].ports[0].rate_bps = Reading::Value(10_000_000_000);
    *machine.devices() = devices;
    let change = told(EventKind::SettingChange, "mlx5_0", "firmware", "28.41.1000", "28.42.1000");
    assert_eq!(machine.look(), [state("gone", "DOWN"), change]);
}

#[test]
fn what_a_port_is_plugged_into_is_told_and_stays_known_when_its_link_is_gone() {
    let mut machine = Machine::new(1);
    let lldp = |port: &str| Lldp {
        system: Reading::Value("leaf7".to_owned()),
        port: Reading::Value(port.to_owned()),
        frame_bytes_max: Reading::Absent,
        pfc: Reading::Absent,
        age_seconds: 5,
    };
    fn netdev(machine: &mut Machine) -> &mut rdmascope_model::Netdev {
        let Reading::Value(netdevs) = &mut machine.snapshot.netdevs else { panic!("no netdevs") };
        netdevs.get_mut("eth0").unwrap()
    }
    netdev(&mut machine).lldp = Reading::Value(lldp("Ethernet1/4"));
    machine.look();
    let facts = |machine: &Machine| {
        let wanted = ["serial", "module", "module_serial", "switch", "switch_port", "driver_version"];
        let facts = machine.watch.facts().into_iter().filter(|f| wanted.contains(&f.key.as_str()));
        facts.map(|f| (f.key, f.value)).collect::<BTreeMap<_, _>>()
    };
    let known = facts(&machine);
    assert_eq!(known["serial"], "MT2245X01234");
    assert_eq!(
        (known["module"].as_str(), known["module_serial"].as_str()),
        ("QSFP28 Example MCP1600", "EX2301VS0042")
    );
    assert_eq!((known["switch"].as_str(), known["switch_port"].as_str()), ("leaf7", "Ethernet1/4"));
    assert!(!known.contains_key("driver_version"), "the kernel's own driver has none");
    // The link is lost, and with it the neighbour.
    netdev(&mut machine).lldp = Reading::Absent;
    assert_eq!(machine.look(), []);
    assert_eq!(facts(&machine), known);
    netdev(&mut machine).lldp = Reading::Value(lldp("Ethernet1/9"));
    netdev(&mut machine).module = Reading::Absent;
    let moved = told(EventKind::SettingChange, "mlx5_0/1", "switch_port", "Ethernet1/4", "Ethernet1/9");
    let pulled = |key, before| told(EventKind::SettingChange, "mlx5_0/1", key, before, "");
    let cable = [pulled("module", "QSFP28 Example MCP1600"), pulled("module_serial", "EX2301VS0042")];
    assert_eq!(machine.look(), [cable[0].clone(), cable[1].clone(), moved]);
    let Reading::Value(modules) = &mut machine.snapshot.system.modules else { panic!("no modules") };
    modules.insert("mlx5_core".to_owned(), "24.10-1.1.4".to_owned());
    let driver = told(EventKind::SettingChange, "mlx5_0", "driver_version", "", "24.10-1.1.4");
    assert_eq!(machine.look(), [driver]);
}

/// What a finding rests on goes with the event, so that it can be judged again; a bounded number of them in one look.
#[test]
fn a_raised_finding_keeps_what_it_rests_on() {
    let mut machine = Machine::new(3);
    machine.look();
    let Reading::Value(netdevs) = &mut machine.snapshot.netdevs else { panic!("no netdevs") };
    netdevs.values_mut().for_each(|netdev| netdev.mtu = Reading::Value(1_500));
    let past = Past::new();
    let look = Look { now: &machine.snapshot, past: &past, log: &machine.log, policy: &machine.policy };
    machine.watch.look(&look, run(&look), Now { mono: Mono(9_000_000_000), wall: Wall(BEGAN + 9_000) });
    let events = machine.watch.take_events();
    let raised: Vec<_> =
        events.iter().filter(|event| event.id == "netdev-mtu" && event.after == "fail").collect();
    assert_eq!(raised.len(), 3);
    let basis = raised[0].basis.as_deref();
    let mut limits = limits::Limits::default();
    limits.set("netdev_mtu", 1_500.0);
    let again = rdmascope_checks::replay::again("netdev-mtu", Status::Fail, basis, &limits);
    assert_eq!(again, rdmascope_checks::replay::Again::Silent, "{basis:?}");
    assert!(
        events
            .iter()
            .filter(|event| event.kind != EventKind::FindingRaised)
            .all(|event| event.basis.is_none())
    );
}

#[test]
fn new_lines_of_the_kernel_log_are_events_and_old_ones_are_history() {
    let mut machine = Machine::new(1);
    let hit = |count, last: u64| {
        Reading::Value(KernelLog {
            hits: vec![LogHit {
                rule: "mlx5-health".to_owned(),
                subject: Some("0000:3b:00.0".to_owned()),
                count,
                first: Reading::Value(Wall(BOOTED)),
                last: Reading::Value(Wall(last)),
                recent: Vec::new(),
                line: "health compromised".to_owned(),
            }],
            ..KernelLog::default()
        })
    };
    machine.log = hit(3, BEGAN - 1);
    assert_eq!(machine.look(), [], "before we began");
    machine.log = hit(5, BEGAN + 500);
    let lines = told(EventKind::KernelLog, "0000:3b:00.0", "mlx5-health", "", "2 lines");
    assert_eq!(machine.pass(1), [lines]);
    assert_eq!(machine.pass(5), []);
}
