//! Log lines through rules and check: healthy ones stay quiet, the public cases end in their verdict.

use super::*;
use crate::Policy;
use crate::log::{Rules, Tally, Times};
use crate::manifest::Expectation;
use rdmascope_fixtures::snapshot::{infiniband, roce};
use rdmascope_model::{Bond, BondMember, PortState, Snapshot};

const PUBLISHED: &str = include_str!("../../../rules/published-lines.txt");
const BOOT: Wall = Wall(1_795_999_000_000);
const OWN_PID: u32 = 268_270;

fn log(lines: &[&str], of_programs: bool) -> KernelLog {
    let times = Times { read_at: Wall(1_796_000_000_000), booted_at: Reading::Value(BOOT) };
    let mut tally = Tally::new(&Rules::builtin(), Some(OWN_PID));
    for line in lines {
        if of_programs {
            tally.program_line(line, &times);
        } else {
            tally.line(line, &times);
        }
    }
    tally.log()
}

fn judged(machine: &Snapshot, policy: &Policy, log: KernelLog) -> Vec<Finding> {
    judge(&Look { log: &Reading::Value(log), ..Look::first(machine, policy) })
}

fn found(machine: &Snapshot, lines: &[&str]) -> Vec<Finding> {
    judged(machine, &Policy::default(), log(lines, false))
}

fn ids(findings: &[Finding]) -> Vec<(&str, &str, &str)> {
    findings.iter().map(|f| (&*f.id, f.status.as_str(), &*f.subject)).collect()
}

/// A machine whose first port has the PCI address and network device that a line names.
fn with_address(address: &str) -> Snapshot {
    let mut machine = roce(2);
    let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
    devices[0].pci_address = Reading::Value(address.to_owned());
    netdev(&mut machine).pci_address = Reading::Value(address.to_owned());
    machine
}

fn netdev(machine: &mut Snapshot) -> &mut rdmascope_model::Netdev {
    let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
    netdevs.get_mut("eth0").unwrap()
}

fn unplug(machine: &mut Snapshot) {
    netdev(machine).carrier = Reading::Value(false);
    netdev(machine).carrier_changes = Reading::Value(3);
    netdev(machine).carrier_down_count = Reading::Value(2);
    let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
    devices[0].ports[0].state = Reading::Value(PortState::Down);
}

#[test]
fn lines_of_healthy_machines_are_benign() {
    let healthy = PUBLISHED.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ' ').skip(1);
        let (mark, text) = (parts.next()?, parts.next()?);
        (mark.contains('H') || text.contains("ACCESS_REG")).then_some(text)
    });
    let mut lines: Vec<&str> = healthy.collect();
    assert!(lines.len() > 30, "the published file has them");
    lines.extend([
        "mlx5_core 0000:12:00.1: Port module event: module 1, Cable unplugged",
        "mlx5_core 0000:3b:00.0 eth0: Link down",
        "mlx5_core 0000:3b:00.0 eth0: Link up",
        "bond0: (slave eth0): link status definitely down, disabling slave",
        "bond0: now running without any active interface!",
        "mlx5_core 0000:3b:00.1: 252.048 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x16 link at 0000:3a:00.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)",
    ]);
    // Spare: there, never had a carrier.
    for address in ["0000:41:00.1", "0000:12:00.0", "0000:12:00.1"] {
        let mut spare = with_address(address);
        netdev(&mut spare).carrier = Reading::Value(false);
        netdev(&mut spare).carrier_changes = Reading::Value(1);
        for machine in [roce(2), spare, infiniband(2)] {
            let findings = found(&machine, &lines);
            let bad: Vec<_> = findings.iter().filter(|f| f.status != Status::Ok).collect();
            assert!(bad.is_empty(), "{bad:#?}");
            assert!(findings.iter().any(|f| f.id == ID));
        }
    }
}

#[test]
fn all_that_is_wrong_is_found_on_a_machine_of_which_nothing_else_is_known() {
    let lines: Vec<(&str, &str)> = PUBLISHED
        .lines()
        .filter_map(|line| line.split_once(' ')?.1.split_once(' '))
        .filter(|(mark, _)| *mark == "F")
        .collect();
    let details =
        ["assert_", "fw_ver 20", "hw_id", "irisc_index", "ext_synd", "raw fw_ver", "was called", ": start"];
    for (_, line) in lines {
        let quiet = details.iter().any(|part| line.contains(part)) || line.ends_with("Link down");
        // A syslog line of March is history in November.
        let findings = found(&roce(1), &[&line.replace("Mar  3", "Nov 29")]);
        let bad = findings.iter().any(|f| f.status > Status::Ok);
        assert_eq!(bad, !quiet, "{line}: {findings:?}");
    }
}

#[test]
fn a_link_that_is_down_is_told_and_one_that_flaps_fails() {
    let line = "[  900.000000] mlx5_core 0000:3b:00.0 eth0: Link down";
    let mut machine = roce(1);
    assert_eq!(ids(&found(&machine, &[line])), [(ID, "ok", "machine")]);
    unplug(&mut machine);
    assert_eq!(ids(&found(&machine, &[line])), [("link-down", "warn", "mlx5_0/1")]);
    let flapping = found(&roce(1), &[line; 5]);
    assert_eq!(ids(&flapping), [("link-down", "fail", "mlx5_0/1")]);
    assert!(flapping[0].next_step.contains("ethtool eth0"), "{}", flapping[0].next_step);
    assert!(flapping[0].summary.starts_with("logged 5 times, last at 2026-11-30T00:51:40.000Z"));
    let unplugged = "mlx5_core 0000:3b:00.0: Port module event: module 0, Cable unplugged";
    assert_eq!(ids(&found(&machine, &[unplugged])), [("module-unplugged", "fail", "mlx5_0/1")]);
    let row = Expectation { device: "mlx5_0".to_owned(), down: Some(true), ..Expectation::default() };
    let mut meant = Policy::default();
    meant.manifest.rows.push(row);
    assert_eq!(ids(&judged(&machine, &meant, log(&[unplugged], false))), [(ID, "ok", "machine")]);
}

#[test]
fn lines_are_about_the_port_that_they_mean() {
    let stuck = |name: &str| format!("mlx5_core {name}: device's health compromised - reached miss count");
    let subject = |line: &str| found(&roce(2), &[line])[0].subject.clone();
    assert_eq!(subject(&stuck("0000:3b:00.1")), "mlx5_1/1");
    assert_eq!(subject(&stuck("0000:99:00.0")), "pci 0000:99:00.0");
    assert_eq!(subject("NETDEV WATCHDOG: eth1 (mlx5_core): transmit queue 0 timed out"), "mlx5_1/1");
    assert_eq!(subject("NETDEV WATCHDOG: eth9 (mlx5_core): transmit queue 0 timed out"), "netdev eth9");
    assert_eq!(subject("mlx5_core: INFO: synd 0x8: unrecoverable hardware error."), "machine");
    assert_eq!(subject("infiniband mlx5_1: couldn't recover UMR, err -5"), "mlx5_1/1");
    let both = [
        "NETDEV WATCHDOG: eth1 (mlx5_core): transmit queue 0 timed out",
        "mlx5_core 0000:3b:00.1 eth1: NETDEV WATCHDOG: CPU: 1: transmit queue 3 timed out 5180 ms",
    ];
    let findings = found(&roce(2), &both);
    assert_eq!((findings.len(), findings[0].evidence[0].as_str()), (1, "count = 2"));
    let only = Policy { devices: vec!["mlx5_0".to_owned()], ..Policy::default() };
    let others = judged(&roce(2), &only, log(&[&stuck("0000:3b:00.1")], false));
    assert_eq!(ids(&others), [(ID, "ok", "machine")]);
}

#[test]
fn what_is_old_is_history_and_what_has_no_time_counts() {
    let line = "mlx5_core 0000:3b:00.0: Fatal error 1 detected";
    let at = |date: &str| found(&roce(1), &[&format!("{date} h kernel: {line}")]);
    assert_eq!(at("2026-11-29T00:52:00Z")[0].id, ID, "older than a day");
    assert_eq!(at("2026-11-29T00:54:00Z")[0].id, "mlx5-fatal-error");
    assert_eq!(found(&roce(1), &[line])[0].status, Status::Fail);
}

#[test]
fn a_log_that_could_not_be_read_is_unknown() {
    let machine = roce(1);
    let policy = Policy::default();
    let seen = |log: &Reading<KernelLog>| judge(&Look { log, ..Look::first(&machine, &policy) });
    let denied = seen(&Reading::failed("opening /dev/kmsg: permission denied"));
    assert_eq!(ids(&denied), [(ID, "unknown", "machine")]);
    assert!(denied[0].next_step.contains("/dev/kmsg"));
    assert!(seen(&Reading::Absent).is_empty());
    let part = KernelLog { unread: vec!["not part of this capture".to_owned()], ..KernelLog::default() };
    assert_eq!(ids(&seen(&Reading::Value(part))), [(ID, "unknown", "machine")]);
}

#[test]
fn the_first_event_of_a_chain_is_named_as_its_cause() {
    let findings = found(
        &roce(1),
        &[
            "[  445.937186] mlx5_core 0000:0d:00.0: poll_health:801:(pid 0): device's health compromised - reached miss count",
            "[  445.938212] mlx5_core 0000:0d:00.0: print_health_info:431:(pid 0): Health issue observed, firmware internal error, severity(3) ERROR:",
            "[  446.900000] mlx5_core 0000:0e:00.0: Fatal error 1 detected",
            "[ 1100.000000] mlx5_core 0000:0d:00.0: Fatal error 1 detected",
            "[ 3256.256964]  mlx5e_rx_cq_process_basic_cqe_comp+0x39f/0x3c0 [mlx5_core]",
        ],
    );
    let of = |id: &str, pci: &str| {
        let subject = format!("pci {pci}");
        findings
            .iter()
            .find(|f| f.id == id && f.subject == subject)
            .unwrap_or_else(|| panic!("{findings:#?}"))
    };
    let later = of("mlx5-health-error", "0000:0d:00.0");
    assert!(later.summary.contains("it began with mlx5-health-counter-stuck at 2026-11-30T00:44:05.937Z"));
    assert!(!of("mlx5-health-counter-stuck", "0000:0d:00.0").summary.contains("it began"));
    assert!(!of("mlx5-fatal-error", "0000:0e:00.0").summary.contains("it began"), "another function");
    assert!(!of("mlx5-fatal-error", "0000:0d:00.0").summary.contains("it began"), "eleven minutes later");
    assert_eq!(findings.len(), 4, "a stack frame is context");
}

#[test]
fn how_often_and_how_fast_decide() {
    let corrected = |second: u32| {
        format!(
            "[{second}.0] pcieport 0000:3a:00.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"
        )
    };
    let seen = |seconds: Vec<u32>| {
        let lines: Vec<String> = seconds.into_iter().map(corrected).collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        found(&roce(1), &lines)[0].status
    };
    assert_eq!(seen((0..9).collect()), Status::Ok, "nine in a minute");
    assert_eq!(seen((0..10).collect()), Status::Warn);
    assert_eq!(seen((0..10).map(|i| i * 7).collect()), Status::Ok, "ten in 63 s");
}

#[test]
fn a_bond_map_counts_only_while_a_member_is_down() {
    let line = "mlx5_core 0000:3b:00.0: modify lag map port 1:2 port 2:2";
    let mut machine = roce(1);
    let member = |status: &str| BondMember {
        name: "eth0".to_owned(),
        mii_status: Reading::Value(status.to_owned()),
        link_failures: Reading::Value(1),
        aggregated: Reading::Value(true),
    };
    for (status, expected) in [("up", (ID, "ok", "machine")), ("down", ("mlx5-bond-map", "warn", "mlx5_0/1"))]
    {
        netdev(&mut machine).bond = Reading::Value(Bond {
            mode: Reading::Value("802.3ad".to_owned()),
            members: vec![member(status)],
        });
        assert_eq!(ids(&found(&machine, &[line])), [expected]);
    }
}

#[test]
fn a_slot_is_judged_by_the_rate_of_the_port() {
    let line = "[    8.387840] mlx5_core 0001:43:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x8 link at 0001:42:01.0 (capable of 126.016 Gb/s with 8.0 GT/s PCIe x16 link)";
    assert_eq!(
        ids(&found(&with_address("0001:43:00.0"), &[line])),
        [("pci-bandwidth-limited", "fail", "mlx5_0/1")]
    );
    assert_eq!(ids(&found(&roce(1), &[line])), [("pci-bandwidth-limited", "warn", "pci 0001:43:00.0")]);
    let mut slow = with_address("0001:43:00.0");
    let Reading::Value(devices) = &mut slow.devices else { panic!("no devices") };
    devices[0].ports[0].rate_bps = Reading::Value(50_000_000_000);
    assert_eq!(ids(&found(&slow, &[line])), [(ID, "ok", "machine")]);
}

/// Lines of the public cases, the worst status that they must end in, and the rule that says it (none: no finding of a rule).
type Case = (&'static str, &'static [&'static str], Status, &'static str);

const KERNEL: &[Case] = &[
    (
        "C064",
        &[
            "[14280.445220] mlx5_core 0000:61:00.0: wait_func_handle_exec_timeout:1104:(pid 141183): cmd[22]: CREATE_DCT(0x710) No done completion",
            "[14280.445226] mlx5_core 0000:61:00.0: wait_func:1132:(pid 141181): CREATE_DCT(0x710) timeout. Will cause a leak of a command resource",
        ],
        Status::Fail,
        "mlx5-command-timeout",
    ),
    (
        "C065",
        &[
            "mlx5_core 0000:73:00.0: firmware version: 40.48.1132",
            "mlx5_core 0000:73:00.0: print_health_info: Health issue observed, firmware internal error, severity(3) ERROR:",
            "mlx5_core 0000:73:00.0: print_health_info: synd 0x1: firmware internal error",
            "mlx5_core 0000:73:00.0: print_health_info: ext_synd 0x035e",
            "mlx5_core 0000:73:00.0: poll_health:1151: device's health compromised - reached miss count",
        ],
        Status::Fail,
        "mlx5-firmware-crashed",
    ),
    (
        "C068",
        &[
            "[   22.829549] mlx5_core 0000:6f:00.0: wait_fw_init:211:(pid 8): Waiting for FW pre-initializing, timeout abort in 100s (0x87010000)",
            "[  122.830548] mlx5_core 0000:6f:00.0: wait_fw_init:201:(pid 8): Firmware over 120000 MS in pre-initializing state, aborting",
            "[  122.835105] mlx5_core 0000:6f:00.0: probe_one:1987:(pid 8): mlx5_init_one failed with error code -110",
            "[  122.842813] mlx5_core: probe of 0000:6f:00.0 failed with error -110",
        ],
        Status::Fail,
        "mlx5-firmware-not-started",
    ),
    (
        "C069",
        &[
            "[  143.214547] mlx5_core 468b:00:02.0: wait_fw_init:199:(pid 17): Waiting for FW initialization, timeout abort in 39s (0xffffffff)",
            "[  183.178629] mlx5_core 468b:00:02.0: mlx5_function_setup:1130:(pid 17): Firmware over 120000 MS in pre-initializing state, aborting",
            "[  183.186289] mlx5_core 468b:00:02.0: probe_one:1764:(pid 17): mlx5_init_one failed with error code -16",
        ],
        Status::Fail,
        "mlx5-reads-all-ones",
    ),
    (
        "C072",
        &[
            "kernel log (condensed): 2ERR_QP(0x507) No done completion ... timeout. Will cause a leak of a command resource (about 104 s after the call), device 0000:17:00.1",
        ],
        Status::Warn,
        "mlx5-queue-pair-command-timeout",
    ),
    (
        "C073",
        &[
            "mlx5_core 0000:d2:00.0: mlx5_cmd_out_err:838:(pid 1441871): ACCESS_REG(0x805) op_mod(0x1) failed, status bad resource(0x5), syndrome (0x305684), err(-22)",
        ],
        Status::Ok,
        "mlx5-register-refused",
    ),
    (
        "C074",
        &[
            "mlx5_core 0000:12:00.0: mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the PCIe slot (27W).",
            "mlx5_core 0000:12:00.1: Port module event: module 1, Cable unplugged",
            "nvidia-peermem nv_get_p2p_free_callback:125 ERROR detected invalid context, skipping further processing",
        ],
        Status::Ok,
        "",
    ),
    (
        "C075",
        &[
            "mlx5_core 0000:c1:00.0 eth0: TX timeout on queue: 25, SQ: 0x2bb, CQ: 0x80, SQ Cons: 0x2 SQ Prod: 0x4, usecs since last trans: 16233000",
            "mlx5_core 0000:c1:00.0: mlx5_rsc_dump_trigger:116:(pid 13608): Resource dump: Failed to access err -67",
        ],
        Status::Fail,
        "transmit-timeout",
    ),
    (
        "C079",
        &[
            "Aug 17 06:18:01 node-a systemd-networkd[5398]: ib6: lost carrier",
            "Aug 17 06:18:01 node-a systemd-networkd[5398]: ib6: Gained carrier",
        ],
        Status::Ok,
        "",
    ),
    (
        "C083",
        &[
            "Nov 29 10:15:02 node-a wpa_supplicant[1234]: ens300np0: CTRL-EVENT-EAP-FAILURE EAP authentication failed",
            "Nov 29 10:15:04 node-a kernel: mlx5_core 0000:0c:00.0 ens300np0: Link down",
        ],
        Status::Fail,
        "port-authentication-failed",
    ),
    (
        "C085",
        &[
            "mlx5_core 0000:04:00.1: port_module:247:(pid 0): Port module event[error]: module 1, Cable error, Bus stuck (I2C or data shorted)",
        ],
        Status::Fail,
        "module-bus-stuck",
    ),
    (
        "C086",
        &[
            "mlx5_port_module_event:1131:(pid 0): Port module event[error]: module 0, Cable error, High Temperature",
            "mlx5_core 0000:5c:00.0: Port module event[error]: module 0, Cable error, High Temperature",
        ],
        Status::Fail,
        "module-too-hot",
    ),
    (
        "C133",
        &[
            "mlx5_core: INFO: synd 0x8: unrecoverable hardware error.",
            "NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 0 timed out",
        ],
        Status::Fail,
        "mlx5-hardware-fault",
    ),
];

const APPLICATION: &[Case] = &[
    (
        "C001",
        &["ibvwrap.cc NCCL WARN Call to ibv_modify_qp failed with error Connection timed out"],
        Status::Fail,
        "connect-timed-out",
    ),
    (
        "C003",
        &[
            "NCCL WARN NET/IB : Got completion from peer 192.0.2.17<38560> with error 12, opcode 0, len 0, vendor err 129",
        ],
        Status::Fail,
        "application-transport-retry",
    ),
    (
        "C005",
        &["event: IBV_EVENT_PORT_ERR", "event: IBV_EVENT_GID_CHANGE"],
        Status::Warn,
        "application-gid-event",
    ),
    ("C007", &["wc status=12 vendor_err=0xa"], Status::Fail, "application-transport-retry"),
    (
        "C010",
        &[
            "Device erdma_0 GID 1 not available: Invalid argument [22]",
            "Failed to modify QP to RTS: Invalid argument [22]",
        ],
        Status::Fail,
        "connect-refused-argument",
    ),
    (
        "C014",
        &["ibv_modify_qp failed (errno 19) (Ib failure: No such device)"],
        Status::Fail,
        "connect-no-device",
    ),
    (
        "C015",
        &["misc/ibvwrap.cc NCCL WARN Call to ibv_modify_qp failed with error Network is unreachable"],
        Status::Fail,
        "connect-no-route",
    ),
    ("C020", &["wc: retry count exceeded"], Status::Fail, "application-transport-retry"),
    (
        "C022",
        &["size<=1024: ok", "size>1024: wc REM_INV_REQ_ERR / RETRY_EXC_ERR"],
        Status::Fail,
        "application-transport-retry",
    ),
    ("C026", &["invalid MTU 9000, must be [0, master MTU(1500)]"], Status::Fail, "child-mtu-too-large"),
    (
        "C030",
        &[
            "ib_mlx5_log.c Transport retry count exceeded on mlx5_0:1/RoCE (synd 0x15 vend 0x81 hw_synd 0/0)",
            "DCI QP 0x1510 wqe[0]: SEND s-e [rqpn 0x223a4 rmac 02:00:00:00:00:02 sgix 0 dgid fe80::200:ff:fe00:2 tc 0] [inl len 18]",
        ],
        Status::Fail,
        "ucx-link-local-peer",
    ),
    (
        "C038",
        &[
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=10238881.0",
            "srun: error: node-b: task 13: Out Of Memory",
            "Transport retry count exceeded on mlx5_0:1/IB",
        ],
        Status::Ok,
        "job-out-of-memory",
    ),
    (
        "C040",
        &[
            "ib_mlx5_log.c Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)",
            "RC QP 0x3340 wqe[687]: RDMA_READ s-- [rva 0x7f rkey 0x46c894] [va 0x7f len 68992 lkey 0x640d6d]",
        ],
        Status::Warn,
        "ucx-transport-retry",
    ),
    (
        "C041",
        &[
            "NCCL WARN NET/IB : Got completion from peer fe80::200:ff:fe00:3%ib0<33397> with error 4, opcode 32611, len 32611, vendor err 81 (Send)",
        ],
        Status::Fail,
        "application-protection-error",
    ),
    (
        "C046",
        &[
            "NCCL WARN NET/IB : Got async event : local catastrophic error",
            "NCCL WARN Call to ibv_get_async_event failed",
        ],
        Status::Fail,
        "application-device-fatal",
    ),
    (
        "C071",
        &["Fatal error:  device '*': sys files not found (/sys/class/infiniband/*/ports)"],
        Status::Fail,
        "verbs-device-not-found",
    ),
    (
        "C081",
        &[
            "NCCL WARN NET/IB : Got async event : port error",
            "NCCL WARN NET/IB : Got completion from peer 192.0.2.5 with error 12, vendor err 129",
        ],
        Status::Fail,
        "application-port-error",
    ),
    ("C087", &["IBV_EVENT_PORT_ERR port_num=2"], Status::Ok, "application-port-event"),
    (
        "C092",
        &[
            "ibwarn: mad_rpc_open_port: client_register for mgmt 1 failed",
            "perfquery: iberror: failed: Failed to open '(null)' port '0'",
        ],
        Status::Ok,
        "",
    ),
    ("C098", &["NCCL TRACE: using Socket"], Status::Fail, "collective-over-tcp"),
    (
        "C099",
        &[
            " Did not detect devices ",
            " If device exists, check if driver is up",
            " Unable to find the Infiniband/RoCE device",
        ],
        Status::Fail,
        "verbs-device-not-found",
    ),
    ("C102", &["Failed to open device", "Failed to open device"], Status::Ok, ""),
    ("C104", &["RDMA_CM_EVENT_ADDR_ERROR, error: -19"], Status::Fail, "connect-no-device"),
    (
        "C108",
        &["NCCL INFO Failed to open libibverbs.so[.1]", "NCCL INFO Using network Socket"],
        Status::Fail,
        "verbs-library-missing",
    ),
    (
        "C110",
        &["misc/ibvwrap.cc NCCL WARN Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory"],
        Status::Fail,
        "memory-lock-refused",
    ),
    (
        "C112",
        &["ERROR mlx5_0: ibv_create_cq() failed: Cannot allocate memory."],
        Status::Fail,
        "memory-lock-refused",
    ),
    ("C113", &["mmap(/dev/infiniband/uverbs0) = -1 ENOMEM"], Status::Fail, "memory-lock-refused"),
    (
        "C115",
        &[
            "registering mr #0 with addr:140431182528512 and size:4299161600",
            "registeration failed with errno: Cannot allocate memory",
        ],
        Status::Warn,
        "large-registration-refused",
    ),
];

#[test]
fn the_public_cases_end_in_their_verdict() {
    for (cases, of_programs) in [(KERNEL, false), (APPLICATION, true)] {
        for (name, lines, status, rule) in cases {
            let findings = judged(&roce(1), &Policy::default(), log(lines, of_programs));
            assert_eq!(findings.iter().map(|f| f.status).max(), Some(*status), "{name}: {findings:#?}");
            let named = findings.iter().any(|f| f.id == *rule);
            assert!(rule.is_empty() || named, "{name}: {findings:#?}");
        }
    }
}

#[test]
fn carrier_that_is_lost_again_and_again_fails_though_all_seconds_are_the_same() {
    // Case C079: six losses in five seconds, in a log without years.
    let lines = ["Nov 29 06:18:01 node-a systemd-networkd[5398]: ib6: lost carrier"; 6];
    assert_eq!(ids(&found(&roce(1), &lines)), [("carrier-flapping", "fail", "netdev ib6")]);
    assert_eq!(ids(&found(&roce(1), &lines[..4])), [(ID, "ok", "machine")]);
}

#[test]
fn our_own_echo_is_an_ok_that_says_how_to_end_it() {
    let line = format!(
        "mlx5_core 0000:3b:00.0: mlx5_cmd_out_err:838:(pid {OWN_PID}): ACCESS_REG(0x805) op_mod(0x1) failed, status bad resource(0x5), syndrome (0x305684), err(-22)"
    );
    let findings = found(&roce(1), &[&line]);
    assert_eq!(ids(&findings), [("mlx5-register-own-echo", "ok", "mlx5_0/1"), (ID, "ok", "machine")]);
    assert!(findings[0].next_step.contains("exclude the device"));
}
