//! `rdmascope explain`: what a finding or the cause of a failed probe means, where it comes from, and what to do.

use crate::check_arguments::ExplainFlags;
use crate::failure::{Failure, code};
use crate::output::{plain, print_json, show};
use crate::similar;
use rdmascope_checks::log::Rules;
use rdmascope_checks::{DRIFT, cause_page, drift_page, page, rule_page};
use rdmascope_expose::api::{ExplainPage, ExplainReport};
use rdmascope_model::Cause;

/// Runs it.
pub(crate) fn run(flags: &ExplainFlags) -> Result<u8, Failure> {
    let pages = pages(&flags.id);
    if pages.is_empty() {
        let text = format!(
            "there is no check, no cause of a probe and no rule of the kernel log '{}'",
            plain(&flags.id)
        );
        let ids = ids();
        let near = similar::did_you_mean(&flags.id, ids.iter().map(String::as_str));
        return Err(Failure::new(code::USAGE, text).then(
            near.unwrap_or_else(|| "take the id that stands in brackets behind a finding".to_owned()),
        ));
    }
    if flags.json {
        print_json(&ExplainReport { pages })?;
    } else {
        show(&pages.iter().map(|page| page.markdown.as_str()).collect::<Vec<_>>().join("\n"))?;
    }
    Ok(0)
}

/// Everything that has this id: a check and a cause may share one, since both are about the same fault.
fn pages(id: &str) -> Vec<ExplainPage> {
    let check = rdmascope_checks::ALL.iter().find(|check| check.id == id).map(page);
    let drift = (id == DRIFT).then(drift_page);
    let rule = Rules::builtin().get(id).map(rule_page);
    let cause = Cause::all().find(|cause| cause.id() == id).map(cause_page);
    let page = |kind: &str, markdown| ExplainPage { id: id.to_owned(), kind: kind.to_owned(), markdown };
    [("check", check), ("drift", drift), ("kernel-log", rule), ("cause", cause)]
        .into_iter()
        .filter_map(|(kind, text)| text.map(|text| page(kind, text)))
        .collect()
}

/// Every id that has a page.
fn ids() -> Vec<String> {
    let rules = Rules::builtin();
    let checks = rdmascope_checks::ALL.iter().map(|check| check.id.to_owned());
    let rule_ids = rules.docs().iter().map(|rule| rule.id.clone());
    let causes = Cause::all().map(|cause| cause.id().to_owned());
    checks.chain(rule_ids).chain(causes).chain([DRIFT.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nearest(id: &str) -> Vec<String> {
        let ids = ids();
        similar::nearest(id, ids.iter().map(String::as_str)).into_iter().map(str::to_owned).collect()
    }

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
                pages.last().is_some_and(|page| page.markdown.contains(cause.next_step())),
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
        assert!(pages[0].markdown.contains("?") && pages[1].markdown.contains("Why a probe"), "{pages:?}");
    }
}
