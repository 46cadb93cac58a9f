//! What an agent's `/metrics` tells of its checks and of what they rest on: results, when and how well each part was read.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use rdmascope_model::{Finding, KernelLog, Port, Reading, Snapshot, Status, Wall};

use super::agent::{AgentInput, Row};
use super::catalogue::{
    CHECK_LAST_RUN, CHECK_STATUS, CHECKS_LAST_RUN, COLLECTOR_DURATION, COLLECTOR_LAST_RUN, COLLECTOR_SUCCESS,
    FINDING, FINDINGS_LEFT_OUT, KERNEL_LOG_LINES, KERNEL_LOG_LOST,
};
use super::text::Text;

/// Findings with a sample of their own: enough for every port of a large node, and a bound for a node where everything is wrong.
const FINDINGS_MAX: usize = 200;

pub(super) fn about_checks(text: &mut Text, input: &AgentInput<'_>) {
    let mut worst: BTreeMap<&str, Status> = BTreeMap::new();
    for finding in input.findings {
        let status = worst.entry(finding.id.as_ref()).or_insert(finding.status);
        *status = finding.status.max(*status);
    }
    text.family(&CHECK_STATUS, |out| {
        for (check, current) in &worst {
            for status in Status::ALL {
                out.add(&[check, status.as_str()], u8::from(status == *current));
            }
        }
    });
    findings(text, input.findings);
    if let Some(log) = input.kernel_log.value() {
        kernel_log(text, log, input.log_class);
    }
    text.family(&CHECK_LAST_RUN, |out| {
        for (check, at) in worst.keys().filter_map(|check| Some((check, input.done_at.get("checks")?))) {
            out.add(&[check], seconds(*at));
        }
    });
    text.family(&COLLECTOR_DURATION, |out| {
        for (part, took) in input.took {
            out.add(&[part], took.as_secs_f64());
        }
    });
    text.family(&COLLECTOR_LAST_RUN, |out| {
        input.done_at.iter().for_each(|(part, at)| out.add(&[part], seconds(*at)));
    });
    if let Some(snapshot) = input.snapshot {
        text.single(&CHECKS_LAST_RUN, seconds(snapshot.taken_at));
    }
    text.family(&COLLECTOR_SUCCESS, |out| {
        for (collector, success) in collectors(input.snapshot) {
            out.add(&[collector], u8::from(success));
        }
        if *input.kernel_log != Reading::Absent {
            out.add(&["kernel_log"], u8::from(input.kernel_log.value().is_some()));
        }
    });
}

fn seconds(at: Wall) -> f64 {
    at.0 as f64 / 1e3
}

fn findings(text: &mut Text, findings: &[Finding]) {
    // One sample for a check and a subject: two of one check about one subject would be the same series.
    let mut bad: BTreeMap<(&str, &str), Status> = BTreeMap::new();
    for finding in findings.iter().filter(|finding| finding.status != Status::Ok) {
        let status = bad.entry((&finding.id, &finding.subject)).or_insert(finding.status);
        *status = finding.status.max(*status);
    }
    let mut bad: Vec<_> = bad.into_iter().collect();
    bad.sort_by_key(|(_, status)| Reverse(*status));
    text.family(&FINDING, |out| {
        for ((check, subject), status) in bad.iter().take(FINDINGS_MAX) {
            out.add(&[check, subject, status.as_str()], 1);
        }
    });
    text.single(&FINDINGS_LEFT_OUT, bad.len().saturating_sub(FINDINGS_MAX));
}

fn kernel_log(text: &mut Text, log: &KernelLog, class: &dyn Fn(&str) -> &'static str) {
    let mut lines: BTreeMap<&str, u64> = BTreeMap::new();
    for hit in &log.hits {
        *lines.entry(&hit.rule).or_default() += hit.count;
    }
    text.family(&KERNEL_LOG_LINES, |out| {
        for (rule, count) in lines {
            out.add(&[rule, class(rule)], count);
        }
    });
    text.single(&KERNEL_LOG_LOST, log.lost);
}

/// What could be looked at. A thing that this machine does not have counts as looked at.
fn collectors(snapshot: Option<&Snapshot>) -> [(&'static str, bool); 7] {
    fn seen<T>(reading: &Reading<T>) -> bool {
        !matches!(reading, Reading::Failed(_))
    }
    let devices = snapshot.is_some_and(|s| seen(&s.devices));
    let all_ports = |good: fn(&Port) -> bool| {
        devices && snapshot.is_some_and(|s| Row::all(s).iter().all(|r| good(r.port)))
    };
    [
        ("devices", devices),
        (
            "ports",
            all_ports(|p| {
                seen(&p.state)
                    && seen(&p.phys_state)
                    && seen(&p.link_layer)
                    && seen(&p.rate_bps)
                    && seen(&p.gids)
            }),
        ),
        ("counters", all_ports(|p| p.counters.values().all(seen))),
        ("netdevs", snapshot.is_some_and(|s| seen(&s.netdevs))),
        (
            "statistics",
            snapshot
                .is_some_and(|s| Row::all(s).iter().all(|r| r.netdev.is_none_or(|n| seen(&n.statistics)))),
        ),
        ("pci", snapshot.is_some_and(|s| seen(&s.pci))),
        ("workloads", snapshot.is_some_and(|s| seen(&s.workloads))),
    ]
}
