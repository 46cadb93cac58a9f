//! Is the PCI Express link as wide and fast as it could be, and enough for the port?

use super::{Functions, bridges};
use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::manifest::PortRole;
use crate::verdict::Verdict;
use rdmascope_model::{Device, Finding, Function, LinkLayer, PciFunction, PciLink, Port, PortState, Reading};

const ID: &str = "pci-link";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is the PCI Express link as wide and fast as both its ends can do, and enough for the port?",
    meaning: "A card that trained at half its lanes gives half its bandwidth, and pauses the switch: it slows down others too.",
    causes: &[
        "the card sits badly in its slot, or the riser has fewer lanes",
        "dirt or damage on the contacts",
        "a setting of the BIOS (bifurcation, speed)",
    ],
    next_steps: &[
        "`lspci -vv -s ADDRESS | grep -e LnkCap -e LnkSta`, for the card and each bridge above it (`lspci -t`).",
        "Reseat the card; try another slot; then the riser.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let devices = look.now.devices.value().into_iter().flatten();
    devices.filter(|device| look.policy.judges(device)).filter_map(|device| one(look, device)).collect()
}

fn one(look: &Look<'_>, device: &Device) -> Option<Finding> {
    let of_card = !matches!(
        device.function,
        Reading::Value(
            Function::Virtual { .. } | Function::Representor | Function::Management | Function::Software
        )
    );
    let expected = look.policy.manifest.of(device, None);
    if !of_card || expected.role == Some(PortRole::Management) {
        return None;
    }
    let address = match &device.pci_address {
        Reading::Value(address) => address,
        Reading::Absent => return None,
        failed => return Some(unknown(ID, device.name.clone(), "the PCI address", why(failed))),
    };
    let subject = format!("pci {address}");
    let all = match &look.now.pci {
        Reading::Value(all) => all,
        Reading::Absent => return None,
        failed => return Some(unknown(ID, subject, "the PCI functions", why(failed))),
    };
    let Some(card) = all.get(address) else {
        return Some(unknown(ID, subject, "the PCI function", "it is not in the list of functions"));
    };
    // A virtual function has no link of its own.
    if card.physical_function.value().is_some() {
        return None;
    }
    let virtual_machine = look.now.system.virtual_machine.value() == Some(&true);
    Some(judge_card(all, (address, card), device, expected.pci_width, virtual_machine))
}

/// A link that is in use.
#[derive(Clone, Copy)]
struct Use {
    mts: u32,
    lanes: u8,
}

impl Use {
    /// Bits per second after the line encoding: 8b/10b up to 5 GT/s, 128b/130b up to 32 GT/s, none from 64 GT/s on
    /// (PCI Express Base Specification, 4.2).
    fn bps(self) -> u64 {
        let raw = u64::from(self.mts) * 1_000_000 * u64::from(self.lanes);
        match self.mts {
            0..=5_000 => raw / 10 * 8,
            5_001..=32_000 => raw / 130 * 128,
            _ => raw,
        }
    }

    fn shown(self) -> String {
        format!("{} GT/s x{}", f64::from(self.mts) / 1e3, self.lanes)
    }
}

/// What a link runs at; nothing where there is none to speak of: a width of 0, or the 2.5 GT/s x1 of a hypervisor's bridge.
fn in_use(link: &PciLink, virtual_machine: bool) -> Option<Use> {
    let found = Use { mts: *link.speed_mts.value()?, lanes: *link.width.value()? };
    let invented = found.lanes == 0 || (virtual_machine && found.mts <= 2_500 && found.lanes == 1);
    (!invented).then_some(found)
}

fn judge_card(
    all: &Functions,
    (address, card): (&str, &PciFunction),
    device: &Device,
    lanes_expected: Option<u8>,
    virtual_machine: bool,
) -> Finding {
    let subject = format!("pci {address}");
    for failed in [card.link.speed_mts.as_ref().map(|_| ()), card.link.width.as_ref().map(|_| ())] {
        if let Reading::Failed(why) = failed {
            return unknown(ID, subject, "the PCI Express link", &why);
        }
    }
    let Some(now) = in_use(&card.link, virtual_machine) else {
        return ok(ID, subject, "no PCI Express link that could be judged: a virtual one".to_owned());
    };
    let above = if virtual_machine { Vec::new() } else { bridges(all, address) };
    let path = above.iter().filter_map(|(at, bridge)| Some((*at, in_use(&bridge.link, virtual_machine)?)));
    let path: Vec<(&str, Use)> = [(address, now)].into_iter().chain(path).collect();
    let (narrowest, slowest) =
        path.iter().min_by_key(|(_, used)| used.bps()).copied().unwrap_or((address, now));
    let needed = needed(device);
    let mut evidence: Vec<String> =
        path.iter().map(|(at, used)| format!("{at} = {}", used.shown())).collect();
    evidence.extend(needed.map(|bps| format!("port rate = {} Gb/s", bps / 1_000_000_000)));
    let gbps = |bps: u64| bps as f64 / 1e9;
    let next = format!(
        "`lspci -vv -s {narrowest} | grep -e LnkCap -e LnkSta`; reseat {} ({address}), try another slot, then the riser.",
        device.name
    );
    let possible = possible(card, above.first().map(|(_, bridge)| *bridge));
    let narrow = possible.lanes.is_some_and(|lanes| now.lanes < lanes);
    let slow = possible.mts.is_some_and(|mts| now.mts < mts);
    let verdict = if let Some(rate) = needed.filter(|rate| slowest.bps() < *rate) {
        Verdict::fail(
            format!(
                "{:.1} Gb/s of PCI Express for a port of {:.0} Gb/s: limited by {} at {narrowest}",
                gbps(slowest.bps()),
                gbps(rate),
                slowest.shown()
            ),
            "this host: the slot, the riser or how the card sits in it",
            next,
        )
    } else if let Some(lanes) = lanes_expected.filter(|lanes| now.lanes < *lanes) {
        Verdict::fail(
            format!("{} lanes in use, {lanes} expected", now.lanes),
            "this host: how the card sits in its slot, or the riser",
            next,
        )
    } else if narrow || slow {
        let best = Use { mts: possible.mts.unwrap_or(now.mts), lanes: possible.lanes.unwrap_or(now.lanes) };
        Verdict::warn(
            format!("the link runs at {}, both ends can do {}", now.shown(), best.shown()),
            "this host: the card does not sit well, or a setting of the BIOS; enough for the port for now",
            next,
        )
    } else {
        let summary = format!("{}: {:.0} Gb/s", now.shown(), gbps(slowest.bps()));
        return Finding { evidence, ..ok(ID, subject, summary) };
    };
    verdict.finding(ID, subject, evidence)
}

/// Most that both ends of a link can do.
struct Possible {
    mts: Option<u32>,
    lanes: Option<u8>,
}

fn possible(card: &PciFunction, above: Option<&PciFunction>) -> Possible {
    let ends = || [Some(&card.link), above.map(|bridge| &bridge.link)].into_iter().flatten();
    Possible {
        mts: ends().filter_map(|link| link.speed_max_mts.value().copied()).filter(|mts| *mts > 0).min(),
        lanes: ends().filter_map(|link| link.width_max.value().copied()).filter(|lanes| *lanes > 0).min(),
    }
}

/// Rate of the device's fastest port that is active, after the line encoding: what a port that is down says of its rate means
/// nothing.
fn needed(device: &Device) -> Option<u64> {
    let active = device.ports.iter().filter(|port| port.state == Reading::Value(PortState::Active));
    active.filter_map(data_rate).max()
}

/// Rates of InfiniBand at 2.5, 5 and 10 Gb/s a lane (SDR, DDR, QDR), one or four lanes wide: 8b/10b takes a fifth of them (InfiniBand
/// Architecture Specification, volume 2, 5.2). FDR10 has the rate of QDR and loses next to nothing; it is rare, and taken for QDR.
const CODED_8B10B_BPS: [u64; 5] =
    [2_500_000_000, 5_000_000_000, 10_000_000_000, 20_000_000_000, 40_000_000_000];

fn data_rate(port: &Port) -> Option<u64> {
    let rate = *port.rate_bps.value()?;
    let coded = port.link_layer == Reading::Value(LinkLayer::InfiniBand) && CODED_8B10B_BPS.contains(&rate);
    Some(if coded { rate / 10 * 8 } else { rate })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::manifest::{Expectation, Manifest};
    use crate::testing::{device, first, with};
    use rdmascope_model::{Snapshot, Status};

    const CARD: &str = "0000:3b:00.0";
    const BRIDGE: &str = "0000:3a:00.0";

    fn link<'a>(m: &'a mut Snapshot, address: &str) -> &'a mut PciLink {
        let Reading::Value(all) = &mut m.pci else { panic!("no PCI") };
        &mut all.get_mut(address).unwrap().link
    }

    fn set(m: &mut Snapshot, address: &str, mts: u32, lanes: u8) {
        link(m, address).speed_mts = Reading::Value(mts);
        link(m, address).width = Reading::Value(lanes);
    }

    #[test]
    fn c051_eight_lanes_are_too_few_for_100_gigabits() {
        let found = first(&CHECK, |m| {
            set(m, CARD, 8_000, 16);
            set(m, BRIDGE, 8_000, 8);
        })
        .remove(0);
        assert_eq!(found.status, Status::Fail);
        assert!(
            found.summary.starts_with("63.0 Gb/s of PCI Express for a port of 100 Gb/s"),
            "{}",
            found.summary
        );
        assert!(found.summary.ends_with("8 GT/s x8 at 0000:3a:00.0"), "{}", found.summary);
    }

    #[test]
    fn a_qdr_port_carries_32_gigabits_and_an_ethernet_one_all_40() {
        let card = |layer: LinkLayer| {
            first(&CHECK, |m| {
                for address in [CARD, BRIDGE] {
                    let (link, lanes) = (link(m, address), Reading::Value(8));
                    (link.speed_mts, link.speed_max_mts) = (Reading::Value(5_000), Reading::Value(5_000));
                    (link.width, link.width_max) = (lanes.clone(), lanes);
                }
                device(m).ports[0].rate_bps = Reading::Value(40_000_000_000);
                device(m).ports[0].link_layer = Reading::Value(layer.clone());
            })
            .remove(0)
        };
        assert_eq!(card(LinkLayer::InfiniBand).status, Status::Ok);
        let ethernet = card(LinkLayer::Ethernet);
        assert!(
            ethernet.summary.starts_with("32.0 Gb/s of PCI Express for a port of 40 Gb/s"),
            "{}",
            ethernet.summary
        );
    }

    #[test]
    fn c054_virtual_functions_and_bridges_are_not_judged() {
        let vm = |m: &mut Snapshot| m.system.virtual_machine = Reading::Value(true);
        let found = first(&CHECK, |m| {
            vm(m);
            set(m, CARD, 32_000, 0);
        });
        assert_eq!(found[0].status, Status::Ok);
        let found = first(&CHECK, |m| {
            vm(m);
            set(m, BRIDGE, 2_500, 1);
        });
        assert_eq!(found[0].status, Status::Ok);
        let of = Reading::Absent;
        assert!(
            first(&CHECK, |m| device(m).function = Reading::Value(Function::Virtual { of: of.clone() }))
                .is_empty()
        );
    }

    #[test]
    fn c061_half_the_lanes_without_need_of_them() {
        let found = first(&CHECK, |m| {
            set(m, CARD, 8_000, 8);
            // The port waits for its subnet manager: its rate says nothing.
            device(m).ports[0].state = Reading::Value(PortState::Init);
        })
        .remove(0);
        assert_eq!(found.status, Status::Warn);
        assert!(found.summary.contains("8 GT/s x8, both ends can do 16 GT/s x16"), "{}", found.summary);
    }

    #[test]
    fn a_fast_card_in_a_slower_slot_is_as_good_as_it_gets() {
        let found = first(&CHECK, |m| link(m, CARD).speed_max_mts = Reading::Value(32_000));
        assert_eq!(found[0].status, Status::Ok);
    }

    #[test]
    fn the_manifests_width_and_what_cannot_be_read() {
        let row = Expectation { device: "*".into(), pci_width: Some(16), ..Expectation::default() };
        let policy = Policy { manifest: Manifest { rows: vec![row] }, ..Policy::default() };
        assert_eq!(with(&CHECK, &policy, |m| set(m, CARD, 16_000, 8))[0].status, Status::Fail);
        assert_eq!(first(&CHECK, |m| set(m, CARD, 16_000, 8))[0].status, Status::Warn);
        assert_eq!(
            first(&CHECK, |m| link(m, CARD).width = Reading::failed("EIO"))[0].status,
            Status::Unknown
        );
        assert_eq!(first(&CHECK, |m| m.pci = Reading::failed("EIO"))[0].status, Status::Unknown);
    }

    #[test]
    fn encodings() {
        let gbps = |mts, lanes| Use { mts, lanes }.bps() / 1_000_000;
        // 4 GB/s of the second generation, 63.0 and 252.1 Gb/s as the kernel prints them.
        assert_eq!((gbps(5_000, 8), gbps(8_000, 8), gbps(16_000, 16)), (32_000, 63_015, 252_061));
    }
}
