"""The image and the compose files, as far as that can be seen without making
one: packages, files, users, and what docker-compose says. For a release build,
which is what the image has."""

import os
import re
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
BUILD = Path(os.environ["CORVO_BUILD_DIR"])
COMPOSE = ["compose.yaml", "compose.cluster.yaml"]


def version():
    cmake = (ROOT / "CMakeLists.txt").read_text()
    return re.search(r"project\(corvo VERSION ([\d.]+)", cmake).group(1)


def stages():
    """[[(word, rest)]] of the Dockerfile, one list for each FROM."""
    text = re.sub(r"^\s*#.*\n", "", (ROOT / "Dockerfile").read_text(),
                  flags=re.M)
    found = []
    for line in text.replace("\\\n", " ").splitlines():
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        if word:
            found[-1].append((word, rest.strip()))
    return found


def of(stage, word):
    return [rest for w, rest in stage if w == word]


# --- the Dockerfile --------------------------------------------------------


def test_two_stages_of_the_same_debian():
    build, run = stages()
    assert of(build, "FROM") == ["debian:12-slim AS build"]
    assert of(run, "FROM") == ["debian:12-slim"]
    known = {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME",
             "EXPOSE", "HEALTHCHECK", "ENTRYPOINT"}
    assert {w for s in (build, run) for w, _ in s} <= known


def programs():
    found = [BUILD / "cli" / "corvo",
             *(p / p.name for p in sorted(BUILD.glob("corvo-*")))]
    assert len(found) == 6 and all(p.is_file() for p in found), found
    return found


def linked_packages():
    """The Debian packages of the libraries the programs name themselves."""
    names, paths = set(), {}
    for program in programs():
        needed = subprocess.run(["readelf", "-d", program], check=True,
                                capture_output=True, text=True).stdout
        names |= set(re.findall(r"\(NEEDED\).*\[(.*?)\]", needed))
        out = subprocess.run(["ldd", program], check=True,
                             capture_output=True, text=True).stdout
        paths |= dict(re.findall(r"(\S+) => (/\S+)", out))
    return {package_of(os.path.realpath(paths[n])) for n in names}


def package_of(path):
    # Packages may name it as it was before /lib went into /usr.
    for name in (path, path.removeprefix("/usr")):
        p = subprocess.run(["dpkg", "-S", name], capture_output=True,
                           text=True, check=False)
        if p.returncode == 0:
            return p.stdout.split(":")[0]
    raise AssertionError(f"no package has {path}")


def test_packages_are_those_the_programs_are_linked_with():
    run = " ".join(of(stages()[1], "RUN"))
    named = re.search(r"--no-install-recommends\s(.*?)&&", run).group(1)
    assert named.split() == sorted(named.split())
    # Part of every Debian, and the zones of schedules.
    base, data = {"libc6", "libgcc-s1", "libstdc++6"}, {"tzdata"}
    assert set(named.split()) == (linked_packages() - base) | data


def in_context():
    """The files .dockerignore lets through, by its last line that fits."""
    rows = [r for r in (ROOT / ".dockerignore").read_text().splitlines()
            if r and not r.startswith("#")]
    names = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "--cached", "--others",
         "--exclude-standard"], check=True, capture_output=True,
        text=True).stdout.splitlines()

    def is_in(name):
        parts = name.split("/")
        taken = True
        for row in rows:
            pattern = row.lstrip("!")
            if pattern.startswith("**/"):
                fits = any(fnmatch(p, pattern[3:]) for p in parts)
            else:
                depth = pattern.count("/") + 1
                fits = fnmatch("/".join(parts[:depth]), pattern)
            if fits:
                taken = row.startswith("!")
        return taken

    return [n for n in names if is_in(n) and (ROOT / n).is_file()]


def test_the_build_finds_all_it_needs(tmp_path):
    """In a folder with nothing but the context, CMake finds every source."""
    names = in_context()
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    p = subprocess.run(
        ["cmake", "--preset", "release", "-DBUILD_TESTING=OFF"],
        cwd=tmp_path, capture_output=True, text=True, check=False)
    assert p.returncode == 0, p.stdout + p.stderr
    assert not [n for n in names if n.startswith(("tests/", "docs/"))]


def test_runs_as_nobody_in_particular():
    run = stages()[1]
    assert of(run, "USER") == ["10001:10001"]
    made = " ".join(of(run, "RUN"))
    assert "--gid 10001" in made and "--uid 10001" in made
    chart = yaml.safe_load((ROOT / "helm/corvo/values.yaml").read_text())
    assert chart["podSecurityContext"]["runAsUser"] == 10001
    # Later steps would be root's again.
    words = [w for w, _ in run]
    assert not {"RUN", "COPY"} & set(words[words.index("USER"):])
    assert of(run, "ENTRYPOINT") == ['["corvo", "server"]']
    assert '["corvo", "status"]' in of(run, "HEALTHCHECK")[0]


def test_what_the_image_sets_are_settings():
    known = set(re.findall(
        r"^SETTING\((\w+),", (ROOT / "common/proto/defs/settings.def")
        .read_text(), re.M))
    env = " ".join(of(stages()[1], "ENV"))
    names = re.findall(r"CORVO_(\w+)=", env)
    assert names and {n.lower() for n in names} <= known
    # Who may use the server is said by whoever runs it.
    assert "OPEN" not in names


# --- compose ---------------------------------------------------------------


def load(name):
    return yaml.safe_load((ROOT / name).read_text())


@pytest.mark.parametrize("name", COMPOSE)
def test_compose_takes_it(name):
    assert shutil.which("docker-compose"), "run: tools/deps test"
    p = subprocess.run(["docker-compose", "-f", ROOT / name, "config"],
                       capture_output=True, text=True, check=False)
    assert p.returncode == 0, p.stderr
    assert "warn" not in p.stderr.lower(), p.stderr
    services = yaml.safe_load(p.stdout)["services"]
    assert set(services) == set(load(name)["services"])


@pytest.mark.parametrize("name", COMPOSE)
def test_services_are_shut_in(name):
    known = set(re.findall(
        r"^SETTING\((\w+),", (ROOT / "common/proto/defs/settings.def")
        .read_text(), re.M))
    for service in load(name)["services"].values():
        assert service["image"] == f"corvo:{version()}"
        assert service["read_only"] and service["cap_drop"] == ["ALL"]
        for port in service.get("ports", []):
            assert port.startswith("127.0.0.1:"), "nobody has to log in"
        for key in service.get("environment", {}):
            assert key.removeprefix("CORVO_").lower() in known, key


def test_three_nodes_know_each_other():
    services = load("compose.cluster.yaml")["services"]
    nodes = {n: s for n, s in services.items() if n != "secret"}
    assert sorted(nodes) == ["n1", "n2", "n3"]
    for name, s in nodes.items():
        env = s["environment"]
        assert env["CORVO_NODE_ID"] == name
        assert env["CORVO_RAFT_ADVERTISE"] == f"{name}:9400"
        assert env["CORVO_RAFT_ADVERTISE"] in env["CORVO_JOIN"].split(",")
        assert env["CORVO_BOOTSTRAP_EXPECT"] == str(len(nodes))
        assert "entrypoint" not in s
        assert f"{name}:/var/lib/corvo" in s["volumes"]
    assert len({s["ports"][0] for s in nodes.values()}) == 3


def test_the_secret_is_made_once(tmp_path):
    words = load("compose.cluster.yaml")["services"]["secret"]["entrypoint"]
    script = words[-1].replace("/etc/corvo", str(tmp_path))
    secret = tmp_path / "cluster.secret"
    subprocess.run([*words[:-1], script], check=True)
    first = secret.read_text()
    assert re.fullmatch(r"[0-9a-f]{64}", first)
    assert secret.stat().st_mode & 0o777 == 0o600
    subprocess.run([*words[:-1], script], check=True)
    assert secret.read_text() == first
