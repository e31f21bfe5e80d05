"""The Helm chart: what helm makes of it for one node and for three, and that
Kubernetes, Prometheus and a node take it."""

import json
import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

import pytest
import yaml

from packages import pip_folder

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
BUILD = Path(os.environ["CORVO_BUILD_DIR"])
CHART = ROOT / "helm" / "corvo"
TEMPLATES = sorted(p for p in CHART.glob("templates/**/*") if p.is_file())
# The oldest version the chart says it is for, and a newer one.
KUBERNETES = ["1.25", "1.32"]
KINDS = ["configmap-v1", "networkpolicy-networking-v1", "pod-v1",
         "poddisruptionbudget-policy-v1", "secret-v1", "service-v1",
         "statefulset-apps-v1"]
ONE = ()
THREE = ("replicas=3",)
ALONE = ("cluster.enabled=false",)
ALL = ("replicas=5", "serviceMonitor.enabled=true",
       "prometheusRule.enabled=true", "cluster.antiAffinity=hard",
       "cluster.topologySpread=hard", "serviceMonitor.labels.a=b",
       "prometheusRule.labels.a=b", "podLabels.team=x",
       "podAnnotations.note=x", "persistence.storageClass=fast",
       "service.annotations.note=x", "service.type=LoadBalancer",
       "imagePullSecrets[0].name=pull", "nodeSelector.disk=ssd",
       "tolerations[0].operator=Exists",
       "networkPolicy.from[0].namespaceSelector.matchLabels.a=b")
EACH = {"one": ONE, "three": THREE, "alone": ALONE, "all": ALL}
each = pytest.mark.parametrize("sets", EACH.values(), ids=EACH.keys())


@lru_cache(None)
def tool(name):
    return subprocess.run([ROOT / "tools/deps", "path", name], check=True,
                          capture_output=True, text=True).stdout.strip()


def helm(verb, *words, sets=(), chart=CHART):
    args = [a for s in sets for a in ("--set", s)]
    # No file of the user changes what comes out.
    env = {k: v for k, v in os.environ.items() if not k.startswith("HELM_")}
    return subprocess.run([tool("helm"), verb, *words, chart, *args],
                          capture_output=True, text=True, check=False,
                          env={**env, "KUBECONFIG": "/nonexistent"})


@lru_cache(None)
def text_of(sets, version=KUBERNETES[-1]):
    p = helm("template", "--namespace", "jobs", "--kube-version", version,
             "rel", sets=sets)
    assert p.returncode == 0, p.stderr
    return p.stdout


def render(sets):
    """{kind: [object]}, of which the services are two."""
    found = {}
    for d in yaml.safe_load_all(text_of(sets)):
        found.setdefault(d["kind"], []).append(d)
    return found


def only(sets, kind):
    (one,) = render(sets)[kind]
    return one


def pod_of(sets):
    return only(sets, "StatefulSet")["spec"]["template"]["spec"]


def container_of(sets):
    (one,) = pod_of(sets)["containers"]
    return one


def load(name):
    return yaml.safe_load((CHART / name).read_text())


def settings():
    text = (ROOT / "common/proto/defs/settings.def").read_text()
    return set(re.findall(r"^SETTING\((\w+),", text, re.M))


# --- helm, Kubernetes and Prometheus take it -------------------------------


@each
def test_lint(sets):
    p = helm("lint", "--strict", sets=sets)
    assert p.returncode == 0, p.stdout + p.stderr


def with_definitions(schema, shared):
    """The schema with those definitions that it leads to."""
    found, todo = {}, [json.dumps(schema)]
    while todo:
        for name in re.findall(r'"#/\$defs/([^"]+)"', todo.pop()):
            if name not in found:
                found[name] = shared[name]
                todo.append(json.dumps(shared[name]))
    return {**schema, "$defs": found}


@pytest.fixture(scope="module")
def schemas(tmp_path_factory):
    """Folders with the schemas of each version, every file complete by itself:
    those of the package refer to each other by addresses in the web."""
    package = pip_folder("kubernetes-validate", "1.32.0")
    package = package / "kubernetes_validate" / "kubernetes-json-schema"
    made = tmp_path_factory.mktemp("schemas")

    def load_json(path):
        return json.loads(path.read_text().replace(
            "/api/_definitions.json#", "#"))

    for version in KUBERNETES:
        source = package / f"v{version}.0-local-strict"
        shared = load_json(source / "_definitions.json")["$defs"]
        (made / version).mkdir()
        for kind in KINDS:
            one = load_json(source / f"{kind}.json")
            del one["$id"]
            (made / version / f"{kind}.json").write_text(
                json.dumps(with_definitions(one, shared)))
    return made


def kubeconform(text, folder, tmp_path):
    """What the operator of Prometheus adds to Kubernetes has no schema."""
    (tmp_path / "all.yaml").write_text(text)
    return subprocess.run(
        [tool("kubeconform"), "-strict", "-summary", "-output", "json",
         "-skip", "ServiceMonitor,PrometheusRule", "-schema-location",
         f"{folder}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json",
         tmp_path / "all.yaml"], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("version", KUBERNETES)
@each
def test_kubernetes_knows_every_field(sets, version, schemas, tmp_path):
    p = kubeconform(text_of(sets, version), schemas / version, tmp_path)
    assert p.returncode == 0, p.stdout + p.stderr
    count = json.loads(p.stdout)["summary"]
    assert count["valid"] >= 7, count
    assert count["skipped"] == (2 if sets == ALL else 0)


@pytest.mark.parametrize("right,wrong", [
    ("publishNotReadyAddresses: true", "publishAll: true"),
    ("maxUnavailable: 1", "maxUnavailable: []"),
    ("containerPort: 8080", "containerPort: http"),
])
def test_kubernetes_would_complain(right, wrong, schemas, tmp_path):
    text = text_of(ONE)
    assert right in text
    p = kubeconform(text.replace(right, wrong), schemas / KUBERNETES[0],
                    tmp_path)
    assert p.returncode != 0 and wrong.split(":")[0] in p.stdout


def test_the_alert_rules_are_those_of_the_docs(tmp_path):
    spec = only(ALL, "PrometheusRule")["spec"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(spec))
    p = subprocess.run(["promtool", "check", "rules", tmp_path / "rules.yaml"],
                       capture_output=True, text=True, check=False)
    assert p.returncode == 0, p.stdout + p.stderr
    docs = yaml.safe_load((ROOT / "docs/monitoring/alerts.yaml").read_text())
    ours = [r for g in spec["groups"] for r in g["rules"]]
    theirs = [r for g in docs["groups"] for r in g["rules"]]
    assert len(ours) == len(theirs) > 10
    # Each is the same, asked of this release alone.
    here = 'job="rel-corvo"'
    for a, b in zip(ours, theirs):
        series = re.findall(r"\b(?:corvo_\w+|up)\b(\{[^}]*\})?", a["expr"])
        assert series and all(here in s for s in series), a["expr"]
        plain = a["expr"].replace("{" + here + "}", "").replace(
            here + ",", "")
        assert plain == b["expr"].replace('{job="corvo"}', "")
        assert {**a, "expr": ""} == {**b, "expr": ""}


def test_each_node_is_scraped_once():
    monitor = only(ALL, "ServiceMonitor")["spec"]
    want = monitor["selector"]["matchLabels"].items()
    found = [s for s in render(ALL)["Service"]
             if want <= s["metadata"]["labels"].items()]
    assert [s["metadata"]["name"] for s in found] == ["rel-corvo-nodes"]
    (end,) = monitor["endpoints"]
    assert end["port"] in [p["name"] for p in found[0]["spec"]["ports"]]
    assert end["relabelings"] == [
        {"targetLabel": "job", "replacement": "rel-corvo"}]
    routes = (ROOT / "common/proto/defs/routes.def").read_text()
    assert f'"{end["path"]}"' in routes


def test_nothing_of_the_operator_unless_asked():
    assert not {"ServiceMonitor", "PrometheusRule"} & set(render(THREE))


# --- what a node is told ---------------------------------------------------


@each
def test_a_node_takes_its_settings(sets, tmp_path):
    conf = only((*sets, "settings.event_retention=20000000",
                 "settings.retention=24h"), "ConfigMap")["data"]["corvo.conf"]
    assert "event_retention = 20000000\n" in conf
    (tmp_path / "corvo.conf").write_text(conf)
    advertise = "rel-corvo-0.rel-corvo-nodes.jobs.svc.cluster.local:9400"
    subprocess.run([BUILD / "cli" / "corvo", "config", "check",
                    tmp_path / "corvo.conf"], check=True,
                   env={**os.environ, "CORVO_RAFT_ADVERTISE": advertise})


def test_settings_exist():
    known = settings()
    assert set(load("values.yaml")["settings"]) <= known
    schema = json.loads((CHART / "values.schema.json").read_text())
    fixed = {row["required"][0] for row in
             schema["properties"]["settings"]["not"]["anyOf"]}
    conf = (CHART / "templates/configmap.yaml").read_text()
    written = set(re.findall(r"^    (\w+) = ", conf, re.M))
    env = {e["name"].removeprefix("CORVO_").lower()
           for e in container_of(THREE)["env"]}
    assert written | env | fixed <= known
    # What the chart writes itself cannot be given twice.
    assert written | env <= fixed


def test_nodes_know_each_other():
    conf = only(THREE, "ConfigMap")["data"]["corvo.conf"]
    assert "bootstrap_expect = 3\n" in conf
    assert "discover = kubernetes\n" in conf
    env = {e["name"]: e.get("value") for e in container_of(THREE)["env"]}
    assert env["CORVO_RAFT_ADVERTISE"].replace(
        "$(CORVO_NODE_ID)", "rel-corvo-0") == (
            "rel-corvo-0.rel-corvo-nodes.jobs.svc.cluster.local:9400")
    spec = only(THREE, "StatefulSet")["spec"]
    headless, = (s for s in render(THREE)["Service"]
                 if s["spec"].get("clusterIP") == "None")
    assert spec["serviceName"] == headless["metadata"]["name"]
    assert headless["spec"]["publishNotReadyAddresses"] is True
    # A node that waits for the others is not ready: they must be started all
    # the same.
    assert spec["podManagementPolicy"] == "Parallel"


def test_the_port_for_other_nodes_is_for_nodes():
    rules = only(THREE, "NetworkPolicy")["spec"]
    pods = only(THREE, "StatefulSet")["spec"]["selector"]["matchLabels"]
    assert rules["podSelector"]["matchLabels"] == pods
    by_port = {r["ports"][0]["port"]: r["from"] for r in rules["ingress"]}
    assert by_port["peer"] == [{"podSelector": {"matchLabels": pods}}]
    assert set(by_port) == {"http", "peer"}
    ports = {p["name"]: p["containerPort"] for p in container_of(THREE)[
        "ports"]}
    assert ports == {"http": 8080, "peer": 9400}


def test_a_node_that_shall_stay_alone_opens_no_port():
    text = text_of(ALONE)
    assert "9400" not in text and "peer" not in text and "Secret" not in text
    assert container_of(ALONE)["command"][:2] == ["corvo", "server"]
    assert "preStop" not in text


def test_the_client_service_has_no_port_for_nodes():
    client, = (s for s in render(THREE)["Service"]
               if s["spec"].get("clusterIP") != "None")
    assert [p["name"] for p in client["spec"]["ports"]] == ["http"]


# --- the secret ------------------------------------------------------------


def test_nodes_read_the_secret():
    secret = only(THREE, "Secret")
    assert secret["metadata"]["annotations"] == {
        "helm.sh/resource-policy": "keep"}
    volume, = (v["secret"] for v in pod_of(THREE)["volumes"]
               if v["name"] == "cluster")
    assert volume["secretName"] == secret["metadata"]["name"]
    mount, = (m["mountPath"] for m in container_of(THREE)["volumeMounts"]
              if m["name"] == "cluster")
    conf = only(THREE, "ConfigMap")["data"]["corvo.conf"]
    (key,) = secret["data"]
    assert f"cluster_secret_file = {mount}/{key}\n" in conf
    # Not for everybody: the group is that of the node.
    assert volume["defaultMode"] == 0o440
    assert pod_of(THREE)["securityContext"]["fsGroup"]


def test_a_secret_that_is_there():
    sets = (*THREE, "cluster.existingSecret=mine")
    assert "Secret" not in render(sets)
    assert "secretName: mine\n" in text_of(sets)


# --- the pod ---------------------------------------------------------------


def test_spread_over_machines_and_zones():
    soft, hard = pod_of(THREE), pod_of(ALL)
    labels = only(THREE, "StatefulSet")["spec"]["selector"]["matchLabels"]
    term = soft["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"][0][
            "podAffinityTerm"]
    assert term["labelSelector"]["matchLabels"] == labels
    assert hard["affinity"]["podAntiAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"][0][
            "topologyKey"] == "kubernetes.io/hostname"
    for pod, word in ((soft, "ScheduleAnyway"), (hard, "DoNotSchedule")):
        (rule,) = pod["topologySpreadConstraints"]
        assert rule["whenUnsatisfiable"] == word
    off = pod_of((*THREE, "cluster.antiAffinity=off",
                  "cluster.topologySpread=off"))
    own = pod_of((*THREE, "affinity.nodeAffinity.x=y"))
    assert "affinity" not in off and "topologySpreadConstraints" not in off
    assert own["affinity"] == {"nodeAffinity": {"x": "y"}}
    assert "affinity" not in pod_of(ONE)


@each
def test_the_pod_may_do_little(sets):
    pod, container = pod_of(sets), container_of(sets)
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["automountServiceAccountToken"] is False
    limits = container["securityContext"]
    assert limits["readOnlyRootFilesystem"]
    assert limits["allowPrivilegeEscalation"] is False
    assert limits["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"]["memory"]
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert container[probe]["httpGet"]["port"] == "http"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    # Not /readyz: a node without a leader must not be killed for it.
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"


@each
def test_there_is_time_to_stop(sets):
    """The node's own limit, which the hand-over is part of, and before it 3 s
    in which requests may come yet."""
    conf = only(sets, "ConfigMap")["data"]["corvo.conf"]
    own = int(re.search(r"shutdown_timeout = (\d+)s", conf).group(1))
    stop = container_of(sets).get("lifecycle", {}).get("preStop")
    grace = pod_of(sets)["terminationGracePeriodSeconds"]
    assert grace > own + (3 if stop else 0)
    assert stop is None or stop["exec"]["command"] == ["sleep", "3"]


def test_one_node_at_a_time():
    pdb = only(THREE, "PodDisruptionBudget")["spec"]
    assert pdb["maxUnavailable"] == 1
    assert pdb["selector"] == only(THREE, "StatefulSet")["spec"]["selector"]


def test_the_smoke_test_is_no_node():
    """Its pod must not be in the services or the disruption budget."""
    labels = only(THREE, "Pod")["metadata"]["labels"]
    pods = only(THREE, "StatefulSet")["spec"]["selector"]["matchLabels"]
    assert not pods.items() <= labels.items()


# --- values ----------------------------------------------------------------


def test_version_is_the_project_s():
    cmake = (ROOT / "CMakeLists.txt").read_text()
    version = re.search(r"project\(corvo VERSION ([\d.]+)", cmake).group(1)
    assert load("Chart.yaml")["appVersion"] == version
    assert container_of(ONE)["image"] == f"corvo:{version}"


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.name)
def test_templates_use_values_that_exist(path):
    values = load("values.yaml")
    for dotted in re.findall(r"\.Values\.([\w.]+)", path.read_text()):
        node = values
        for key in dotted.split("."):
            if key in ("nameOverride", "fullnameOverride"):
                break
            assert key in node, "%s is not in values.yaml" % dotted
            node = node[key]


@pytest.mark.parametrize("sets,says", [
    (("replicas=3", "cluster.enabled=false"), "several separate servers"),
    (("open=false",), "no API keys yet"),
    (("settings.bind=x",), "settings"),
    (("settings.join=x",), "settings"),
    (("replicas=0",), "replicas"),
    (("cluster.antiAffinity=maybe",), "antiAffinity"),
    (("cluster.secret=x",), "secret"),
])
def test_refused(sets, says):
    p = helm("template", "rel", sets=sets)
    assert p.returncode != 0 and says in p.stderr


@pytest.mark.parametrize("sets,words,others", [
    (ONE, [], ["odd number", "Before replicas"]),
    (THREE, ["a cluster of 3 nodes", "corvo cluster remove rel-corvo-2"],
     ["odd number"]),
    (("replicas=4",), ["4 nodes stand still when 2 are away; 3 would"], []),
    (("networkPolicy.enabled=false",), ["networkPolicy is off"], []),
])
def test_notes(sets, words, others, tmp_path):
    """What an installation says at its end. Without a cluster helm renders
    only objects, so in a copy of the chart the notes are in one."""
    chart = tmp_path / "corvo"
    shutil.copytree(CHART, chart)
    notes = chart / "templates" / "NOTES.txt"
    (chart / "templates" / "_notes.tpl").write_text(
        '{{ define "notes" }}' + notes.read_text() + "{{ end }}")
    notes.unlink()
    (chart / "templates" / "notes.yaml").write_text(
        'kind: Notes\ntext: {{ include "notes" . | toJson }}\n')
    p = helm("template", "--namespace", "jobs", "--show-only",
             "templates/notes.yaml", "rel", sets=sets, chart=chart)
    assert p.returncode == 0, p.stderr
    text = yaml.safe_load(p.stdout)["text"]
    assert all(w in text for w in words), text
    assert not [w for w in others if w in text], text
    assert "http://rel-corvo.jobs.svc:8080" in text


def test_a_package_holds_all_files(tmp_path):
    """The alert rules are a link, which a package must not have."""
    p = helm("package", "--destination", str(tmp_path))
    assert p.returncode == 0, p.stderr
    (package,) = tmp_path.glob("*.tgz")
    shutil.unpack_archive(package, tmp_path / "out")
    assert (tmp_path / "out/corvo/files/alerts.yaml").read_text() == \
        (ROOT / "docs/monitoring/alerts.yaml").read_text()
