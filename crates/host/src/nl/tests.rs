//! The netlink core against hand-made bytes, and against the kernel where that needs no rights.

use super::*;

/// A message as the kernel would send it.
fn message(kind: u16, flags: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&u32::try_from(16 + body.len()).unwrap().to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(&flags.to_ne_bytes());
    bytes.extend_from_slice(&sequence.to_ne_bytes());
    bytes.extend_from_slice(&0_u32.to_ne_bytes());
    bytes.extend_from_slice(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

#[test]
fn the_question_for_dcb_is_the_one_that_dcb_of_iproute2_asks() {
    // `strace dcb pfc show dev va`: RTM_GETDCB (78), REQUEST | ACK, dcbmsg {0, IEEE_GET (21), 0}, DCB_ATTR_IFNAME (1), length 7.
    let sent =
        request(Question::Dcb(DcbQuestion::Ieee), 0, &Writer::default().text(1, "va"), NLM_F_ACK, 0x11);
    let mut expected = vec![28, 0, 0, 0, 78, 0, 5, 0, 0x11, 0, 0, 0, 0, 0, 0, 0];
    expected.extend_from_slice(&[0, 21, 0, 0]);
    expected.extend_from_slice(&[7, 0, 1, 0, b'v', b'a', 0, 0]);
    assert_eq!(sent, expected);
}

#[test]
fn message_types_of_each_subsystem() {
    assert_eq!(Question::Rdma(RdmaQuestion::Devices).message(0), (0x1401, vec![]));
    assert_eq!(Question::Rdma(RdmaQuestion::QueuePairs).message(0), (0x140a, vec![]));
    assert_eq!(Question::Rdma(RdmaQuestion::Statistics).message(0), (0x1411, vec![]));
    assert_eq!(Question::Devlink(DevlinkQuestion::HealthReporters).message(30), (30, vec![52, 1, 0, 0]));
    assert_eq!(Question::Ethtool(EthtoolQuestion::LinkState).message(21), (21, vec![6, 1, 0, 0]));
    assert_eq!(Question::Family.message(21), (16, vec![3, 1, 0, 0]));
}

#[test]
fn answers_end_with_an_acknowledgement_or_the_end_of_the_dump() {
    let attribute = Writer::default().u32(1, 7);
    let body = [&[0, 21, 0, 0], attribute.as_bytes()].concat();
    let acknowledged = [message(78, 0, 3, &body), message(2, 0, 3, &[0; 20])].concat();
    let mut answers = Answers::new(3, 4);
    assert_eq!(answers.take(&acknowledged), Ok(true));
    assert_eq!(answers.found, [attribute.as_bytes()]);

    let mut answers = Answers::new(3, 4);
    assert_eq!(answers.take(&message(78, 2, 3, &body)), Ok(false));
    // A late answer to an earlier question is none of ours.
    assert_eq!(answers.take(&message(2, 0, 2, &(-95_i32).to_ne_bytes())), Ok(false));
    assert_eq!(answers.take(&[message(78, 2, 3, &body), message(3, 2, 3, &[0; 4])].concat()), Ok(true));
    assert_eq!(answers.found.len(), 2);

    let interrupted = message(78, NLM_F_DUMP_INTR, 3, &body);
    assert!(
        matches!(Answers::new(3, 4).take(&interrupted), Err(Refusal::Odd(why)) if why.contains("changed"))
    );
}

#[test]
fn errors_carry_the_kernels_words() {
    let request = message(21, 5, 3, &[6, 1, 0, 0]);
    let words = Writer::default().text(1, "no device matches name");
    let errno = (-19_i32).to_ne_bytes();
    let whole = message(2, NLM_F_ACK_TLVS, 3, &[&errno[..], &request, words.as_bytes()].concat());
    let capped = [&errno[..], &request[..16], words.as_bytes()].concat();
    let capped = message(2, NLM_F_ACK_TLVS | NLM_F_CAPPED, 3, &capped);
    for answer in [whole, capped] {
        let refusal = Answers::new(3, 4).take(&answer).unwrap_err();
        assert_eq!(refusal, Refusal::Errno(Errno::NODEV, "no device matches name".to_owned()));
        assert_eq!(
            refusal.reading::<()>("asking ethtool", NOT_SUPPORTED),
            Reading::Failed(
                "asking ethtool: No such device (os error 19) (no device matches name)".to_owned()
            )
        );
    }
    // A dump that fails on its way says so in its last message.
    let failed = message(3, 2, 3, &(-5_i32).to_ne_bytes());
    assert_eq!(Answers::new(3, 4).take(&failed), Err(Refusal::Errno(Errno::IO, String::new())));
}

#[test]
fn only_the_errors_asked_for_mean_absent() {
    let refusal = Refusal::Errno(Errno::OPNOTSUPP, String::new());
    assert_eq!(refusal.reading::<()>("x", NOT_SUPPORTED), Reading::Absent);
    assert!(matches!(refusal.reading::<()>("x", &[]), Reading::Failed(_)));
    let denied =
        Refusal::Errno(Errno::PERM, String::new()).reading::<()>("reading the module", NOT_SUPPORTED);
    assert!(matches!(denied, Reading::Failed(why) if why.contains("CAP_NET_ADMIN")));
}

#[test]
fn cut_and_random_answers_never_panic() {
    let whole =
        [message(78, 0, 3, &[0, 21, 0, 0, 8, 0, 1, 0, 1, 2, 3, 4]), message(2, 512, 3, &[1; 40])].concat();
    for length in 0..whole.len() {
        let _ = Answers::new(3, 4).take(&whole[..length]);
    }
    let mut seed = 1_u64;
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..seed % 64)
            .map(|_| {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (seed >> 56) as u8 % 24
            })
            .collect();
        seed = seed.wrapping_add(1);
        let _ = Answers::new(0, 4).take(&bytes);
        let _ = words(NLM_F_ACK_TLVS, &bytes);
    }
}

#[test]
fn the_kernel_answers() {
    // The loopback device is in every network namespace.
    let socket = Socket::dcb().expect("rtnetlink is in every kernel");
    let ask = |name: &str| {
        socket.one(Question::Dcb(DcbQuestion::Ieee), &Writer::default().text(1, name)).unwrap_err()
    };
    assert!(matches!(ask("lo"), Refusal::Errno(Errno::OPNOTSUPP, _)));
    assert!(matches!(ask("no-such"), Refusal::Errno(Errno::NODEV, _)));
    let ethtool = Socket::ethtool().expect("the kernel is newer than 5.6");
    assert!(ethtool.family >= 16);
    assert!(matches!(
        ethtool.one(Question::Dcb(DcbQuestion::Ieee), &Writer::default()),
        Err(Refusal::Odd(_))
    ));
    assert!(matches!(
        Socket::generic(Subsystem::Devlink, "no-such-family"),
        Err(Refusal::Errno(Errno::NOENT, _))
    ));
    let links = ethtool
        .all(Question::Ethtool(EthtoolQuestion::LinkState), &Writer::default().nested(1, &Writer::default()));
    assert!(!links.expect("a dump is answered").is_empty());
}

/// Set for the copy of this program that runs inside the namespace.
const INSIDE: &str = "RDMASCOPE_TEST_IN_NAMESPACE";

/// Runs the test called `name` in a new network namespace with the veth pair `va`, `vb` (up) and gives `true` there.
fn with_veth(name: &str) -> bool {
    use std::process::Command;
    if std::env::var_os(INSIDE).is_some() {
        for line in ["link add va type veth peer name vb", "link set va up", "link set vb up"] {
            assert!(
                Command::new("ip").args(line.split(' ')).status().expect("`ip` can be started").success()
            );
        }
        return true;
    }
    let mut command = Command::new("unshare");
    command.arg("--net");
    if !rustix::process::geteuid().is_root() {
        command.args(["--user", "--map-root-user"]);
    }
    let program = std::env::current_exe().expect("a test knows its own program");
    let inside = command.arg(program).args(["--exact", name]).env(INSIDE, "1").status();
    assert!(inside.expect("`unshare` (package util-linux) can be started").success());
    false
}

#[test]
fn a_veth_has_link_modes_and_nothing_that_needs_hardware() {
    if !with_veth("nl::tests::a_veth_has_link_modes_and_nothing_that_needs_hardware") {
        return;
    }
    let socket = Socket::ethtool().unwrap();
    let expected = rdmascope_model::Ethtool {
        // `veth_get_link_ksettings` in `drivers/net/veth.c`.
        speed_mbps: Reading::Value(10_000),
        autonegotiation: Reading::Value(false),
        link: Reading::Value(true),
        link_down_reason: Reading::Absent,
        fec: Reading::Absent,
        pause_rx: Reading::Absent,
        pause_tx: Reading::Absent,
    };
    assert_eq!(ethtool::read(&socket, "va"), expected);
    assert_eq!(module::read(&socket, "va"), Reading::Absent);
    assert_eq!(dcb::read(&Socket::dcb().unwrap(), "va"), Reading::Absent);
    let gone = ethtool::read(&socket, "vx").link;
    assert!(matches!(&gone, Reading::Failed(why) if why.contains("No such device")), "{gone:?}");
    assert!(matches!(dcb::read(&Socket::dcb().unwrap(), "vx"), Reading::Failed(_)));
}

#[test]
fn a_refusal_with_a_number_that_is_no_error_is_odd_and_no_panic() {
    assert_eq!(refused(-19, String::new()), Refusal::Errno(Errno::NODEV, String::new()));
    for code in [i32::MIN, -16_777_216, -4_096, 5] {
        assert!(matches!(refused(code, String::new()), Refusal::Odd(_)), "{code}");
    }
}
