//! Is there a transceiver or cable, and is it well?

use crate::check::{Check, Look, Settles};
use crate::finding::{ok, unknown, why};
use crate::limits;
use crate::verdict::{Verdict, shown};
use crate::watch::{HOUR, Seen};
use crate::wires::{Wire, each_wire};
use rdmascope_model::{Finding, Function, Module, Reading};

const ID: &str = "module";

pub(crate) const CHECK: Check = Check {
    id: ID,
    question: "Is there a transceiver or cable in the port, and is it well?",
    meaning: "A module that is missing, too hot or receives too little light takes the link down or makes it lose packets.",
    causes: &["nothing is plugged in", "bad airflow, a dirty connector, a bent fibre, a dying laser"],
    next_steps: &[
        "`ethtool -m NETDEV`; `ethtool NETDEV`; reseat or swap the module; look at the same values on the switch.",
    ],
    settles: Settles::AfterDebounce,
    hard: false,
    limits: &[&limits::MODULE_TEMPERATURE_MARGIN_MC, &limits::MODULE_POWER_MARGIN_RATIO],
    judge,
};

fn judge(look: &Look<'_>) -> Vec<Finding> {
    each_wire(look, ID, "the module", |wire| one(look, wire).into_iter().collect())
}

fn one(look: &Look<'_>, wire: &Wire<'_>) -> Option<Finding> {
    let ethtool = &wire.netdev.ethtool;
    let mut evidence = Vec::new();
    let mut problems: Vec<Verdict> = events(look, wire).into_iter().collect();
    match &wire.netdev.module {
        Reading::Value(module) => {
            evidence.push(format!("module = {} {}", module.identifier, module.vendor));
            evidence.push(shown("temperature m°C", &module.temperature_mc));
            evidence.push(shown("temperature alarm m°C", &module.temperature_alarm_mc));
            problems.extend(temperature(look, wire.name, module));
            problems.extend(light(look, wire.name, module));
        }
        Reading::Absent if ethtool.link == Reading::Value(false) && is_card(wire) => problems.push(Verdict::fail(
            format!("no module or cable in the port of {}", wire.name),
            "nothing is plugged in, or the module does not answer",
            format!("Plug in the module or cable; `ethtool {0}`, `ethtool -m {0}`; a port that is meant to be empty: `down: true` in the manifest.", wire.name),
        )),
        Reading::Absent => {}
        failed if problems.is_empty() => return Some(unknown(ID, wire.subject(), "the module", why(failed))),
        Reading::Failed(_) => {}
    }
    if let (Reading::Value(false), Reading::Value(reason)) = (&ethtool.link, &ethtool.link_down_reason) {
        evidence.push(format!("link down reason = {reason}"));
        if problems.is_empty() {
            problems.push(Verdict::fail(
                format!("no link on {}: {reason}", wire.name),
                "the cable, the transceiver or the other end, as the adapter says",
                format!("`ethtool {0}`, `ethtool -m {0}`, and the same at the switch port.", wire.name),
            ));
        }
    }
    problems.sort_by_key(|problem| std::cmp::Reverse(problem.status));
    let mut problems = problems.into_iter();
    let Some(worst) = problems.next() else {
        if let Some(why) = wire.netdev.module.value().and_then(unread) {
            return Some(unknown(ID, wire.subject(), "a part of the module's values", &why));
        }
        let summary = match &wire.netdev.module {
            Reading::Value(module) => format!("{} is well", module.identifier),
            _ => "no module that could be asked".to_owned(),
        };
        return Some(Finding { evidence, ..ok(ID, wire.subject(), summary) });
    };
    evidence.extend(problems.map(|also| format!("also: {}", also.summary)));
    Some(wire.finding(ID, worst, evidence))
}

/// Why a value of the module could not be read.
fn unread(module: &Module) -> Option<String> {
    let parts = [
        module.temperature_mc.as_ref().map(|_| ()),
        module.temperature_alarm_mc.as_ref().map(|_| ()),
        module.rx_power_nw.as_ref().map(|_| ()),
        module.rx_power_alarm_nw.as_ref().map(|_| ()),
    ];
    parts.into_iter().find_map(|part| if let Reading::Failed(why) = part { Some(why) } else { None })
}

/// Virtual and software functions have no module of their own.
fn is_card(wire: &Wire<'_>) -> bool {
    !matches!(wire.device.function, Reading::Value(Function::Virtual { .. } | Function::Software))
}

fn temperature(look: &Look<'_>, name: &str, module: &Module) -> Option<Verdict> {
    let (now, alarm) = (*module.temperature_mc.value()?, *module.temperature_alarm_mc.value()?);
    let (cause, next) = (
        "this host: airflow, a fan, or a module in a hot place",
        format!(
            "`ethtool -m {name} | grep -i temperature`; fans and inlet temperature of the node; swap the module where its neighbours are cool."
        ),
    );
    // Modules without thresholds give 0.
    if alarm <= 0 {
        return None;
    }
    let summary = format!(
        "the module has {:.1} °C, its alarm is at {:.1} °C",
        f64::from(now) / 1e3,
        f64::from(alarm) / 1e3
    );
    if now >= alarm {
        return Some(Verdict::fail(summary, cause, next));
    }
    let margin = look.policy.limit(&limits::MODULE_TEMPERATURE_MARGIN_MC);
    (f64::from(now) > f64::from(alarm) - margin).then(|| Verdict::warn(summary, cause, next))
}

fn light(look: &Look<'_>, name: &str, module: &Module) -> Option<Verdict> {
    let (lanes, alarm) = (module.rx_power_nw.value()?, *module.rx_power_alarm_nw.value()?);
    let (lane, power) = lanes.iter().enumerate().min_by_key(|(_, power)| **power)?;
    let summary = format!(
        "lane {} receives {:.3} mW, the low alarm is at {:.3} mW",
        lane + 1,
        *power as f64 / 1e6,
        alarm as f64 / 1e6
    );
    let cause = "the fibre, its connectors, or the laser of the other end";
    let next = format!(
        "`ethtool -m {name} | grep -i power` here and at the switch; clean the connectors; swap the fibre, then the other end's module."
    );
    if *power < alarm {
        return Some(Verdict::fail(summary, cause, next));
    }
    let near = alarm as f64 * look.policy.limit(&limits::MODULE_POWER_MARGIN_RATIO);
    ((*power as f64) < near).then(|| Verdict::warn(summary, cause, next))
}

/// Events that the driver counted within the last hour.
fn events(look: &Look<'_>, wire: &Wire<'_>) -> Option<Verdict> {
    let names = ["module_bad_shorted", "module_bus_stuck", "module_high_temp", "module_unplug"];
    let Seen::Moved(moved) = wire.seen(look, &names, HOUR) else { return None };
    let (name, count) = names.into_iter().map(|name| (name, moved.of(name))).find(|(_, count)| *count > 0)?;
    let what = match name {
        "module_bad_shorted" => "a shorted cable",
        "module_bus_stuck" => "a module that does not answer (its bus is stuck)",
        "module_high_temp" => "a module that is too hot",
        _ => "a module that was pulled out",
    };
    let summary = format!("the driver reported {what}, {count} times within the last hour");
    let next =
        format!("`dmesg -T | grep -i 'module'`, `ethtool -m {}`; reseat or swap the module.", wire.name);
    let cause = "the module or cable, or somebody at the rack";
    Some(match name {
        "module_unplug" => Verdict::warn(summary, cause, next),
        _ => Verdict::fail(summary, cause, next),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{eth0, first, statistics_rose};
    use rdmascope_model::{Snapshot, Status};

    fn module(machine: &mut Snapshot) -> &mut Module {
        let Reading::Value(module) = &mut eth0(machine).module else { panic!("no module") };
        module
    }

    #[test]
    fn c089_no_module() {
        let found = first(&CHECK, |m| {
            eth0(m).module = Reading::Absent;
            eth0(m).ethtool.link = Reading::Value(false);
            eth0(m).ethtool.speed_mbps = Reading::Absent;
        })
        .remove(0);
        assert_eq!(found.status, Status::Fail);
        assert!(found.summary.starts_with("no module or cable"), "{}", found.summary);
        // A virtual function has no module and a link.
        assert_eq!(first(&CHECK, |m| eth0(m).module = Reading::Absent)[0].status, Status::Ok);
    }

    #[test]
    fn temperature_is_judged_by_the_modules_own_alarm() {
        let at = |mc| first(&CHECK, |m| module(m).temperature_mc = Reading::Value(mc))[0].status;
        assert_eq!((at(69_000), at(71_000), at(75_000)), (Status::Ok, Status::Warn, Status::Fail));
    }

    #[test]
    fn the_darkest_lane_counts() {
        let at = |nw| {
            first(&CHECK, |m| {
                module(m).rx_power_nw = Reading::Value(vec![900_000, nw]);
                module(m).rx_power_alarm_nw = Reading::Value(100_000);
            })
            .remove(0)
        };
        assert_eq!((at(200_000).status, at(110_000).status), (Status::Ok, Status::Warn));
        assert_eq!(at(20_000).status, Status::Fail);
        assert!(at(20_000).summary.starts_with("lane 2"));
    }

    #[test]
    fn events_and_what_the_adapter_says() {
        assert_eq!(statistics_rose(&CHECK, 60, &[("module_bus_stuck", 1)]).status, Status::Fail);
        assert_eq!(statistics_rose(&CHECK, 60, &[("module_unplug", 1)]).status, Status::Warn);
        let found = first(&CHECK, |m| {
            eth0(m).ethtool.link = Reading::Value(false);
            eth0(m).ethtool.link_down_reason = Reading::Value("bad signal integrity".into());
        });
        assert!(found[0].summary.contains("bad signal integrity"));
        assert_eq!(
            first(&CHECK, |m| module(m).rx_power_nw = Reading::failed("EIO"))[0].status,
            Status::Unknown
        );
        assert_eq!(first(&CHECK, |m| eth0(m).module = Reading::failed("EIO"))[0].status, Status::Unknown);
    }
}
