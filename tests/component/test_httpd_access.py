"""corvo-httpd alone: lines about requests."""

import json
import re

import pytest

from httpd_fixture import node, wait_until

ENQUEUE = {"queue": "q"}
COMMON = re.compile(
    r'^127\.0\.0\.1 - - \[\d\d/\w{3}/\d{4}:\d\d:\d\d:\d\d \+0000\] '
    r'"(\S+) (\S+) HTTP/1\.1" (\d+) (\d+)$')


def lines_of(path, n):
    wait_until(lambda: path.exists() and
               path.read_text().count("\n") >= n, f"{n} lines")
    return path.read_text().splitlines()


def ask_some(h):
    assert h.post("/enqueue", ENQUEUE).status == 201
    assert h.get("/nothing").status == 404
    with h.connect() as s:
        s.sendall(b"GET / HTTP/1.1\r\nHost : x\r\n\r\n")
        s.recv(100)


def test_common_lines(tmp_path):
    path = tmp_path / "access.log"
    with node(f"--access-log={path}") as h:
        ask_some(h)
        found = [COMMON.match(x) for x in lines_of(path, 3)]
    assert all(found)
    assert [m.groups()[:3] for m in found] == [
        ("POST", "/api/v1/enqueue", "201"),
        ("GET", "/api/v1/nothing", "404"), ("-", "-", "400")]
    assert int(found[0][4]) > 10


def test_json_lines(tmp_path):
    path = tmp_path / "access.log"
    with node(f"--access-log={path}", "--access-log-format=json") as h:
        h.post("/enqueue", ENQUEUE, **{"X-Request-Id": "mine-1"})
        h.get('/%22quoted"path')
        first, second = map(json.loads, lines_of(path, 2))
    assert first["request_id"] == "mine-1"
    assert (first["method"], first["path"]) == ("POST", "/api/v1/enqueue")
    assert (first["status"], first["caller"]) == (201, "127.0.0.1")
    assert first["us"] > 0 and first["bytes"] > 10 and first["time"]
    assert second["path"] == '/api/v1/%22quoted"path'
    assert second["request_id"]


def test_the_file_can_be_moved_away(tmp_path):
    path, old = tmp_path / "access.log", tmp_path / "access.log.1"
    with node(f"--access-log={path}") as h:
        h.get("/info")
        lines_of(path, 1)
        path.rename(old)
        h.reload()
        wait_until(path.exists, "a new file")
        h.get("/info")
        assert len(lines_of(path, 1)) == 1
    assert len(old.read_text().splitlines()) == 1


def test_lines_a_disk_does_not_take_are_told():
    with node("--access-log=/dev/full") as h:
        assert h.get("/info").status == 200
        wait_until(lambda: "takes no more; lines are left out" in h.logged(),
                   "the warning")
        assert h.get("/info").status == 200


@pytest.mark.parametrize("flag", ["--access-log=log", "--log-level=debug"])
def test_requests_in_the_log(flag):
    with node(flag) as h:
        h.get("/info", **{"X-Request-Id": "mine-2"})
        wait_until(lambda: "request_id=mine-2" in h.logged(), "the line")
        line, = [x for x in h.logged().splitlines() if "mine-2" in x]
    assert re.search(r"request method=GET path=/api/v1/info status=200 "
                     r"us=\d+ request_id=mine-2 caller=127\.0\.0\.1$", line)


def test_no_lines_unless_asked_for():
    with node() as h:
        h.get("/info")
        assert "request method" not in h.logged()
