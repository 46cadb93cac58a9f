//! Rules of the dashboards that Grafana does not hold itself; each can be seen to fail at the end of this file.

use super::UIDS;
use super::promql::{Known, selectors};
use rdmascope_expose::metrics::Scrape;
use rdmascope_tests::dashboards::{interpolate, panels, queries};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Panels that Grafana has without a plugin, of those that we use.
const CORE: [&str; 7] = ["row", "text", "stat", "timeseries", "heatmap", "state-timeline", "table"];
/// Blue, amber, vermillion, grey and purple of a palette that everybody can tell apart, and none.
const COLOURS: [&str; 6] = ["#0072B2", "#E69F00", "#D55E00", "#999999", "#CC79A7", "transparent"];
/// Columns of Grafana's grid.
const WIDTH: u64 = 24;
/// Fields that a table of Prometheus has besides labels.
const OWN_FIELDS: [&str; 3] = ["Time", "Value", "__name__"];

type Rule = fn(&Value) -> Vec<String>;

const RULES: [Rule; 8] = [
    is_whole,
    panels_are_complete,
    panels_do_not_lie_on_each_other,
    data_comes_from_the_chosen_source,
    colours_are_told_apart_and_have_words,
    links_lead_somewhere,
    variables_exist_and_are_used,
    expressions_fit_the_catalogue,
];

/// Everything that is wrong with a dashboard.
pub(crate) fn complaints(dashboard: &Value) -> Vec<String> {
    let name = dashboard["uid"].as_str().unwrap_or("a dashboard without uid");
    RULES.iter().flat_map(|rule| rule(dashboard)).map(|why| format!("{name}: {why}")).collect()
}

fn complain(wrong: bool, why: impl FnOnce() -> String) -> Vec<String> {
    if wrong { vec![why()] } else { Vec::new() }
}

fn title(panel: &Value) -> &str {
    panel["title"].as_str().unwrap_or_default()
}

/// Every value of the tree with the key that it stands under.
fn walk<'a>(value: &'a Value, key: &'a str, see: &mut dyn FnMut(&'a str, &'a Value)) {
    see(key, value);
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| walk(value, key, see)),
        Value::Array(list) => list.iter().for_each(|value| walk(value, key, see)),
        _ => {}
    }
}

fn is_whole(dashboard: &Value) -> Vec<String> {
    let uid = dashboard["uid"].as_str().unwrap_or_default();
    let known = uid.strip_prefix("rdmascope-").is_some_and(|name| UIDS.contains(&name));
    let mut found = complain(!known, || "its uid is none of the known ones".to_owned());
    for (key, wanted) in [
        ("id", Value::Null),
        ("editable", json!(false)),
        ("schemaVersion", json!(39)),
        ("timezone", json!("browser")),
        ("tags", json!(["rdmascope", "rdma"])),
    ] {
        found.extend(complain(dashboard[key] != wanted, || format!("{key} is not {wanted}")));
    }
    for key in ["title", "description"] {
        let empty = dashboard[key].as_str().is_none_or(str::is_empty);
        found.extend(complain(empty, || format!("it has no {key}")));
    }
    found
}

fn panels_are_complete(dashboard: &Value) -> Vec<String> {
    let (mut ids, mut titles, mut found) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
    for panel in panels(dashboard) {
        let (title, kind) = (title(panel), panel["type"].as_str().unwrap_or_default());
        found.extend(complain(!CORE.contains(&kind), || {
            format!("{title}: {kind} is not a panel of Grafana's own")
        }));
        found.extend(complain(!ids.insert(panel["id"].as_u64()), || format!("{title}: its id is taken")));
        found.extend(complain(title.is_empty() || !titles.insert(title), || {
            format!("'{title}': its title is taken")
        }));
        if kind == "row" {
            continue;
        }
        let description = panel["description"].as_str().unwrap_or_default();
        found
            .extend(complain(description.len() < 20, || format!("{title}: its description says too little")));
        let targets = panel["targets"].as_array().map_or(0, Vec::len);
        found.extend(complain((targets == 0) != (kind == "text"), || format!("{title}: {targets} queries")));
        // With more than one, the column of values has another name.
        found.extend(complain(kind == "table" && targets != 1, || {
            format!("{title}: a table of {targets} queries")
        }));
        let needs_unit = ["stat", "timeseries"].contains(&kind);
        let unit = panel["fieldConfig"]["defaults"]["unit"].is_string();
        found.extend(complain(needs_unit && !unit, || format!("{title}: it has no unit")));
        let letters: BTreeSet<_> = panel["targets"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|target| target["refId"].to_string())
            .collect();
        found.extend(complain(letters.len() != targets, || format!("{title}: two queries have one letter")));
    }
    found
}

fn panels_do_not_lie_on_each_other(dashboard: &Value) -> Vec<String> {
    let (mut taken, mut found) = (BTreeSet::new(), Vec::new());
    for panel in panels(dashboard) {
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap_or_default();
        let (x, y, w, h) = (at("x"), at("y"), at("w"), at("h"));
        found.extend(complain(w == 0 || h == 0 || x + w > WIDTH, || {
            format!("{}: it does not fit", title(panel))
        }));
        let cells = (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y)));
        let lost = cells.filter(|cell| !taken.insert(*cell)).count();
        found.extend(complain(lost > 0, || format!("{}: it lies on another panel", title(panel))));
    }
    found
}

fn data_comes_from_the_chosen_source(dashboard: &Value) -> Vec<String> {
    let chosen = json!({"type": "prometheus", "uid": "${datasource}"});
    let mut found = Vec::new();
    walk(dashboard, "", &mut |key, value| {
        found.extend(complain(key == "datasource" && *value != chosen, || {
            format!("a source of its own: {value}")
        }));
    });
    for panel in panels(dashboard) {
        for target in panel["targets"].as_array().into_iter().flatten() {
            found.extend(complain(target["datasource"] != chosen, || {
                format!("{}: a query without a source", title(panel))
            }));
        }
    }
    found
}

fn colours_are_told_apart_and_have_words(dashboard: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(dashboard, "", &mut |key, value| {
        if ["color", "fixedColor", "iconColor"].contains(&key)
            && let Some(colour) = value.as_str()
        {
            found.extend(complain(!COLOURS.contains(&colour), || format!("{colour} is not of the palette")));
        }
        let wordless =
            value["color"].is_string() && value.get("index").is_some() && !value["text"].is_string();
        found.extend(complain(wordless, || format!("a colour without a word: {value}")));
    });
    found
}

fn links_lead_somewhere(dashboard: &Value) -> Vec<String> {
    let mut found = Vec::new();
    walk(dashboard, "", &mut |key, value| {
        let Some(url) = value.as_str().filter(|_| key == "url") else { return };
        let inside = url.strip_prefix("/d/rdmascope-").map(|rest| rest.split('?').next().unwrap_or_default());
        let known = inside.is_some_and(|name| UIDS.contains(&name)) || url.starts_with("${page}");
        found.extend(complain(!known, || format!("{url} leads nowhere")));
        let with_choices = ["${datasource:queryparam}", "${job:queryparam}", "${__url_time_range}"];
        let forgets = url.contains('?') && !with_choices.iter().all(|choice| url.contains(choice));
        found.extend(complain(forgets, || format!("{url} forgets the source, the job or the time")));
    });
    for link in dashboard["links"].as_array().into_iter().flatten() {
        let inside = link["url"].as_str().is_some_and(|url| url.starts_with('/'));
        let keeps = link["keepTime"] == true && link["includeVars"] == true;
        found
            .extend(complain(inside && !keeps, || format!("the link {} forgets the choices", link["title"])));
    }
    found
}

/// Grafana's own.
fn is_builtin(name: &str) -> bool {
    name.starts_with("__") || name.chars().all(|c| c.is_ascii_digit())
}

fn variables_exist_and_are_used(dashboard: &Value) -> Vec<String> {
    let list = dashboard["templating"]["list"].as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    let mut before = BTreeSet::new();
    for variable in &list {
        let name = variable["name"].as_str().unwrap_or_default();
        let query = variable["query"]["query"].as_str().unwrap_or_default();
        for used in used_in(query) {
            found.extend(complain(!before.contains(&used), || {
                format!("{name} asks for ${used}, which comes later or never")
            }));
        }
        found
            .extend(complain(!before.insert(name.to_owned()), || format!("two variables are called {name}")));
    }
    let mut used = BTreeSet::new();
    walk(dashboard, "", &mut |_, value| used.extend(value.as_str().map(used_in).unwrap_or_default()));
    found.extend(used.difference(&before).map(|name| format!("there is no variable {name}")));
    found.extend(before.difference(&used).map(|name| format!("nobody uses the variable {name}")));
    found
}

/// Names of the variables in a text.
fn used_in(text: &str) -> BTreeSet<String> {
    let names = RefCell::new(BTreeSet::new());
    let _ = interpolate(text, |name| {
        let name = name.split([':', '.']).next().unwrap_or_default();
        if !name.is_empty() && !is_builtin(name) {
            names.borrow_mut().insert(name.to_owned());
        }
        None
    });
    names.into_inner()
}

fn expressions_fit_the_catalogue(dashboard: &Value) -> Vec<String> {
    let known = Known::new();
    let variables: BTreeSet<&str> = dashboard["templating"]["list"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|variable| variable["name"].as_str())
        .collect();
    let mut found = Vec::new();
    let mut labels: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for query in queries(dashboard) {
        let say = |why: String| format!("{} {}: {why}", query.panel, query.letter);
        let expression = &query.expression;
        for selector in selectors(expression) {
            found.extend(known.complaints(expression, &selector).into_iter().map(say));
            let matches = |label: &str| selector.labels.iter().any(|own| own == label);
            found.extend(complain(!matches("job"), || {
                say(format!("{} is not bound to the job", selector.name))
            }));
            let of_agent = known.scrape(&selector.name) == Some(Scrape::Agent);
            let unbound = of_agent && variables.contains("instance") && !matches("instance");
            found.extend(complain(unbound, || say(format!("{} is not bound to the agent", selector.name))));
            labels.entry(query.panel.clone()).or_default().extend(known.labels(&selector.name));
        }
        found.extend(complain(selectors(expression).is_empty(), || say("it asks for nothing".to_owned())));
        labels.entry(query.panel.clone()).or_default().extend(made_labels(expression));
    }
    for panel in panels(dashboard) {
        let there = labels.remove(title(panel)).unwrap_or_default();
        for field in named_fields(panel) {
            let exists = there.contains(&field) || OWN_FIELDS.contains(&&*field);
            found.extend(complain(!exists, || format!("{}: no field {field}", title(panel))));
        }
    }
    found
}

/// Labels that an expression makes with `label_join` and `label_replace`: the first quoted word behind what they change.
fn made_labels(expression: &str) -> BTreeSet<String> {
    let words = expression.split('"').skip(1).step_by(2);
    words.filter(|word| ["from", "to"].contains(word)).map(str::to_owned).collect()
}

/// Fields that a panel's transformations and links name.
fn named_fields(panel: &Value) -> BTreeSet<String> {
    let mut named = BTreeSet::new();
    for step in panel["transformations"].as_array().into_iter().flatten() {
        let options = &step["options"];
        for key in ["indexByName", "renameByName"] {
            named.extend(options[key].as_object().into_iter().flat_map(|map| map.keys().cloned()));
        }
        for key in ["rowField", "columnField", "valueField"] {
            named.extend(options[key].as_str().map(str::to_owned));
        }
    }
    walk(panel, "", &mut |_, value| {
        let links = value.as_str().into_iter().flat_map(|text| text.split("${__data.fields.").skip(1));
        named.extend(links.filter_map(|rest| rest.split('}').next()).map(str::to_owned));
    });
    named
}

fn sound() -> Value {
    let source = json!({"type": "prometheus", "uid": "${datasource}"});
    json!({
        "uid": "rdmascope-node", "title": "t", "description": "d", "id": null, "editable": false, "schemaVersion": 39,
        "timezone": "browser", "tags": ["rdmascope", "rdma"],
        "links": [{"title": "l", "url": "/d/rdmascope-node", "keepTime": true, "includeVars": true}],
        "templating": {"list": [
            {"name": "datasource"}, {"name": "job", "query": {"query": "label_values(rdmascope_build_info, job)"}},
            {"name": "instance", "query": {"query": "label_values(rdmascope_port_up{job=~\"$job\"}, instance)"}},
        ]},
        "panels": [
            {"id": 1, "type": "row", "title": "r", "gridPos": {"x": 0, "y": 0, "w": 24, "h": 1}},
            {"id": 2, "type": "stat", "title": "p", "description": "what this figure means",
             "gridPos": {"x": 0, "y": 1, "w": 4, "h": 4}, "datasource": source,
             "fieldConfig": {"defaults": {"unit": "none",
                "mappings": [{"type": "value", "options": {"0": {"text": "no", "index": 0, "color": "#0072B2"}}}],
                "links": [{"url": "/d/rdmascope-node?${datasource:queryparam}&${job:queryparam}&${__url_time_range}&var-x=${__data.fields.device}"}]}},
             "transformations": [{"id": "organize", "options": {"indexByName": {"port": 0}, "renameByName": {"Value": "v"}}}],
             "targets": [{"refId": "A", "datasource": source, "expr":
                "rate(rdmascope_port_retransmits_total{job=~\"$job\",instance=~\"$instance\"}[$__rate_interval])"}]},
        ],
    })
}

/// The sound dashboard with one thing changed.
fn with(path: &str, value: Value) -> Value {
    let mut changed = sound();
    *changed.pointer_mut(path).unwrap_or_else(|| panic!("no {path}")) = value;
    changed
}

#[test]
fn a_sound_dashboard_is_fine_and_each_rule_can_fail() {
    assert_eq!(complaints(&sound()), Vec::<String>::new());
    let mut two = with("/panels/1/type", json!("table"));
    let target = two["panels"][1]["targets"][0].clone();
    two["panels"][1]["targets"] = json!([target, target]);
    let found = complaints(&two).join("\n");
    assert!(found.contains("a table of 2 queries") && found.contains("one letter"), "{found}");
    let expression = "/panels/1/targets/0/expr";
    for (path, value, why) in [
        ("/uid", json!("rdmascope-other"), "its uid"),
        ("/id", json!(7), "id is not"),
        ("/description", json!(""), "no description"),
        ("/panels/1/type", json!("esnet-matrix-panel"), "not a panel of Grafana's own"),
        ("/panels/1/id", json!(1), "its id is taken"),
        ("/panels/1/title", json!("r"), "its title is taken"),
        ("/panels/1/description", json!("short"), "says too little"),
        ("/panels/1/targets", json!([]), "0 queries"),
        ("/panels/1/fieldConfig/defaults/unit", Value::Null, "no unit"),
        ("/panels/1/gridPos/y", json!(0), "lies on another"),
        ("/panels/1/gridPos/w", json!(25), "does not fit"),
        ("/panels/1/datasource", json!({"type": "prometheus", "uid": "x"}), "a source of its own"),
        ("/panels/1/targets/0/datasource", Value::Null, "a query without a source"),
        ("/panels/1/fieldConfig/defaults/mappings/0/options/0/color", json!("green"), "not of the palette"),
        ("/panels/1/fieldConfig/defaults/mappings/0/options/0/text", Value::Null, "a colour without a word"),
        ("/links/0/url", json!("/d/rdmascope-nowhere"), "leads nowhere"),
        ("/links/0/keepTime", json!(false), "forgets the choices"),
        (
            "/panels/1/fieldConfig/defaults/links/0/url",
            json!("/d/rdmascope-node?var-x=1"),
            "forgets the source",
        ),
        ("/templating/list/1/name", json!("jobs"), "there is no variable job"),
        (
            "/templating/list/2/query/query",
            json!("label_values(rdmascope_port_up{x=\"$later\"}, x)"),
            "comes later or never",
        ),
        (
            expression,
            json!("rate(rdmascope_port_wonders_total{job=~\"$job\",instance=~\"$instance\"}[5m])"),
            "not in the catalogue",
        ),
        (
            expression,
            json!("rdmascope_port_retransmits_total{job=~\"$job\",instance=~\"$instance\"}"),
            "a counter without a rate",
        ),
        (
            expression,
            json!("rate(rdmascope_port_up{job=~\"$job\",instance=~\"$instance\"}[$__rate_interval])"),
            "a rate of what is no counter",
        ),
        (expression, json!("rdmascope_port_up{instance=~\"$instance\"}"), "not bound to the job"),
        (expression, json!("rdmascope_port_up{job=~\"$job\"}"), "not bound to the agent"),
        (
            expression,
            json!("rdmascope_port_up{job=~\"$job\",instance=~\"$instance\",rail=\"1\"}"),
            "has no label rail",
        ),
        (expression, json!("vector(1)"), "asks for nothing"),
        ("/panels/1/transformations/0/options/indexByName", json!({"rail": 0}), "no field rail"),
    ] {
        let found = complaints(&with(path, value)).join("\n");
        assert!(found.contains(why), "{path}: no '{why}' in: {found}");
    }
}
