//! `rdmascope explain`: what a finding means, where it comes from, and what to do.

use crate::check_arguments::ExplainFlags;
use crate::failure::{Failure, code};
use crate::output::{plain, print};
use rdmascope_checks::log::Rules;
use rdmascope_checks::{DRIFT, drift_page, page, rule_page};
use rdmascope_config::distance;

/// Names that are offered for one that does not exist.
const OFFERED: usize = 3;

/// Runs it.
pub(crate) fn run(flags: &ExplainFlags) -> Result<u8, Failure> {
    let check = rdmascope_checks::ALL.iter().find(|check| check.id == flags.id).map(page);
    let check = check.or_else(|| (flags.id == DRIFT).then(drift_page));
    let Some(page) = check.or_else(|| Rules::builtin().get(&flags.id).map(rule_page)) else {
        let text = format!("there is no check and no rule of the kernel log '{}'", plain(&flags.id));
        return Err(
            Failure::new(code::USAGE, text).then(format!("did you mean {}?", nearest(&flags.id).join(", ")))
        );
    };
    print(&page)?;
    Ok(0)
}

/// The ids that are most alike, the most alike first.
fn nearest(id: &str) -> Vec<String> {
    let rules = Rules::builtin();
    let checks = rdmascope_checks::ALL.iter().map(|check| check.id.to_owned());
    let rule_ids = rules.docs().iter().map(|rule| rule.id.clone());
    let mut ids: Vec<String> = checks.chain(rule_ids).chain([DRIFT.to_owned()]).collect();
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
}
