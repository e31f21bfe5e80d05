"""The conformance tests of h2spec against corvo-httpd.

httpd_fixture.py starts it with a raftd and a viewd of canned answers.
"""

import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

from httpd_fixture import node
from waiting import patience

ROOT = Path(__file__).resolve().parents[2]

# Why a case is left out.
LEFT_OUT = {
    # The port speaks HTTP/1, too: what is no preface gets 400 and is closed.
    ("http2/3.5", "Sends invalid connection preface"),
}


def test_every_case_passes(tmp_path):
    tool = subprocess.run([ROOT / "tools/deps", "path", "h2spec"], check=True,
                          capture_output=True, text=True).stdout.strip()
    report = tmp_path / "report.xml"
    with node() as h:
        subprocess.run(
            [tool, "-h", "127.0.0.1", "-p", str(h.port), "-P", "/healthz",
             "-o", str(int(patience(2))), "-j", report], check=False,
            capture_output=True, timeout=patience(60))
    cases = list(ET.parse(report).getroot().iter("testcase"))
    assert len(cases) > 140
    failed = {(c.get("package"), c.get("classname")) for c in cases
              if c.find("failure") is not None or c.find("error") is not None}
    assert failed - LEFT_OUT == set()
