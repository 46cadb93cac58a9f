//! A check, a rule of the kernel log, what differs between nodes, or why a probe failed, in words: the page that `rdmascope explain` prints and that stands among the runbooks.

use crate::Check;
use crate::log::Rule;
use rdmascope_model::Cause;

/// What stands on the page of a hard local fault.
const HARD: &str =
    "\n\nA `fail` is a hard local fault: where `rdmascope slurm` is set up, the node is drained for it.";

/// The page of a check, as Markdown that is as easy to read on a terminal.
#[must_use]
pub fn page(check: &Check) -> String {
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    let hard = if check.hard { HARD } else { "" };
    let about = format!("{}\n\n{}{hard}", check.question, check.meaning);
    let mut page = written(check.id, &about, &owned(check.causes), &owned(check.next_steps));
    if !check.limits.is_empty() {
        page.push_str(
            "\n## Numbers that it judges by\n\nIn `policy` of the config file; `rdmascope replay --policy FILE` says what others would have said.\n\n",
        );
        for limit in check.limits {
            page.push_str(&format!(
                "- `{}`: {} {}. {}\n",
                limit.name, limit.default, limit.unit, limit.reason
            ));
        }
    }
    page
}

/// The page of a rule of the kernel log, likewise.
#[must_use]
pub fn rule_page(rule: &Rule) -> String {
    let drain = match (&rule.drain, &rule.spare) {
        (Some(why), _) => format!("{HARD} The reason: {why}."),
        (None, Some(why)) => format!("\n\nNo node is drained for it: {why}."),
        (None, None) => String::new(),
    };
    written(&rule.id, &format!("{}{drain}", rule.meaning), &rule.causes, &rule.next_steps)
}

/// Id of the finding that says that a part differs from the others of its kind; only the coordinator, which sees all, makes it.
pub const DRIFT: &str = "drift";

/// Why parts of one kind differ.
pub const DRIFT_CAUSES: [&str; 3] = [
    "somebody changed it here and not there",
    "a new or repaired node came with other defaults",
    "a roll-out is half done",
];

/// The page of [`DRIFT`], likewise.
#[must_use]
pub fn drift_page() -> String {
    let about = "Is this part set up like the others of its kind?\n\n\
         Ports and devices with the same card and link layer, and machines, are compared over all nodes: MTU, PFC, ETS, DSCP, trust, \
         ECN, firmware, driver, kernel, index of the GID and rate. A node that differs behaves differently under load, which shows in \
         jobs that run on it and nowhere else. Three parts are needed for a majority; where none is above one half, nobody is blamed.";
    let steps = [
        "`rdmascope findings --node NODE`: its value, and how many others have another one.",
        "`rdmascope events --node NODE`: when it changed (`setting-change`).",
        "Make them alike, or pin what is meant: `rdmascope config manifest` on a node that is right.",
        "Where the difference is meant: `rdmascope ack NODE drift --note WHY` (`''` for NODE where it names the whole cluster).",
    ];
    let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    written(DRIFT, about, &owned(&DRIFT_CAUSES), &owned(&steps))
}

/// The page of a probe's cause, likewise.
#[must_use]
pub fn cause_page(cause: Cause) -> String {
    let about = format!("Why a probe between two endpoints failed.\n\n{}", cause.text());
    written(cause.id(), &about, &[], &[cause.next_step().to_owned()])
}

fn written(id: &str, about: &str, causes: &[String], next_steps: &[String]) -> String {
    let causes: String = causes.iter().map(|cause| format!("- {cause}\n")).collect();
    let steps: String =
        next_steps.iter().enumerate().map(|(i, step)| format!("{}. {step}\n", i + 1)).collect();
    let mut page = format!("# {id}\n\n{about}\n");
    for (title, list) in [("Probable causes", causes), ("What to do", steps)] {
        if !list.is_empty() {
            page.push_str(&format!("\n## {title}\n\n{list}"));
        }
    }
    page
}
