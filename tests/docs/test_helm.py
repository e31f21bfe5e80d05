"""The Helm chart: its files agree with each other and with the settings."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
BUILD = Path(os.environ["CORVO_BUILD_DIR"])
CHART = ROOT / "helm" / "corvo"
TEMPLATES = sorted(p for p in CHART.glob("templates/**/*") if p.is_file())
ACTION = re.compile(r"\{\{-?\s*(.*?)\s*-?\}\}", re.S)


def load(name):
    return yaml.safe_load((CHART / name).read_text())


def settings():
    text = (ROOT / "common/proto/defs/settings.def").read_text()
    return set(re.findall(r"^SETTING\((\w+),", text, re.M))


def test_version_is_the_project_s():
    cmake = (ROOT / "CMakeLists.txt").read_text()
    version = re.search(r"project\(corvo VERSION ([\d.]+)", cmake).group(1)
    assert load("Chart.yaml")["appVersion"] == version


def check(value, schema, path):
    """What values.schema.json says about one value of values.yaml."""
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool,
             "integer": int, "number": (int, float)}
    want = schema.get("type")
    if want:
        want = want if isinstance(want, list) else [want]
        assert any(isinstance(value, kinds[w]) for w in want), path
    if "enum" in schema:
        assert value in schema["enum"], path
    if "minimum" in schema:
        assert value >= schema["minimum"], path
    if isinstance(value, dict):
        for key in schema.get("required", []):
            assert key in value, path + "." + key
        for key, sub in value.items():
            more = schema.get("additionalProperties", True)
            inner = schema.get("properties", {}).get(key, more)
            assert inner is not False, "%s.%s is not in the schema" % (
                path, key)
            if isinstance(inner, dict):
                check(sub, inner, path + "." + key)


def test_values_fit_their_schema():
    schema = json.loads((CHART / "values.schema.json").read_text())
    check(load("values.yaml"), schema, "values")


def test_settings_exist():
    known = settings()
    assert set(load("values.yaml")["settings"]) <= known
    schema = json.loads((CHART / "values.schema.json").read_text())
    fixed = {row["required"][0] for row in
             schema["properties"]["settings"]["not"]["anyOf"]}
    conf = (CHART / "templates/configmap.yaml").read_text()
    written = set(re.findall(r"^    (\w+) = ", conf, re.M))
    assert written <= known and fixed <= known
    # What the chart writes itself cannot be given twice.
    assert written <= fixed


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.name)
def test_template(path):
    text = path.read_text()
    assert text.count("{{") == text.count("}}")
    values = load("values.yaml")
    optional = {"nameOverride", "fullnameOverride"}
    depth = 0
    for action in ACTION.findall(text):
        word = action.split()[0]
        if word in ("if", "range", "with", "define"):
            depth += 1
        elif word == "end":
            depth -= 1
        assert depth >= 0, "an end too many"
        for dotted in re.findall(r"\.Values\.([\w.]+)", action):
            node = values
            for key in dotted.split("."):
                if key in optional:
                    break
                assert key in node, "%s is not in values.yaml" % dotted
                node = node[key]
    assert depth == 0, "an end is missing"


def test_stop_is_longer_than_the_node_s_own():
    text = (CHART / "templates/statefulset.yaml").read_text()
    assert "terminationGracePeriodSeconds: {{ add (int " \
        ".Values.shutdownTimeoutSeconds) 10 }}" in text


def test_the_smoke_test_is_no_node():
    """Its pod must not be in the services or the disruption budget."""
    text = (CHART / "templates/tests/smoke.yaml").read_text()
    assert "corvo.labels" not in text and "corvo.selectorLabels" not in text


def test_big_numbers_are_written_out():
    text = (CHART / "templates/configmap.yaml").read_text()
    assert '{{ include "corvo.setting" $value }}' in text


if shutil.which("helm"):  # Debian has no package of it

    def render(*sets):
        args = [a for s in sets for a in ("--set", s)]
        return subprocess.run(
            ["helm", "template", "rel", str(CHART), "--kube-version", "1.30",
             *args], capture_output=True, text=True, check=False)

    def test_lint():
        subprocess.run(["helm", "lint", "--strict", str(CHART)], check=True)

    def test_rendered_settings_are_taken_by_a_node(tmp_path):
        out = render("settings.event_retention=20000000",
                     "settings.retention=24h").stdout
        conf = next(d["data"]["corvo.conf"] for d in yaml.safe_load_all(out)
                    if d["kind"] == "ConfigMap")
        (tmp_path / "corvo.conf").write_text(conf)
        subprocess.run([BUILD / "cli" / "corvo", "config", "check",
                        tmp_path / "corvo.conf"], check=True)

    @pytest.mark.parametrize("value,says", [
        ("replicas=3", "runs one node"),
        ("open=false", "no API keys yet"),
        ("settings.bind=x", "/settings"),
    ])
    def test_refused(value, says):
        p = render(value)
        assert p.returncode != 0 and says in p.stderr
