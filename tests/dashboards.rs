//! The shipped Grafana dashboards: made from their source, held to the rules, every expression understood by Prometheus' own parser.

#[path = "dashboards/lint.rs"]
mod lint;
#[path = "dashboards/promql.rs"]
mod promql;
#[path = "dashboards/shown.rs"]
mod shown;

use rdmascope_tests::dashboards::{all, files, folder, make};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

/// Links to these stand in tickets and on walls: they never change.
const UIDS: [&str; 6] = ["congestion", "endpoint", "incidents", "matrix", "node", "overview"];

#[test]
fn json_files_are_what_their_source_says() {
    let made = make(&folder().join("source")).unwrap_or_else(|why| panic!("{why}"));
    assert_eq!(made.keys().collect::<Vec<_>>(), UIDS, "one source for each dashboard");
    for (name, json) in &made {
        let path = folder().join(format!("{name}.json"));
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, json).expect("the file can be written");
        }
        let kept = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            kept == *json,
            "{}: is not what source/{name}.yaml says; UPDATE_GOLDEN=1 writes it",
            path.display()
        );
    }
    assert_eq!(files(&folder(), "json").len(), made.len(), "a JSON file without a source");
}

#[test]
fn each_file_holds_the_dashboard_of_its_name() {
    for path in files(&folder(), "json") {
        let dashboard: Value = serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert_eq!(dashboard["uid"], format!("rdmascope-{name}"), "{}", path.display());
    }
}

#[test]
fn dashboards_keep_the_rules() {
    let complaints: Vec<String> = all(&folder()).iter().flat_map(lint::complaints).collect();
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn every_dashboard_leads_to_every_other() {
    let known: BTreeSet<String> = UIDS.iter().map(|name| format!("/d/rdmascope-{name}")).collect();
    for dashboard in all(&folder()) {
        let links = dashboard["links"].as_array().unwrap().iter();
        let internal: BTreeSet<String> = links
            .filter_map(|link| link["url"].as_str())
            .filter(|url| url.starts_with('/'))
            .map(str::to_owned)
            .collect();
        assert_eq!(internal, known, "{}", dashboard["uid"]);
    }
}

#[test]
fn provisioning_files_name_what_is_there() {
    let read = |path: &str| -> serde_yaml::Value {
        let path = folder().join("provisioning").join(path);
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_yaml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let provider = &read("dashboards/rdmascope.yaml")["providers"][0];
    let readme = fs::read_to_string(folder().join("../README.md")).unwrap();
    let path = provider["options"]["path"].as_str().expect("a path");
    assert!(readme.contains(path), "the README says to put the files into {path}");
    assert_eq!(provider["allowUiUpdates"], false, "a change in Grafana would be lost");
    let source = &read("datasources/prometheus.yaml")["datasources"][0];
    assert_eq!(source["type"], "prometheus");
    let interval = source["jsonData"]["timeInterval"].as_str().expect("an interval");
    assert!(
        readme.contains(&format!("every {} ", interval.replace('s', ""))),
        "the README scrapes as often: {interval}"
    );
}
