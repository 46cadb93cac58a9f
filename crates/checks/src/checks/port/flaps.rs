//! Did the link go and come back lately, also so briefly that nobody saw it down?

use crate::check::{Check, Look, Settles};
use crate::duty::{Duty, links};
use crate::finding::{is_not_ethernet, netdev_under, ok, port_subject, unknown};
use crate::motion::{Motion, in_words, moved, port_counter};
use crate::{Source, limits};
use rdmascope_model::{Device, Finding, Port, Reading, Status};
use std::time::Duration;

const ID: &str = "link-flaps";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Did the link go and come back lately?",
    meaning: "Each loss of the link, however short, breaks the connections over the port; jobs end with transport retries exceeded.",
    causes: &[
        "a marginal cable, transceiver or connector",
        "the switch port or the switch was restarted",
        "somebody switched the network device off and on",
    ],
    next_steps: &[
        "When: `dmesg -T | grep -iE \"link (up|down)\"`, and the switch's log for the same port.",
        "`ethtool -m NETDEV` (or `mlxlink -d DEVICE -m -c`), then reseat or swap the cable; move it to another switch port.",
    ],
    settles: Settles::AtOnce,
    hard: false,
    limits: &[&limits::FLAPS_WARN_PER_HOUR, &limits::FLAPS_FAIL_PER_HOUR, &limits::FLAPS_FAIL_PER_DAY],
    judge,
};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

/// One counter of losses over both windows.
struct Losses {
    name: &'static str,
    hour: Motion,
    day: Motion,
}

fn judge(look: &Look<'_>) -> Vec<Finding> {
    links(look.now, look.policy)
        .filter(|(_, _, duty)| matches!(duty, Duty::Traffic | Duty::LinkOnly))
        .filter_map(|(device, port, _)| one(look, device, port))
        .collect()
}

fn one(look: &Look<'_>, device: &Device, port: &Port) -> Option<Finding> {
    let subject = port_subject(device, port);
    let losses = counted(look, device, port);
    let most = |window: fn(&Losses) -> &Motion| {
        let known = losses.iter().filter_map(|l| match window(l) {
            Motion::By(count, within) => Some((*count, *within, l.name)),
            _ => None,
        });
        known.max_by_key(|(count, _, _)| *count)
    };
    let (hour, day) = (most(|l| &l.hour), most(|l| &l.day));
    let limit = |limit| u64::from(look.policy.whole(limit));
    let [warn_hour, fail_hour, fail_day] =
        [&limits::FLAPS_WARN_PER_HOUR, &limits::FLAPS_FAIL_PER_HOUR, &limits::FLAPS_FAIL_PER_DAY].map(limit);
    let level = |(count, within, name): (u64, Duration, &'static str), fail, warn| {
        let status = match count {
            count if count >= fail => Status::Fail,
            count if count >= warn => Status::Warn,
            _ => Status::Ok,
        };
        (status, count, within, name)
    };
    let levels = [hour.map(|h| level(h, fail_hour, warn_hour)), day.map(|d| level(d, fail_day, u64::MAX))];
    let worst = levels.into_iter().flatten().max_by_key(|(status, ..)| *status);
    let stuck = losses.iter().find_map(|l| match l.hour {
        Motion::Stuck(at) => Some((l.name, at)),
        _ => None,
    });
    match (worst, stuck) {
        (Some((status, count, within, name)), _) if status != Status::Ok => {
            Some(flapping(subject, port, status, (count, within, name), &losses))
        }
        (_, Some((name, at))) => Some(history(subject, port, name, at)),
        (Some((_, count, within, _)), None) => {
            let summary = format!("the link was lost {} within {}", times(count), in_words(within));
            Some(ok(ID, subject, summary))
        }
        (None, None) => not_counted(subject, &losses, warn_hour),
    }
}

/// Every counter of losses that the port or its network device has. Carrier counters see losses that are shorter than anybody's look.
fn counted(look: &Look<'_>, device: &Device, port: &Port) -> Vec<Losses> {
    let over = |source: &Source, name: &'static str, reading: &Reading<u64>| {
        let [hour, day] = [HOUR, DAY].map(|window| moved(look, source, name, reading, window));
        Losses { name, hour, day }
    };
    let source = Source::Port(device.name.clone(), port.number);
    let mut all = vec![over(&source, "link_downed", &port_counter(port, "link_downed"))];
    let netdev = if is_not_ethernet(port) { None } else { netdev_under(look.now, port).ok() };
    if let Some((name, netdev)) = netdev {
        let source = Source::Netdev(name.to_owned());
        let physical = match &netdev.statistics {
            Reading::Value(all) => {
                all.get("link_down_events_phy").map_or(Reading::Absent, |v| Reading::Value(*v))
            }
            Reading::Absent => Reading::Absent,
            Reading::Failed(why) => Reading::Failed(why.clone()),
        };
        all.push(over(&source, "link_down_events_phy", &physical));
        all.push(over(&source, "carrier_down_count", &netdev.carrier_down_count.clone().map(u64::from)));
        let mut changes = over(&source, "carrier_changes", &netdev.carrier_changes.clone().map(u64::from));
        // A loss and a return are two changes.
        for moved in [&mut changes.hour, &mut changes.day] {
            match moved {
                Motion::By(count, _) | Motion::AtMost(count, _) => *count /= 2,
                Motion::NotThere | Motion::Unread(_) | Motion::Stuck(_) => {}
            }
        }
        all.push(changes);
    }
    all.retain(|l| l.hour != Motion::NotThere);
    all
}

/// None of the counters tells how it moved.
fn not_counted(subject: String, losses: &[Losses], warn: u64) -> Option<Finding> {
    let at_most = losses.iter().filter_map(|l| match &l.hour {
        Motion::AtMost(total, why) => Some((*total, l.name, why)),
        _ => None,
    });
    if let Some((total, name, why)) = at_most.max_by_key(|(total, _, _)| *total) {
        if total < warn {
            let summary = format!("the link was lost {} since it is counted ({name})", times(total));
            return Some(ok(ID, subject, summary));
        }
        let mut found =
            unknown(ID, subject, &format!("when the link was lost ({name} = {total} in all)"), why);
        found.next_step =
            "Look again after a while (the agent does): only a second look tells how fast it rises."
                .to_owned();
        found.cause = "a single look tells how often, not when".to_owned();
        return Some(found);
    }
    let unread = losses.iter().find_map(|l| match &l.hour {
        Motion::Unread(why) => Some((l.name, why)),
        _ => None,
    });
    unread.map(|(name, why)| unknown(ID, subject, &format!("the counter of lost links ({name})"), why))
}

fn flapping(
    subject: String,
    port: &Port,
    status: Status,
    (count, within, name): (u64, Duration, &str),
    losses: &[Losses],
) -> Finding {
    let rose = |wanted: &str| {
        losses.iter().find(|l| l.name == wanted).and_then(|l| match l.day {
            Motion::By(count, _) => Some(count),
            _ => None,
        })
    };
    let by_hand = rose("link_down_events_phy") == Some(0) && name.starts_with("carrier");
    let cause = if by_hand {
        "this host: the carrier went although the physical link did not; somebody, a network manager or the driver switched the device \
         off and on"
    } else {
        "the cable, its transceivers or the switch port: the link itself went and came back"
    };
    let netdev = port.netdev.value().map_or("NETDEV", String::as_str);
    let evidence = losses.iter().filter_map(|l| match l.day {
        Motion::By(count, within) => {
            Some(format!("losses by {} within {} = {count}", l.name, in_words(within)))
        }
        _ => None,
    });
    Finding {
        id: ID.into(),
        status,
        subject,
        summary: format!("the link was lost {} within {} ({name})", times(count), in_words(within)),
        cause: cause.to_owned(),
        next_step: format!(
            "When: `dmesg -T | grep -iE 'link (up|down)'` and the switch's log; then `ethtool -m {netdev}` (or `mlxlink -m -c`), reseat \
             or swap the cable, try another switch port."
        ),
        evidence: evidence.collect(),
    }
}

/// The counter cannot rise any more: what it says of the past is all that is left.
fn history(subject: String, port: &Port, name: &str, at: u64) -> Finding {
    Finding {
        id: ID.into(),
        status: Status::Warn,
        subject,
        summary: format!("a history of lost links: {name} stands at its maximum of {at}, further losses are not counted"),
        cause: "the link was lost at least that often since the counters were reset; whether it still is, nobody can tell".to_owned(),
        next_step: format!(
            "See the kernel log and the subnet manager's or the switch's log for recent losses; reset the counter by hand so that it \
             counts again (`perfquery -R LID {}`) and look again after an hour.",
            port.number
        ),
        evidence: vec![format!("{name} = {at}")],
    }
}

fn times(count: u64) -> String {
    match count {
        0 => "not once".to_owned(),
        1 => "once".to_owned(),
        count => format!("{count} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Past, Policy};
    use rdmascope_fixtures::snapshot::{infiniband, roce};
    use rdmascope_model::{Mono, Netdev, Snapshot};

    fn netdev(machine: &mut Snapshot) -> &mut Netdev {
        let Reading::Value(netdevs) = &mut machine.netdevs else { panic!("no netdevs") };
        netdevs.get_mut("eth0").unwrap()
    }

    fn port_of(machine: &mut Snapshot) -> &mut Port {
        let Reading::Value(devices) = &mut machine.devices else { panic!("no devices") };
        &mut devices[0].ports[0]
    }

    /// The machine after so many minutes in which `change` was done.
    fn after(minutes: u64, before: &Snapshot, change: impl FnOnce(&mut Snapshot)) -> Finding {
        let mut past = Past::new();
        past.observe(before, Mono(1));
        let mut now = before.clone();
        change(&mut now);
        past.observe(&now, Mono(1 + minutes * 60_000_000_000));
        let policy = Policy::default();
        judge(&Look { past: &past, ..Look::first(&now, &policy) }).remove(0)
    }

    #[test]
    fn losses_within_an_hour_and_a_day() {
        let lost = |minutes, count: u32| {
            after(minutes, &roce(1), |machine| {
                netdev(machine).carrier_down_count = Reading::Value(1 + count);
                netdev(machine).carrier_changes = Reading::Value(2 + 2 * count);
            })
        };
        assert_eq!(
            (lost(30, 2).status, lost(30, 3).status, lost(30, 5).status),
            (Status::Ok, Status::Warn, Status::Fail)
        );
        // Nine within a day are no fault; ten are. How many of them lie within the last hour is not known after one look a day.
        assert_eq!((lost(23 * 60, 9).status, lost(23 * 60, 10).status), (Status::Ok, Status::Fail));
        assert!(lost(30, 3).summary.starts_with("the link was lost 3 times within 30 min"));
        assert!(lost(30, 3).cause.starts_with("this host"), "the physical link did not go");
    }

    #[test]
    fn bounces_that_only_the_carrier_counter_saw() {
        let found = after(10, &roce(1), |machine| {
            netdev(machine).carrier_down_count = Reading::Absent;
            netdev(machine).carrier_changes = Reading::Value(2 + 10);
        });
        assert_eq!((found.status, found.summary.contains("5 times")), (Status::Fail, true));
        let found = after(10, &roce(1), |machine| {
            let Reading::Value(all) = &mut netdev(machine).statistics else { panic!("no statistics") };
            all.insert("link_down_events_phy".into(), 4);
        });
        assert_eq!(found.status, Status::Warn);
        assert!(found.cause.starts_with("the cable"));
    }

    /// C124: link_downed stands at 255 on an H100 node; no new losses can be counted, and that is not "no losses".
    #[test]
    fn c124_a_saturated_counter_is_a_history_of_flaps() {
        let mut machine = infiniband(1);
        port_of(&mut machine).counters.insert("link_downed".into(), Reading::Value(255));
        let found = judge(&Look::first(&machine, &Policy::default())).remove(0);
        assert_eq!(found.status, Status::Warn);
        assert!(found.summary.contains("link_downed stands at its maximum of 255"));
        assert_eq!(after(30, &machine, |_| {}).status, Status::Warn);
    }

    #[test]
    fn a_single_look_knows_what_cannot_have_been() {
        let once = |value: Reading<u64>| {
            let mut machine = infiniband(1);
            port_of(&mut machine).counters.insert("link_downed".into(), value);
            judge(&Look::first(&machine, &Policy::default())).remove(0).status
        };
        assert_eq!(once(Reading::Value(2)), Status::Ok);
        assert_eq!(once(Reading::Value(40)), Status::Unknown);
        assert_eq!(once(Reading::failed("EINVAL")), Status::Unknown);
        assert_eq!(judge(&Look::first(&roce(1), &Policy::default()))[0].status, Status::Ok);
    }
}
