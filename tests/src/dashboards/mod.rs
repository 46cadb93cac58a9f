//! The shipped Grafana dashboards as tests see them: how they are made, and every query in them.

mod empty;
mod make;

pub use empty::{Empty, When, empty};
pub use make::{Source, make};

use serde_json::Value;
use std::path::{Path, PathBuf};

/// Where the dashboards of this repository are.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../dashboards/grafana")
}

/// The list of queries that may have no data.
#[must_use]
pub fn empty_list() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("dashboards/empty.yaml")
}

/// The files of a folder whose names end so, in order.
///
/// # Panics
/// When the folder cannot be read or has no such file.
#[must_use]
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let mut found: Vec<_> = paths.filter(|path| path.extension().is_some_and(|e| e == extension)).collect();
    found.sort();
    assert!(!found.is_empty(), "no .{extension} in {}", folder.display());
    found
}

/// Every dashboard of a folder, in the order of the names of their files.
///
/// # Panics
/// When one cannot be read.
#[must_use]
pub fn all(folder: &Path) -> Vec<Value> {
    let read = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string());
        let value = text.and_then(|text| serde_json::from_str(&text).map_err(|error| error.to_string()));
        value.unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    files(folder, "json").iter().map(read).collect()
}

/// One query of a panel, or of an annotation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// The dashboard's uid.
    pub dashboard: String,
    /// The panel's title; of an annotation its name in brackets.
    pub panel: String,
    /// Its letter.
    pub letter: String,
    /// PromQL, with Grafana's variables in it.
    pub expression: String,
    /// Asked for one moment, not for a span of time.
    pub instant: bool,
    /// Labels of rows and columns where the answer becomes a table with a cell for each pair.
    pub cells: Option<(String, String)>,
}

/// The panels of a dashboard.
#[must_use]
pub fn panels(dashboard: &Value) -> &[Value] {
    dashboard["panels"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Every query of a dashboard, those of annotations last.
#[must_use]
pub fn queries(dashboard: &Value) -> Vec<Query> {
    let uid = text(&dashboard["uid"]);
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for panel in panels(dashboard) {
        let to_matrix =
            list(&panel["transformations"]).into_iter().find(|step| step["id"] == "groupingToMatrix");
        let cells =
            to_matrix.map(|step| (text(&step["options"]["rowField"]), text(&step["options"]["columnField"])));
        found.extend(list(&panel["targets"]).iter().map(|target| Query {
            dashboard: uid.clone(),
            panel: text(&panel["title"]),
            letter: text(&target["refId"]),
            expression: text(&target["expr"]),
            instant: target["instant"] == true,
            cells: cells.clone(),
        }));
    }
    found.extend(list(&dashboard["annotations"]["list"]).iter().map(|annotation| Query {
        dashboard: uid.clone(),
        panel: format!("({})", text(&annotation["name"])),
        letter: "A".to_owned(),
        expression: text(&annotation["expr"]),
        instant: false,
        cells: None,
    }));
    found
}

/// Puts values in the place of `$name` and `${name}`; names that nobody knows stay, as in Grafana.
#[must_use]
pub fn interpolate(text: &str, value: impl Fn(&str) -> Option<String>) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let behind = &rest[at + 1..];
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let (name, length) = match behind.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, _)) => (name, name.len() + 2),
            None => {
                let length = behind.find(|c| !is_word(c)).unwrap_or(behind.len());
                (&behind[..length], length)
            }
        };
        match value(name) {
            Some(value) => out.push_str(&value),
            None => out.push_str(&rest[at..=at + length]),
        }
        rest = &behind[length..];
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn variables_are_replaced_and_what_is_none_stays() {
        let value = |name: &str| (name == "job").then(|| "a|b".to_owned());
        assert_eq!(interpolate("x{job=~\"$job\"}", value), "x{job=~\"a|b\"}");
        assert_eq!(interpolate("${job}/$jobs/$1$", value), "a|b/$jobs/$1$");
    }

    #[test]
    fn queries_of_panels_and_annotations_are_found_with_what_becomes_of_them() {
        let dashboard = json!({
            "uid": "u",
            "annotations": {"list": [{"name": "n", "expr": "c"}]},
            "panels": [
                {"title": "row"},
                {"title": "p", "targets": [{"refId": "A", "expr": "a", "instant": true}, {"refId": "B", "expr": "b"}],
                 "transformations": [{"id": "groupingToMatrix", "options": {"rowField": "from", "columnField": "to"}}]},
            ],
        });
        let found = queries(&dashboard);
        let short: Vec<_> =
            found.iter().map(|q| (&*q.panel, &*q.letter, &*q.expression, q.instant)).collect();
        assert_eq!(short, [("p", "A", "a", true), ("p", "B", "b", false), ("(n)", "A", "c", false)]);
        assert_eq!(found[0].cells, Some(("from".to_owned(), "to".to_owned())));
        assert_eq!(found[2].cells, None);
    }
}
