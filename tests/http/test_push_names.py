"""Names that mean something else the next time they are asked for. In a network
and a file system of its own, where this test is the server of names: it starts
itself again there, and a public address is one of the loopback's."""

import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve()
sys.path.insert(0, str(HERE.parents[1] / "lib"))

PUBLIC = "8.8.4.4"
NAME = "rebound.example"
INSIDE = """
set -e
ip link set lo up
ip addr add %(public)s/32 dev lo
echo 'nameserver 127.0.0.53' > %(folder)s/resolv.conf
echo 'hosts: files dns' > %(folder)s/nsswitch.conf
mount --bind %(folder)s/resolv.conf /etc/resolv.conf
mount --bind %(folder)s/nsswitch.conf /etc/nsswitch.conf
exec %(python)s %(script)s
"""


def test_a_name_that_is_bound_anew_does_not_lead_inside(tmp_path):
    script = INSIDE % {"public": PUBLIC, "folder": tmp_path,
                       "python": sys.executable, "script": HERE}
    r = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "--mount", "sh",
         "-c", script],
        capture_output=True, text=True, check=False, timeout=200)
    assert r.returncode == 0 and r.stdout.endswith("good\n"), r


# --- inside ---

def called(client, api, queue, port, wait_until):
    a = client.request("PATCH", f"{api}/queues/{queue}", {
        "push": {"url": f"http://{NAME}:{port}/", "timeout": "5s"}})
    assert a.status == 200, a
    job_id = client.enqueue(queue, max_retries=1)

    def look():
        job = client.get(f"{api}/jobs/{job_id}").json
        return job if job["state"] in ("dead", "completed") else None
    return wait_until(look, what=f"the end of {job_id}")


def kill_sched(node, wait_until):
    """What a name meant is forgotten with it."""
    before = node.pids()["sched"]
    os.kill(before, 9)
    wait_until(lambda: node.pids().get("sched", before) != before,
               what="another sched")


def inside():
    from names import Names
    from node import API, new_node, wait_until
    from sink import sink

    node = new_node()
    names = Names([[PUBLIC], ["127.0.0.1"], [PUBLIC, "127.0.0.1"],
                   ["10.1.2.3", "169.254.169.254"]])
    try:
        with sink(host=PUBLIC) as out, sink(port=out.port) as in_:
            node.start("--open", f"--bind=0.0.0.0:{node.port}",
                       "--push-breaker-failures=1000")
            with node.client() as c:
                job = called(c, API, "a", out.port, wait_until)
                assert job["state"] == "completed", job
                assert len(out.calls) == 1
                kill_sched(node, wait_until)
                job = called(c, API, "b", out.port, wait_until)
                assert "127.0.0.1 may not be called" in job["last_error"], job
                kill_sched(node, wait_until)
                # the public one of the two is closed: the other is tried
                out.close()
                job = called(c, API, "c", out.port, wait_until)
                assert job["state"] == "dead", job
                kill_sched(node, wait_until)
                job = called(c, API, "d", out.port, wait_until)
                assert "may not be called" in job["last_error"], job
            assert names.asked >= 4, names.asked
            assert in_.calls == [] and len(out.calls) == 1
    finally:
        names.close()
        node.clean_up()
    print("good")


if __name__ == "__main__":
    inside()
