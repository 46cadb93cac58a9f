"""Renders the Helm chart and validates every object: the part of `cargo xtask deploy` for which there are Python libraries alone.

Reads {"chart", "schema", "versions", "cases": {name: values}, "refused": {name: values}, "yaml": {name: text}} and writes
{"complaints": [text], "cases": {name: {"files": {template: text}, "objects": [...]}}, "refused": {name: message}, "yaml": {name: [...]}}.
"""

import copy
import json
import sys

import jsonschema
import kubernetes_validate
import yaml
from helm_python import Chart
from helm_python.chart import lint
from helm_python.errors import HelmError

WARNING = 2


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document is not None]


def wrong_with(thing, schema, versions):
    """Why an object is no good, or None."""
    if thing["apiVersion"].startswith("monitoring.coreos.com/"):
        found = next(iter(jsonschema.Draft7Validator(schema).iter_errors(thing)), None)
        return found and f"{found.json_path}: {found.message}"
    for version in versions:
        try:
            kubernetes_validate.validate(thing, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            return f"Kubernetes {version}: {'.'.join(map(str, error.path))}: {error.message}"
    return None


def misspelt(thing):
    """The same with a key that does not exist, which every validator must refuse."""
    thing = copy.deepcopy(thing)
    inner = thing.get("spec", thing.get("metadata"))
    inner["hostNetwrok"] = True
    return thing


def look(name, objects, asked, complaints):
    for thing in objects:
        said = f"{name}: {thing['kind']} {thing['metadata']['name']}"
        why = wrong_with(thing, asked["schema"], asked["versions"])
        if why:
            complaints.append(f"{said}: {why}")
        if not wrong_with(misspelt(thing), asked["schema"], asked["versions"]):
            complaints.append(f"{said}: a misspelt key is not seen, so nothing is validated")


def main():
    asked = json.load(sys.stdin)
    complaints, cases, refused = [], {}, {}
    chart = Chart.load(asked["chart"])
    for name, values in asked["cases"].items():
        for message in lint(asked["chart"], values, strict=True)["messages"]:
            if message["severity"] >= WARNING:
                complaints.append(f"{name}: helm lint: {message['path']}: {message['error']}")
        files = chart.render(values, name="rdmascope", namespace="rdmascope")
        objects = [thing for text in files.values() for thing in documents(text)]
        look(name, objects, asked, complaints)
        cases[name] = {"files": files, "objects": objects}
    for name, values in asked["refused"].items():
        try:
            chart.render(values, name="rdmascope", namespace="rdmascope")
            refused[name] = ""
        except HelmError as error:
            refused[name] = str(error)
    texts = {name: documents(text) for name, text in asked["yaml"].items()}
    look("kustomize", texts["kustomize"], asked, complaints)
    json.dump({"complaints": complaints, "cases": cases, "refused": refused, "yaml": texts}, sys.stdout)


main()
