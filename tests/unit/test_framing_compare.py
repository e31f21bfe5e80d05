"""Requests as corvo-httpd frames them, beside the verdicts of llhttp.

llhttp, the parser of Node.js, comes in the package httptools, which pip
installs into the build folder at the first run. What we accept it must accept,
with the same requests and bodies: nobody on the way sees another request than
we do. What it refuses we refuse. We may refuse more; each row of the corpus
says what.
"""

import os
import random
import re
import subprocess
from pathlib import Path

import pytest

from packages import pip_package

BUILD = Path(os.environ["CORVO_BUILD_DIR"])
VERDICT = BUILD / "tests" / "unit" / "framing_verdict"
CORPUS = Path(__file__).with_name("framing_corpus.txt")
ROUNDS = 20000
PIECES = [b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"\0", b";", b",", b"0",
          b"5", b"\r\n\r\n", b"Content-Length: 5\r\n", b"chunked", b"\x80",
          b"Transfer-Encoding: chunked\r\n", b"HTTP/1.0", b"\x7f"]


def unescaped(text):
    def byte(m):
        named = {"r": b"\r", "n": b"\n", "t": b"\t", "0": b"\0", "\\": b"\\"}
        return named.get(m[1].decode()) or bytes([int(m[1][1:], 16)])
    return re.sub(rb"\\(x[0-9a-f]{2}|[rnt0\\])", byte, text.encode())


def corpus():
    rows = []
    for line in CORPUS.read_text().splitlines():
        if line and not line.startswith("#"):
            verdict, text = line.split("|", 1)
            rows.append((verdict, unescaped(text)))
    return rows


ROWS = corpus()


def ours(requests):
    """(code, whole requests, bytes of them, reason) of each."""
    done = subprocess.run(
        [VERDICT], input="\n".join(r.hex() for r in requests) + "\n",
        capture_output=True, text=True, check=True)
    lines = [line.split(" ", 3) for line in done.stdout.splitlines()]
    return [(code, int(whole), int(good), why)
            for code, whole, good, why in lines]


class Counting:
    """Of a connection that the last request closed it says no more."""

    def __init__(self):
        self.whole = 0
        self.is_over = False
        self.parser = None

    def on_message_complete(self):
        self.whole += 1
        self.is_over |= not self.parser.should_keep_alive()


@pytest.fixture(scope="module")
def theirs():
    """(is accepted, whole requests) of bytes; None: no opinion, because the
    method or the upgrade that is asked for is none it knows, or a request
    closes the connection and others follow."""
    httptools = pip_package("httptools")

    def judge(data):
        counting = Counting()
        parser = counting.parser = httptools.HttpRequestParser(counting)
        try:
            parser.feed_data(data)
        except (httptools.HttpParserUpgrade,
                httptools.HttpParserInvalidMethodError):
            return None
        except httptools.HttpParserError:
            return None if counting.is_over else (False, counting.whole)
        return True, counting.whole

    return judge


def test_the_corpus_gets_its_verdicts():
    assert len(ROWS) > 100
    found = ours([data for _, data in ROWS])
    for (verdict, data), (code, whole, _, why) in zip(ROWS, found):
        assert f"{code} {whole}" == verdict, (data, why)
        assert why or code != "BAD_REQUEST", data


def assert_agrees(data, verdict, theirs):
    _, whole, good, _ = verdict
    assert theirs(data[:good]) in (None, (True, whole)), (data, verdict)


def test_llhttp_sees_the_same_requests(theirs):
    rows = [data for _, data in ROWS]
    for data, verdict in zip(rows, ours(rows)):
        assert_agrees(data, verdict, theirs)


def garbled(rng, rows):
    """One or two requests with a few bytes put in, taken out or changed."""
    data = bytearray(rng.choice(rows))
    if rng.random() < 0.3:
        data += rng.choice(rows)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(data) + 1)
        kind = rng.randrange(4)
        if kind == 0:
            data[at:at] = rng.choice(PIECES)
        elif kind == 1:
            del data[at:at + rng.randint(1, 4)]
        elif kind == 2:
            data[at:at + 1] = bytes([rng.randrange(256)])
        else:
            other = rng.choice(rows)
            data[at:at] = other[:rng.randrange(len(other) + 1)]
    return bytes(data)


def test_llhttp_sees_the_same_in_garbled_requests(theirs):
    seed = int(os.environ.get("CORVO_TEST_SEED", random.randrange(2**32)))
    print(f"CORVO_TEST_SEED={seed}")
    rng = random.Random(seed)
    rows = [data for _, data in ROWS]
    requests = [garbled(rng, rows) for _ in range(ROUNDS)]
    verdicts = ours(requests)
    for data, verdict in zip(requests, verdicts):
        assert_agrees(data, verdict, theirs)
    assert any(v[0] == "OK" and v[1] > 0 for v in verdicts)
