//! What stands for the variables of a dashboard, asked for as Grafana does when somebody opens it.

use rdmascope_tests::dashboards::interpolate;
use rdmascope_tests::prometheus::Prometheus;
use serde_json::Value;
use std::collections::BTreeMap;

/// Values of the variables of a dashboard. Where one may be chosen it is the one that `wished` names, else the first; where many may be, all.
pub(super) fn resolve(
    prometheus: &Prometheus,
    dashboard: &Value,
    wished: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, String> {
    let mut values = BTreeMap::new();
    for variable in dashboard["templating"]["list"].as_array().into_iter().flatten() {
        let name = variable["name"].as_str().unwrap_or_default().to_owned();
        let value = match variable["type"].as_str() {
            Some("query") => chosen(prometheus, variable, &values, wished.get(&name))
                .map_err(|why| format!("variable {name}: {why}"))?,
            Some("textbox") => variable["query"].as_str().unwrap_or_default().to_owned(),
            _ => continue,
        };
        values.insert(name, value);
    }
    values.insert("__rate_interval".to_owned(), prometheus.rate_interval());
    Ok(values)
}

fn chosen(
    prometheus: &Prometheus,
    variable: &Value,
    before: &BTreeMap<String, String>,
    wished: Option<&String>,
) -> Result<String, String> {
    let query = variable["query"]["query"].as_str().unwrap_or_default();
    let (selector, label) = label_values(query).ok_or_else(|| format!("not understood: {query}"))?;
    let selector = interpolate(selector, |name| before.get(name).cloned());
    let options = prometheus.label_values(&selector, label)?;
    let first =
        options.first().ok_or_else(|| format!("nothing to choose from: {selector} has no {label}"))?;
    if variable["includeAll"] != true {
        return Ok(wished.filter(|wished| options.contains(wished)).unwrap_or(first).clone());
    }
    if let Some(all) = variable["allValue"].as_str() {
        return Ok(all.to_owned());
    }
    let all: Vec<_> = options.iter().map(|option| escaped(option)).collect();
    Ok(if all.len() == 1 { all.concat() } else { format!("({})", all.join("|")) })
}

/// Selector and label of `label_values(SELECTOR, LABEL)`.
fn label_values(query: &str) -> Option<(&str, &str)> {
    let (selector, label) = query.strip_prefix("label_values(")?.strip_suffix(')')?.rsplit_once(',')?;
    Some((selector.trim(), label.trim()))
}

/// A value as part of a regular expression within quotes.
fn escaped(value: &str) -> String {
    let special = |c: char| "\\^$*+?.()|[]{}".contains(c);
    value.chars().map(|c| if special(c) { format!("\\\\{c}") } else { c.to_string() }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_for_values_has_a_selector_and_a_label() {
        assert_eq!(
            label_values("label_values(up{job=~\"$job\",x=\"y\"}, device)"),
            Some(("up{job=~\"$job\",x=\"y\"}", "device"))
        );
        assert_eq!(label_values("query_result(up)"), None);
        assert_eq!(escaped("10.0.0.1:9"), "10\\\\.0\\\\.0\\\\.1:9");
    }
}
