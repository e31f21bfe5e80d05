"""The exercise of docs/hacking.md is carried out as it is written.

The blocks of the page are applied to a copy of the tree, which is built and
run on the data of a node without them. The copy stays in the build folder, so
that the next time only what changed is built.
"""

import filecmp
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from node import API, BUILD, Node, wait_until

ROOT = Path(os.environ["CORVO_SOURCE_DIR"])
PAGE = ROOT / "docs" / "hacking.md"
TREE = BUILD / "exercise" / "tree"
OUT = BUILD / "exercise" / "build"
PROGRAMS = ["corvo", "corvo-supervisor", "corvo-raftd", "corvo-httpd",
            "corvo-viewd", "corvo-sched", "gen_docs", "wire_lock"]
NOT_COPIED = {".git", "build", "data", "__pycache__"}
FILES_MAX = 8  # that are written by hand; more would be a worse design


# --- the page ---------------------------------------------------------------


def blocks():
    """(file, how, where, lines) of each change the page shows."""
    text = PAGE.read_text().split("\n## Exercise: ", 1)[1]
    text = text.split("\n## ", 1)[0]
    found = []
    for block in re.findall(r"```c\n(.*?)```", text, re.S):
        lines = [line.removeprefix("   ") for line in block.splitlines()]
        lines = [x for x in lines if x.strip()]
        heads = [x for x in lines if x.startswith("// ")]
        body = [x for x in lines if not x.startswith("// ")]
        for head in heads:
            m = re.fullmatch(
                r"// ([\w./-]+), (before|after|one higher:) (.+)", head)
            assert m, f"{PAGE}: where does this go? {head}"
            found.append((*m.groups(), body))
    assert len(found) >= 10, "the page shows its changes in blocks"
    return found


def next_tag(message):
    """One more than any that was ever given, as the lock has them."""
    lock = (ROOT / "tests/golden/wire.lock").read_text()
    tags = re.findall(rf"^(?:field |rpc corvo\.v1\.){message} (\d+) ", lock,
                      re.M)
    assert tags, message
    return max(map(int, tags)) + 1


def one_place(text, where, file):
    """The only one; what a page points at must be found by its reader."""
    assert text.count(where) == 1, \
        f"{file} has {text.count(where)} times {where!r}"
    return text.index(where)


def indented(lines, like):
    """As the line they stand beside: eight blanks are a tab."""
    margin = re.match(r"\s*", like)[0]
    if not margin:
        return lines
    margin = "\t" if like.startswith("\t") else margin
    return [margin + re.sub(r"^ {8}", "\t", line) for line in lines]


def changed(text, file, how, where, lines):
    at = one_place(text, where, file)
    start = text.rfind("\n", 0, at) + 1
    if how == "one higher:":
        number = re.compile(r"\d+").search(text, at + len(where))
        return (text[:number.start()] + str(int(number[0]) + 1) +
                text[number.end():])
    if how == "after":
        # to the end of the statement, the row or the line of a text
        at = re.compile(r"[;,]\n|\"\n").search(text, at).end()
    else:
        at = start
    line = text[start:text.find("\n", start)]
    new = "\n".join(indented(lines, line)) + "\n"
    tag = re.match(r"\s*(?:RPC_)?FIELD\((\w+), N,", new)
    if tag:
        new = new.replace(", N,", f", {next_tag(tag[1])},", 1)
    return text[:at] + new + text[at:]


# --- the tree ---------------------------------------------------------------


def sources():
    """{path: bytes} of the tree, with the changes of the page."""
    files = {}
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in NOT_COPIED]
        for name in names:
            path = Path(folder) / name
            if path.is_file() and not path.is_symlink():
                files[str(path.relative_to(ROOT))] = path.read_bytes()
    for file, how, where, lines in blocks():
        assert file in files, f"{PAGE}: there is no {file}"
        text = files[file].decode()
        files[file] = changed(text, file, how, where, lines).encode()
    return files


def write(files):
    """What is there already keeps its time, and is not built again."""
    for path in list(TREE.rglob("*")):
        if path.is_file() and str(path.relative_to(TREE)) not in files:
            path.unlink()
    for name, data in files.items():
        path = TREE / name
        if not path.exists() or path.read_bytes() != data:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        if os.access(ROOT / name, os.X_OK):
            path.chmod(0o755)


def run(*command, status=0, **named):
    done = subprocess.run([str(x) for x in command], text=True,
                          capture_output=True, **named)
    assert (done.returncode == 0) == (status == 0), \
        f"{command}\n{done.stdout[-8000:]}\n{done.stderr[-8000:]}"
    return done.stdout


def build(*targets):
    run("cmake", "--build", OUT, "--target", *targets)


@pytest.fixture(scope="module")
def tree():
    write(sources())
    ccache = shutil.which("ccache")
    run("cmake", "-S", TREE, "-B", OUT, "-G", "Ninja",
        "-DCMAKE_BUILD_TYPE=None", "-DCMAKE_C_FLAGS=-O0", "-DCORVO_WERROR=ON",
        "-DBUILD_TESTING=OFF",
        *([f"-DCMAKE_C_COMPILER_LAUNCHER={ccache}"] if ccache else []))
    build(*PROGRAMS)
    return TREE


@pytest.fixture(scope="module")
def node(tree):
    """With the field, on what a node without it has left."""
    n = Node()
    try:
        n.start()
        with n.client() as c:
            c.enqueue("before")
            c.ack(c.fetch("before"))
        n.stop()
        n.corvo = OUT / "cli" / "corvo"
        n.start()
        wait_until(n.has_view, 60, "the view to be made again")
        yield n
    except BaseException:
        n.clean_up(check=False)
        raise
    n.clean_up()


@pytest.fixture
def client(node):
    with node.client() as c:
        yield c


# --- what the page promises -------------------------------------------------


def differing():
    """Files of the copy that are not as in the tree."""
    found = set()
    for path in TREE.rglob("*"):
        name = str(path.relative_to(TREE))
        if path.is_file() and not (ROOT / name).is_file() or \
                path.is_file() and not filecmp.cmp(path, ROOT / name, False):
            found.add(name)
    return found


def test_generated_files_complain_and_are_made(tree):
    """Steps 1 to 6 touch what the page names, and step 6 the rest."""
    by_hand = {file for file, *_ in blocks()}
    assert differing() == by_hand and len(by_hand) <= FILES_MAX, by_hand
    docs, lock = tree / "docs" / "reference", tree / "tests/golden/wire.lock"
    run(OUT / "tools" / "gen_docs", "--check", docs, status=1)
    run(OUT / "tools" / "wire_lock", "--check", lock, status=1)
    levels = tree / "tests/golden/released.lock"
    run(OUT / "tools" / "wire_lock", "--levels", levels)
    build("docs", "wire-lock")
    run(OUT / "tools" / "gen_docs", "--check", docs)
    run(OUT / "tools" / "wire_lock", "--check", lock)
    generated = {"tests/golden/wire.lock"} | {
        f"docs/reference/{p.name}" for p in docs.iterdir()}
    assert differing() - by_hand <= generated
    assert "tests/golden/wire.lock" in differing()
    assert "note" in (docs / "messages.md").read_text()


def test_a_member_without_a_level_is_found(tree, tmp_path):
    """As the lock would say it of ack, if it knew no member but one."""
    known = tmp_path / "released.lock"
    lock = (tree / "tests/golden/released.lock").read_text()
    known.write_text(lock.replace("member ack 1 job_id\n", ""))
    done = subprocess.run([OUT / "tools" / "wire_lock", "--levels", known],
                          capture_output=True, text=True)
    assert done.returncode == 1
    assert "without a feature level: member ack 1 job_id\n" in done.stderr
    assert "F_LEVEL_" in done.stderr


def test_the_lock_tells_which_level_is_the_next(tmp_path):
    """Of a release that knew a member less, and of one that knew the present
    level as well: then that has to be raised."""
    lock = (ROOT / "tests/golden/released.lock").read_text()
    last = int(re.search(r"^level (\d+)$", lock, re.M)[1])
    now = max(map(int, re.findall(r"^#define FEATURE_LEVEL (\d+)u$", (
        ROOT / "common/proto/proto.h").read_text(), re.M))) - 1
    assert last <= now <= last + 1
    for level, raised in ((now, True), (now - 1, False)):
        known = tmp_path / f"{level}.lock"
        known.write_text(re.sub(r"(?m)^level \d+$", f"level {level}", lock)
                         .replace("member ack 1 job_id\n", ""))
        done = subprocess.run([BUILD / "tools/wire_lock", "--levels", known],
                              capture_output=True, text=True)
        assert done.returncode == 1
        assert "without a feature level: member ack 1 job_id\n" in done.stderr
        assert f"F_LEVEL_{level + 1}" in done.stderr
        assert ("raise FEATURE_LEVEL" in done.stderr) == raised


def noted(client, queue, note):
    client.enqueue(queue)
    job = client.fetch(queue)
    client.ack(job, note=note)
    return job["job_id"]


def test_a_note_is_kept_and_inspected(node, client):
    job_id = noted(client, "one", "took the long way")
    assert client.job(job_id)["note"] == "took the long way"
    env = {**os.environ, "CORVO_URL": f"http://127.0.0.1:{node.port}"}
    shown = run(node.corvo, "inspect", job_id, env=env)
    assert "took the long way" in shown


def test_a_note_in_a_batch(client):
    client.enqueue("two")
    job = client.fetch("two")
    a = client.post(f"{API}/ack/batch", {"acks": [{
        "job_id": job["job_id"], "lease_token": job["lease_token"],
        "note": "with others"}]})
    assert a.status == 200, a
    assert client.job(job["job_id"])["note"] == "with others"


def test_a_note_of_a_remote_call(client):
    client.enqueue("far")
    job = client.fetch("far")
    a = client.post("/corvo.v1.WorkerService/Ack", {
        "jobId": job["job_id"], "leaseToken": str(job["lease_token"]),
        "note": "from afar"}, {"Content-Type": "application/json"})
    assert a.status == 200, a
    assert client.job(job["job_id"])["note"] == "from afar"


def test_a_byte_too_many_is_refused(client):
    noted(client, "long", "x" * 1024)
    client.enqueue("long")
    job = client.fetch("long")
    a = client.post(f"{API}/ack/{job['job_id']}", {
        "lease_token": job["lease_token"], "note": "x" * 1025})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR")
    assert "note" in a.json["error"]


def test_the_view_is_made_again_and_has_it(node, client):
    assert "it is of another version" in node.log()
    assert client.queue("before")["completed"] == 1  # of the node without it
    noted(client, "found", "to be searched")
    (job,) = client.search(queue="found")["jobs"]
    assert job["note"] == "to be searched"


def test_the_note_outlives_a_crash(node, client):
    job_id = noted(client, "kept", "still here")
    client.close()
    node.kill_all()
    node.start()
    assert client.job(job_id)["note"] == "still here"
