//! `rdmascope explain`: what a finding or the cause of a failed probe means, where it comes from, and what to do.

use crate::check_arguments::ExplainFlags;
use crate::failure::{Failure, code};
use crate::output::{plain, print};
use rdmascope_checks::log::Rules;
use rdmascope_checks::{DRIFT, cause_page, drift_page, page, rule_page};
use rdmascope_config::distance;
use rdmascope_model::Cause;

/// Names that are offered for one that does not exist.
const OFFERED: usize = 3;

/// Runs it.
pub(crate) fn run(flags: &ExplainFlags) -> Result<u8, Failure> {
    let pages = pages(&flags.id);
    if pages.is_empty() {
        let text = format!(
            "there is no check, no cause of a probe and no rule of the kernel log '{}'",
            plain(&flags.id)
        );
        return Err(
            Failure::new(code::USAGE, text).then(format!("did you mean {}?", nearest(&flags.id).join(", ")))
        );
    }
    print(&pages.join("\n"))?;
    Ok(0)
}

/// Everything that has this id: a check and a cause may share one, since both are about the same fault.
fn pages(id: &str) -> Vec<String> {
    let check = rdmascope_checks::ALL.iter().find(|check| check.id == id).map(page);
    let drift = (id == DRIFT).then(drift_page);
    let rule = Rules::builtin().get(id).map(rule_page);
    let cause = Cause::all().find(|cause| cause.id() == id).map(cause_page);
    [check, drift, rule, cause].into_iter().flatten().collect()
}

/// The ids that are most alike, the most alike first.
fn nearest(id: &str) -> Vec<String> {
    let rules = Rules::builtin();
    let checks = rdmascope_checks::ALL.iter().map(|check| check.id.to_owned());
    let rule_ids = rules.docs().iter().map(|rule| rule.id.clone());
    let causes = Cause::all().map(|cause| cause.id().to_owned());
    let mut ids: Vec<String> = checks.chain(rule_ids).chain(causes).chain([DRIFT.to_owned()]).collect();
    ids.sort_by_key(|known| distance(id, known));
    ids.truncate(OFFERED);
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_id_finds_its_check() {
        assert_eq!(nearest("port-sate")[0], "port-state");
        assert_eq!(nearest("netdev_mtu")[0], "netdev-mtu");
    }

    #[test]
    fn every_cause_of_a_probe_can_be_explained() {
        for cause in Cause::all() {
            let pages = pages(cause.id());
            assert!(
                pages.last().is_some_and(|page| page.contains(cause.next_step())),
                "{cause:?}: {pages:?}"
            );
        }
        assert!(pages("port-dwon").is_empty());
        assert_eq!(nearest("port-dwon")[0], "port-down");
    }

    #[test]
    fn a_check_and_a_cause_of_one_name_are_both_told() {
        let pages = pages("retry-exceeded");
        assert_eq!(pages.len(), 2, "{pages:?}");
        assert!(pages[0].contains("?") && pages[1].contains("Why a probe"), "{pages:?}");
    }
}
