//! Makes the JSON that Grafana imports from the short source: what panels have in common is said once.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Columns of Grafana's grid.
const WIDTH: u64 = 24;
/// The file with what dashboards have in common.
const SHARED: &str = "shared.yaml";

/// What all dashboards have in common.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Shared {
    dashboard: Value,
    links: Vec<Value>,
    link: Value,
    variables_before: Vec<String>,
    variables_behind: Vec<String>,
    variables: BTreeMap<String, Value>,
    kinds: BTreeMap<String, Kind>,
}

/// A kind of panel.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Kind {
    from: Option<String>,
    size: Option<[u64; 2]>,
    #[serde(default)]
    target: Value,
    panel: Value,
}

/// A dashboard in short.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    uid: String,
    title: String,
    description: String,
    variables: Vec<String>,
    panels: Vec<Panel>,
}

/// A panel in short.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Panel {
    like: String,
    title: String,
    #[serde(default)]
    description: String,
    size: Option<[u64; 2]>,
    #[serde(default)]
    queries: Vec<Target>,
    #[serde(default)]
    set: Value,
}

/// A query in short.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    expr: String,
    legend: Option<String>,
}

/// Every dashboard of a folder of sources, by the name of its file without the ending.
///
/// # Errors
/// What cannot be read or understood, with the name of the file.
pub fn make(folder: &Path) -> Result<BTreeMap<String, String>, String> {
    let shared: Shared = read(&folder.join(SHARED))?;
    let mut made = BTreeMap::new();
    for path in super::files(folder, "yaml") {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.ends_with(SHARED) {
            continue;
        }
        let source: Source = read(&path)?;
        let dashboard = shared.dashboard(&source).map_err(|why| format!("{}: {why}", path.display()))?;
        let json = serde_json::to_string_pretty(&dashboard).map_err(|error| error.to_string())?;
        made.insert(name, json + "\n");
    }
    Ok(made)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> Result<T, String> {
    let wrong = |why: String| format!("{}: {why}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    let mut value: serde_yaml::Value =
        serde_yaml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    value.apply_merge().map_err(|error| wrong(error.to_string()))?;
    serde_yaml::from_value(value).map_err(|error| wrong(error.to_string()))
}

/// Puts `own` over `base`: objects key by key, everything else as a whole.
fn merge(base: &mut Value, own: &Value) {
    match (base, own) {
        (Value::Object(base), Value::Object(own)) => {
            for (key, value) in own {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (_, Value::Null) => {}
        (base, own) => *base = own.clone(),
    }
}

fn merged(base: &Value, own: &Value) -> Value {
    let mut all = base.clone();
    merge(&mut all, own);
    all
}

/// Where the next panel goes: from the left to the right, then below the highest of the line.
#[derive(Default)]
struct Place {
    x: u64,
    y: u64,
    line: u64,
}

impl Place {
    fn take(&mut self, [width, height]: [u64; 2]) -> Value {
        if self.x + width > WIDTH {
            self.y += std::mem::take(&mut self.line);
            self.x = 0;
        }
        let taken = json!({"x": self.x, "y": self.y, "w": width, "h": height});
        self.x += width;
        self.line = self.line.max(height);
        taken
    }
}

impl Shared {
    fn dashboard(&self, source: &Source) -> Result<Value, String> {
        let mut place = Place::default();
        let panels: Result<Vec<_>, _> = source
            .panels
            .iter()
            .zip(1_u64..)
            .map(|(panel, id)| {
                self.panel(panel, id, &mut place).map_err(|why| format!("{}: {why}", panel.title))
            })
            .collect();
        let names = [&self.variables_before, &source.variables, &self.variables_behind];
        let variables: Result<Vec<_>, _> =
            names.into_iter().flatten().map(|name| self.variable(name)).collect();
        let links: Vec<_> = self.links.iter().map(|link| merged(&self.link, link)).collect();
        let own = json!({
            "uid": source.uid,
            "title": source.title,
            "description": source.description,
            "links": links,
            "templating": {"list": variables?},
            "panels": panels?,
        });
        Ok(merged(&self.dashboard, &own))
    }

    /// Grafana wants the query of a Prometheus variable as an object, and calls it by its name there.
    fn variable(&self, name: &str) -> Result<Value, String> {
        let known = self.variables.get(name).ok_or_else(|| format!("there is no variable {name}"))?;
        let mut variable = merged(&json!({"name": name}), known);
        if variable["type"] == "query" {
            variable["query"] = json!({"query": variable["query"], "refId": variable["name"]});
            variable["datasource"] = datasource();
        }
        if variable["type"] == "textbox" {
            let value = variable["query"].clone();
            variable["current"] = json!({"selected": false, "text": value, "value": value});
            variable["options"] = json!([{"selected": true, "text": value, "value": value}]);
        }
        Ok(variable)
    }

    /// A kind with what it has from others.
    fn kind(&self, name: &str) -> Result<Kind, String> {
        let own = self.kinds.get(name).ok_or_else(|| format!("there is no kind {name}"))?;
        let Some(from) = &own.from else { return Ok(own.clone()) };
        let base = self.kind(from)?;
        Ok(Kind {
            from: None,
            size: own.size.or(base.size),
            target: merged(&base.target, &own.target),
            panel: merged(&base.panel, &own.panel),
        })
    }

    fn panel(&self, panel: &Panel, id: u64, place: &mut Place) -> Result<Value, String> {
        let kind = self.kind(&panel.like)?;
        let size = panel.size.or(kind.size).ok_or("it has no size")?;
        let mut own = Map::new();
        own.insert("id".to_owned(), json!(id));
        own.insert("title".to_owned(), json!(panel.title));
        own.insert("gridPos".to_owned(), place.take(size));
        if !panel.description.is_empty() {
            own.insert("description".to_owned(), json!(panel.description));
        }
        if !panel.queries.is_empty() {
            let letters = 'A'..='Z';
            let targets = panel.queries.iter().zip(letters).map(|(query, letter)| {
                let own = json!({"refId": letter, "datasource": datasource(), "expr": query.expr});
                let legend = query.legend.as_ref().map_or(Value::Null, |text| json!({"legendFormat": text}));
                merged(&merged(&kind.target, &legend), &own)
            });
            own.insert("targets".to_owned(), targets.collect());
            own.insert("datasource".to_owned(), datasource());
        }
        Ok(merged(&merged(&kind.panel, &Value::Object(own)), &panel.set))
    }
}

fn datasource() -> Value {
    json!({"type": "prometheus", "uid": "${datasource}"})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_words_go_over_common_ones_key_by_key_and_lists_as_a_whole() {
        let base = json!({"a": {"b": 1, "c": [1, 2]}, "d": null});
        let all = merged(&base, &json!({"a": {"c": [3], "e": 4}}));
        assert_eq!(all, json!({"a": {"b": 1, "c": [3], "e": 4}, "d": null}));
        assert_eq!(merged(&base, &Value::Null), base);
    }

    #[test]
    fn panels_go_from_left_to_right_and_a_line_is_as_high_as_its_highest() {
        let mut place = Place::default();
        let at = |place: &mut Place, size| {
            let taken = place.take(size);
            (taken["x"].as_u64().unwrap(), taken["y"].as_u64().unwrap())
        };
        assert_eq!(at(&mut place, [24, 1]), (0, 0));
        assert_eq!(at(&mut place, [12, 8]), (0, 1));
        assert_eq!(at(&mut place, [12, 4]), (12, 1));
        assert_eq!(at(&mut place, [3, 4]), (0, 9));
    }

    #[test]
    fn a_word_that_is_unknown_is_told() {
        let shared = Shared {
            dashboard: json!({}),
            links: Vec::new(),
            link: json!({}),
            variables_before: Vec::new(),
            variables_behind: Vec::new(),
            variables: BTreeMap::new(),
            kinds: BTreeMap::new(),
        };
        assert!(shared.variable("nobody").unwrap_err().contains("nobody"));
        assert!(shared.kind("nothing").unwrap_err().contains("nothing"));
        let unknown = "uid: u\ntitle: t\ndescription: d\nvariables: []\npanels: []\ncolour: red\n";
        assert!(serde_yaml::from_str::<Source>(unknown).unwrap_err().to_string().contains("colour"));
    }
}
