//! What is shipped for Prometheus and Alertmanager agrees with the program and with itself: who pages, what a finding alerts, what silences what.

use rdmascope_checks::ALL;
use rdmascope_checks::log::{Class, Rules};
use rdmascope_expose::metrics::{Scrape, families};
use rdmascope_model::Status;
use serde_yaml::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Alerts that may get somebody up.
const PAGES_MAX: usize = 6;
/// Stands for the id of a check in an annotation.
const CHECK: &str = "{{ $labels.check }}";
/// Fires always, so no test can show it silent.
const WATCHDOG: &str = "RdmaWatchdog";
/// Groups that need the coordinator.
const OF_COORDINATOR: [&str; 2] = ["rdmascope-incidents", "rdmascope-cluster"];

fn dashboards() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards")
}

fn yaml(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn list(value: &Value) -> &[Value] {
    value.as_sequence().map(Vec::as_slice).unwrap_or_default()
}

/// One alert rule.
struct Alert {
    group: String,
    name: String,
    expression: String,
    waits_seconds: u64,
    labels: BTreeMap<String, String>,
    annotations: BTreeMap<String, String>,
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let pairs = value.as_mapping().into_iter().flatten();
    pairs.map(|(key, value)| (text(key), text(value))).collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// `30s`, `5m`, `1h` or `1d`, in seconds.
fn seconds(span: &str) -> u64 {
    let unit = match span.chars().last() {
        None => return 0,
        Some('s') => 1,
        Some('m') => 60,
        Some('h') => 3_600,
        Some('d') => 86_400,
        Some(other) => panic!("{span}: a unit {other}"),
    };
    unit * span[..span.len() - 1].parse::<u64>().unwrap_or_else(|error| panic!("{span}: {error}"))
}

fn alerts() -> Vec<Alert> {
    let rules = yaml(&dashboards().join("alerts/rdmascope.yaml"));
    let of_group = |group: &Value| {
        let name = text(&group["name"]);
        let alert = |rule: &Value| Alert {
            group: name.clone(),
            name: text(&rule["alert"]),
            expression: text(&rule["expr"]),
            waits_seconds: seconds(&text(&rule["for"])),
            labels: texts(&rule["labels"]),
            annotations: texts(&rule["annotations"]),
        };
        list(&group["rules"]).iter().map(alert).collect::<Vec<_>>()
    };
    let alerts: Vec<Alert> = list(&rules["groups"]).iter().flat_map(of_group).collect();
    assert!(alerts.len() > 20, "the rules are not where they were");
    alerts
}

/// One condition on a label, such as `check=~"a|b"`.
#[derive(Clone, Debug)]
struct Matcher {
    label: String,
    operator: String,
    values: Vec<String>,
}

impl Matcher {
    fn read(text: &str) -> Self {
        let at = text.find(['=', '!']).unwrap_or_else(|| panic!("no matcher: {text}"));
        let (label, rest) = text.split_at(at);
        let quote = rest.find('"').unwrap_or_else(|| panic!("no value: {text}"));
        let (operator, value) = rest.split_at(quote);
        let values = value.trim_matches('"').split('|').map(str::to_owned).collect();
        Self { label: label.trim().to_owned(), operator: operator.trim().to_owned(), values }
    }

    /// Whether a label has a value that fits; `.+` is the only expression besides words.
    fn fits(&self, value: &str) -> bool {
        let one = self.values.iter().any(|wanted| wanted == value || wanted == ".+" && !value.is_empty());
        one != self.operator.starts_with('!')
    }
}

impl Alert {
    /// The conditions in the first pair of braces behind a metric.
    fn selector(&self, metric: &str) -> Option<Vec<Matcher>> {
        let rest = self.expression.split_once(&format!("{metric}{{"))?.1;
        let inside = rest.split_once('}')?.0;
        Some(inside.split(", ").map(Matcher::read).collect())
    }

    /// Whether it fires for this result of this check; for a rule of the kernel log, `class` is its class as the metric has it.
    fn is_for(&self, check: &str, status: &str, class: Option<&str>) -> bool {
        let metrics = ["rdmascope_finding", "rdmascope_check_status"];
        let Some(selector) = metrics.iter().find_map(|metric| self.selector(metric)) else { return false };
        let value = |label: &str| if label == "check" { check } else { status };
        let selected = selector.iter().all(|matcher| matcher.fits(value(&matcher.label)));
        let joined = self.expression.contains("label_replace(rdmascope_kernel_log_lines_total");
        let log = match (joined, self.expression.contains("unless"), class) {
            (false, ..) => true,
            (true, true, class) => class.is_none(),
            (true, false, None) => false,
            (true, false, Some(class)) => {
                let selector = self.selector("rdmascope_kernel_log_lines_total").unwrap_or_default();
                selector.iter().all(|matcher| matcher.fits(class))
            }
        };
        // Counting without the check is about the node.
        selected && log && !self.expression.starts_with("count without")
    }
}

#[test]
fn every_alert_says_what_how_bad_and_what_to_do() {
    let checks: Vec<&str> = ALL.iter().map(|check| check.id).collect();
    for alert in alerts() {
        let name = &alert.name;
        let label = |key: &str| alert.labels.get(key).map_or("", String::as_str);
        assert!(["page", "ticket", "info"].contains(&label("severity")), "{name}");
        assert!(["cause", "symptom"].contains(&label("kind")), "{name}");
        // An incident says itself which kind of part is to blame.
        assert!(label("component").is_empty() == alert.expression.contains("rdmascope_incident{"), "{name}");
        for key in ["summary", "description"] {
            assert!(alert.annotations.get(key).is_some_and(|words| words.ends_with('.')), "{name}: {key}");
        }
        assert!(!alert.annotations["summary"].contains("{{"), "{name}: one sentence for all of its alerts");
        let url = &alert.annotations["runbook_url"];
        let own: Vec<&str> = checks.iter().copied().filter(|id| alert.is_for(id, "fail", None)).collect();
        let pages = if url.contains(CHECK) && own.is_empty() { vec!["mlx5-command-late"] } else { own };
        let pages = if url.contains(CHECK) { pages } else { vec![""] };
        for check in pages {
            let page = dashboards().join("..").join(url.replace(CHECK, check));
            let there = std::fs::read_to_string(&page).unwrap_or_default();
            let title =
                if url.contains("/checks/") { page.file_stem().unwrap_or_default() } else { name.as_ref() };
            assert!(
                there.starts_with(&format!("# {}\n", title.to_string_lossy())),
                "{}: not the page of {name}",
                page.display()
            );
        }
    }
}

#[test]
fn few_alerts_get_somebody_up_and_only_for_what_hurts_jobs() {
    let alerts = alerts();
    let pages: Vec<&Alert> = alerts.iter().filter(|alert| alert.labels["severity"] == "page").collect();
    assert!((1..=PAGES_MAX).contains(&pages.len()), "{} page", pages.len());
    for alert in pages {
        let component = alert.labels.get("component").map_or("", String::as_str);
        assert!(
            !["agent", "coordinator", "matrix", "watchdog", "settings"].contains(&component),
            "{}",
            alert.name
        );
    }
}

#[test]
fn a_finding_alerts_once() {
    let alerts = alerts();
    let rules = Rules::builtin();
    let of_check = ALL.iter().map(|check| (check.id, None, [Some("fail"), Some("warn")]));
    let of_rule = rules.docs().iter().filter_map(|rule| {
        let status = rule.class.status().filter(|status| *status > Status::Ok)?;
        // More of the same may be worse than the class says.
        let worse = rule.escalate.is_some().then_some("fail");
        Some((rule.id.as_str(), Some(rule.class.word()), [Some(status.as_str()), worse]))
    });
    let mut seen = 0;
    for (id, class, statuses) in of_check.chain(of_rule) {
        for status in statuses.into_iter().flatten().collect::<BTreeSet<_>>() {
            let firing: Vec<&str> =
                alerts.iter().filter(|a| a.is_for(id, status, class)).map(|a| a.name.as_str()).collect();
            // A state that warns is one that settles.
            let expected = usize::from((id, status) != ("port-state", "warn"));
            assert_eq!(firing.len(), expected, "{id} {status}: {firing:?}");
            seen += firing.len();
        }
    }
    assert!(seen > 200, "{seen}");
    let fault = alerts.iter().find(|alert| alert.name == "RdmaKernelFault").expect("it is there");
    assert!(fault.is_for("mlx5-fatal-error", "fail", Some(Class::F.word())), "a page for what is done for");
    assert!(!fault.is_for("mlx5-command-late", "fail", Some(Class::E.word())));
}

#[test]
fn every_check_that_an_alert_names_exists() {
    for alert in alerts() {
        for matcher in
            ["rdmascope_finding", "rdmascope_check_status"].iter().filter_map(|m| alert.selector(m)).flatten()
        {
            let known = |id: &String| match matcher.label.as_str() {
                "check" => ALL.iter().any(|check| check.id == id),
                _ => Status::ALL.iter().any(|status| status.as_str() == id),
            };
            let unknown: Vec<&String> = matcher.values.iter().filter(|id| !known(id)).collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", alert.name);
        }
    }
}

#[test]
fn alerts_of_nodes_need_agents_alone() {
    let of_agents: BTreeSet<&str> = families()
        .filter(|family| matches!(family.scrape, Scrape::Agent | Scrape::Both))
        .map(|family| family.name)
        .collect();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for alert in alerts().iter().filter(|alert| !OF_COORDINATOR.contains(&alert.group.as_str())) {
        let words = alert.expression.split(|c: char| !is_name(c));
        for name in words.filter(|word| word.starts_with("rdmascope_")) {
            assert!(of_agents.contains(name), "{}: {name} comes from the coordinator", alert.name);
        }
    }
}

#[test]
fn every_alert_is_shown_to_fire_and_to_stay_silent() {
    let (mut fires, mut silent) = (BTreeSet::new(), BTreeSet::new());
    let folder = std::fs::read_dir(dashboards().join("alerts/tests")).expect("the tests are there");
    for file in folder.map(|entry| entry.expect("a file").path()) {
        for case in list(&yaml(&file)["tests"]).iter().flat_map(|test| list(&test["alert_rule_test"])) {
            let shown = if list(&case["exp_alerts"]).is_empty() { &mut silent } else { &mut fires };
            shown.insert(text(&case["alertname"]));
        }
    }
    for alert in alerts() {
        assert!(fires.contains(&alert.name), "nothing shows that {} fires", alert.name);
        assert!(silent.contains(&alert.name) != (alert.name == WATCHDOG), "{}: silent", alert.name);
    }
}

fn alertmanager() -> PathBuf {
    dashboards().join("alerts/alertmanager/alertmanager.yaml")
}

#[test]
fn what_is_silenced_waits_twice_as_long_as_what_silences_it() {
    let (alerts, config) = (alerts(), yaml(&alertmanager()));
    let rules = list(&config["inhibit_rules"]);
    assert!(rules.len() > 3);
    for rule in rules {
        let named = |side: &str| {
            let matchers: Vec<Matcher> = list(&rule[side]).iter().map(|m| Matcher::read(&text(m))).collect();
            let fits = |alert: &Alert| {
                matchers.iter().all(|matcher| match matcher.label.as_str() {
                    "alertname" => matcher.fits(&alert.name),
                    // A sample may have these.
                    "node" | "leaf" => true,
                    label => alert.labels.get(label).is_some_and(|value| matcher.fits(value)),
                })
            };
            let names: Vec<&Alert> = alerts.iter().filter(|alert| fits(alert)).collect();
            let wanted = matchers.iter().filter(|m| m.label == "alertname" && m.operator.starts_with('='));
            for name in wanted.flat_map(|matcher| &matcher.values) {
                assert!(names.iter().any(|alert| alert.name == *name), "no alert {name}");
            }
            assert!(!names.is_empty(), "{matchers:?} fit nothing");
            names
        };
        for source in named("source_matchers") {
            for target in named("target_matchers") {
                let (before, after) = (source.waits_seconds, target.waits_seconds);
                assert!(after >= 2 * before, "{} waits {after} s, {} {before} s", target.name, source.name);
                assert!(source.name != target.name, "{} silences itself", source.name);
            }
        }
        // Labels that both lack are equal for Alertmanager.
        for label in list(&rule["equal"]).iter().map(text).filter(|label| label == "node" || label == "leaf")
        {
            let is_there = format!("{label}=~\".+\"");
            for side in ["source_matchers", "target_matchers"] {
                assert!(
                    list(&rule[side]).iter().any(|m| text(m) == is_there),
                    "{label} may be missing on {side}"
                );
            }
        }
    }
}

#[track_caller]
fn amtool(arguments: &[&str]) {
    let output = Command::new("amtool").args(arguments).output();
    let output = output
        .unwrap_or_else(|error| panic!("amtool ({error}): install the package prometheus-alertmanager"));
    let said =
        [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "amtool {arguments:?}: {}\n{said}", output.status);
}

#[test]
fn alertmanager_takes_its_example_and_sends_each_alert_where_it_belongs() {
    let path = alertmanager();
    let path = path.to_str().expect("a path in UTF-8");
    amtool(&["check-config", path]);
    for alert in alerts() {
        let receiver = match alert.labels["severity"].as_str() {
            _ if alert.name == WATCHDOG => "watchdog",
            "page" => "pager",
            "ticket" => "tickets",
            _ => "nobody",
        };
        let wanted = format!("--verify.receivers={receiver}");
        let labels = alert.labels.iter().map(|(key, value)| format!("{key}={value}"));
        let labels: Vec<String> = labels.chain([format!("alertname={}", alert.name)]).collect();
        let mut arguments = vec!["config", "routes", "test", "--config.file", path, &wanted];
        arguments.extend(labels.iter().map(String::as_str));
        amtool(&arguments);
    }
}
