//! Is forward error correction on where the speed needs it, and as on the machine's other ports?

use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown};
use crate::limits;
use crate::verdict::Verdict;
use crate::wires::{Wire, each_wire, wires};
use rdmascope_model::{Finding, Reading};
use std::collections::BTreeMap;

const ID: &str = "fec";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is forward error correction (FEC) on, and the same as on the machine's other ports?",
    meaning: "From 25 Gb/s a lane on cables make bit errors in health; without FEC each one is a lost packet.",
    causes: &[
        "set by hand at one end (`ethtool --set-fec`), or a cable that both ends take for another kind",
    ],
    next_steps: &[
        "`ethtool --show-fec NETDEV` here, on a good port, and the same at the switch; `ethtool --set-fec NETDEV encoding auto`.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&limits::FEC_WARN_FROM_MBPS],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    let mut used: BTreeMap<(u32, String), usize> = BTreeMap::new();
    for wire in wires(look).into_iter().flatten() {
        if let Some(kind) = kind(&wire) {
            *used.entry(kind).or_default() += 1;
        }
    }
    each_wire(look, ID, "FEC", |wire| one(look, wire, &used).into_iter().collect())
}

/// Speed and FEC of a link that is up.
fn kind(wire: &Wire<'_>) -> Option<(u32, String)> {
    let ethtool = &wire.netdev.ethtool;
    let up = ethtool.link.value() != Some(&false);
    up.then(|| Some((*ethtool.speed_mbps.value()?, ethtool.fec.value()?.to_ascii_lowercase()))).flatten()
}

fn one(look: &Look<'_>, wire: &Wire<'_>, used: &BTreeMap<(u32, String), usize>) -> Option<Finding> {
    let name = wire.name;
    if let Reading::Failed(why) = &wire.netdev.ethtool.fec {
        return Some(unknown(ID, wire.subject(), "FEC", why));
    }
    if let Reading::Failed(why) = &wire.netdev.ethtool.speed_mbps {
        return Some(unknown(ID, wire.subject(), "the speed", why));
    }
    let (speed, fec) = kind(wire)?;
    let evidence = vec![format!("fec = {fec}"), format!("speed = {speed} Mb/s")];
    let count = |kind: &str| used.get(&(speed, kind.to_owned())).copied().unwrap_or(0);
    let usual = used.iter().filter(|((s, _), _)| *s == speed).max_by_key(|(_, count)| **count);
    let next = format!(
        "`ethtool --show-fec {name}`, the same at the switch port; `ethtool --set-fec {name} encoding auto`."
    );
    let off = ["off", "none"].contains(&fec.as_str());
    let verdict = if off && f64::from(speed) >= look.policy.limit(&limits::FEC_WARN_FROM_MBPS) {
        Verdict::warn(
            format!("FEC is off at {} Gb/s", speed / 1000),
            "a setting of this port or of the switch port; bit errors that FEC would mend are lost packets",
            next,
        )
    } else {
        match usual {
            Some(((_, other), most)) if *most > count(&fec) => Verdict::warn(
                format!("FEC is {fec} here and {other} on {most} other ports of the same speed"),
                "a setting of this port, or a cable of another kind",
                next,
            ),
            _ => return Some(Finding { evidence, ..ok(ID, wire.subject(), format!("FEC is {fec}")) }),
        }
    };
    Some(wire.finding(ID, verdict, evidence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Policy;
    use crate::testing::{eth0, first, netdev};
    use rdmascope_fixtures::snapshot::roce;
    use rdmascope_model::Status;

    #[test]
    fn off_at_a_speed_that_needs_it() {
        assert_eq!(
            first(&CHECK, |m| eth0(m).ethtool.fec = Reading::Value("Off".into()))[0].status,
            Status::Warn
        );
        let slow = first(&CHECK, |m| {
            eth0(m).ethtool.fec = Reading::Value("Off".into());
            eth0(m).ethtool.speed_mbps = Reading::Value(10_000);
        });
        assert_eq!(slow[0].status, Status::Ok);
        assert!(first(&CHECK, |m| eth0(m).ethtool.fec = Reading::Absent).is_empty());
    }

    #[test]
    fn unlike_the_others() {
        let mut machine = roce(3);
        netdev(&mut machine, "eth1").ethtool.fec = Reading::Value("BaseR".into());
        let found = judge(&Look::first(&machine, &Policy::default()));
        let statuses: Vec<_> = found.iter().map(|f| f.status).collect();
        assert_eq!(statuses, [Status::Ok, Status::Warn, Status::Ok]);
    }
}
