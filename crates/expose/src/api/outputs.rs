//! What each command prints with `--json`, and the JSON Schema of it, made from the types that are printed.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::Schema;

use super::route::{Type, of};
use super::{
    AcknowledgeAnswer, BandwidthFigures, CheckReport, ConfigReport, DiagnosisView, EventList, ExplainReport,
    FindingList, GidReport, HistoryView, IncidentDetail, IncidentList, LatencyFigures, MaintenanceList,
    MatrixView, NodeList, NodeVerdictView, NodesReport, OpenedReport, PauseView, PingFigures, ProbeReport,
    ReplayReport, SelfcheckReport, SightReport, SimulateRow, SweepPlanReport, SweepView,
};

/// Where the schemas of the OpenAPI document stand, and where those of a document of its own do.
const IN_OPENAPI: &str = "#/components/schemas/";
const IN_SCHEMA: &str = "#/$defs/";

/// What one command prints with `--json`.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// The command without the program's name, with the flag or argument that changes what is printed.
    pub command: &'static str,
    /// What is printed.
    pub text: &'static str,
    kind: Type,
}

const fn output(command: &'static str, text: &'static str, kind: Type) -> Output {
    Output { command, text, kind }
}

/// Every command that prints JSON.
pub const OUTPUTS: &[Output] = &[
    output("ack", "how many findings", of::<AcknowledgeAnswer>()),
    output("check", "the judgement of this machine", of::<CheckReport>()),
    output("check --self-audit", "every file that is opened", of::<OpenedReport>()),
    output("check --what-i-can-see", "what can be seen from here", of::<SightReport>()),
    output("config check", "what is wrong with a config file", of::<ConfigReport>()),
    output("diagnose", "what is wrong now, or whether it is the network", of::<DiagnosisView>()),
    output("events", "what happened", of::<EventList>()),
    output("explain", "the pages of an id", of::<ExplainReport>()),
    output("findings", "what is not fine", of::<FindingList>()),
    output("gids", "the GID tables of this machine", of::<GidReport>()),
    output("history", "one pair over the last day", of::<HistoryView>()),
    output("incidents", "what is to blame", of::<IncidentList>()),
    output("incidents NUMBER", "one incident with what a ticket needs", of::<IncidentDetail>()),
    output("maintenance", "what is in maintenance", of::<MaintenanceList>()),
    output("matrix", "the whole matrix of one metric", of::<MatrixView>()),
    output("nodes", "nodes and endpoints", of::<NodesReport>()),
    output("nodes remove", "the nodes that are left", of::<NodeList>()),
    output("nodes rename", "the nodes under their names now", of::<NodeList>()),
    output("pause", "what is paused now", of::<PauseView>()),
    output("probe", "one pair, or a list of pairs when a service has several peers", of::<ProbeReport>()),
    output("replay", "what other numbers would have said", of::<ReplayReport>()),
    output("resume", "what is paused now", of::<PauseView>()),
    output("selfcheck", "a batch of nodes, tested", of::<SelfcheckReport>()),
    output("simulate", "one figure on each line", of::<SimulateRow>()),
    output("slurm verdict", "what this node's agent knows", of::<NodeVerdictView>()),
    output("sweep", "the sweep at its end", of::<SweepView>()),
    output("sweep --plan", "what a sweep would cost", of::<SweepPlanReport>()),
];

impl Output {
    /// Its JSON Schema (draft 2020-12). Names and meanings only ever grow, so readers must allow names that it does not have.
    #[must_use]
    pub fn schema(&self) -> Value {
        let mut all: BTreeMap<String, RefOr<Schema>> = BTreeMap::new();
        // The figures are named only by a generic field, which the derive does not follow.
        for kind in [self.kind, of::<LatencyFigures>(), of::<BandwidthFigures>(), of::<PingFigures>()] {
            let mut nested = vec![((kind.name)().into_owned(), (kind.schema)())];
            (kind.nested)(&mut nested);
            all.extend(nested);
        }
        let all: BTreeMap<String, Value> =
            all.into_iter().map(|(name, schema)| (name, here(json!(schema)))).collect();
        let own = (self.kind.name)().into_owned();
        let mut wanted = BTreeSet::new();
        needed(&own, &all, &mut wanted);
        let definitions: BTreeMap<_, _> = all.into_iter().filter(|(name, _)| wanted.contains(name)).collect();
        json!({
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": format!("rdmascope {} --json", self.command),
            "description": self.text,
            "$ref": format!("{IN_SCHEMA}{own}"),
            "$defs": definitions,
        })
    }
}

/// The same schema with its references led to where they stand here.
fn here(schema: Value) -> Value {
    match schema {
        Value::Object(map) => Value::Object(
            map.into_iter()
                .map(|(key, value)| match (key.as_str(), value) {
                    ("$ref", Value::String(to)) => (key, json!(to.replace(IN_OPENAPI, IN_SCHEMA))),
                    (_, value) => (key, here(value)),
                })
                .collect(),
        ),
        Value::Array(list) => Value::Array(list.into_iter().map(here).collect()),
        other => other,
    }
}

/// Adds this definition and all that it leads to.
fn needed(name: &str, all: &BTreeMap<String, Value>, wanted: &mut BTreeSet<String>) {
    if !wanted.insert(name.to_owned()) {
        return;
    }
    let mut open: Vec<&Value> = all.get(name).into_iter().collect();
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                if let Some(to) = map.get("$ref").and_then(Value::as_str) {
                    needed(to.trim_start_matches(IN_SCHEMA), all, wanted);
                }
                open.extend(map.values());
            }
            Value::Array(list) => open.extend(list),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::openapi::tests::references;

    #[test]
    fn every_schema_holds_all_that_it_names_and_nothing_else() {
        for output in OUTPUTS {
            let schema = output.schema();
            let mut found = Vec::new();
            references(&schema, &mut found);
            for reference in &found {
                let pointer = reference.strip_prefix('#').unwrap();
                assert!(schema.pointer(pointer).is_some(), "{}: {reference} leads nowhere", output.command);
            }
            for name in schema["$defs"].as_object().unwrap().keys() {
                let reference = format!("{IN_SCHEMA}{name}");
                assert!(found.contains(&reference), "{}: nothing leads to {name}", output.command);
            }
        }
    }

    #[test]
    fn commands_are_in_order_and_each_is_there_once() {
        assert!(OUTPUTS.windows(2).all(|two| two[0].command < two[1].command));
    }

    #[test]
    fn every_value_is_described() {
        for output in OUTPUTS {
            let schema = output.schema();
            for (name, definition) in schema["$defs"].as_object().unwrap() {
                for (field, of) in definition["properties"].as_object().into_iter().flatten() {
                    // Of what may be null the words stand beside what it is otherwise.
                    let either = of["oneOf"].as_array().into_iter().flatten().chain([of]);
                    let mut words = either.filter_map(|one| one["description"].as_str());
                    assert!(
                        words.any(|text| !text.is_empty()),
                        "{}: {name}.{field} is not described",
                        output.command
                    );
                }
            }
        }
    }
}
