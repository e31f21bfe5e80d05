"""corvo-httpd alone: a call that is unpacked in turns needs memory, and slow
clients have to make room for it, many of which leave just then.
"""

import contextlib
import gzip
import os
import select
import socket
import struct

from httpd_cost import held
from httpd_fixture import node, wait_until
from remote import SERVICE

SLOW = 600      # they are told so one by one, in more than one turn
BODY = 3000     # bytes of a slow one, of which so many come at first:
BEGUN = 1000
LARGE = 240000  # of those that fill the memory
FULL = 13 << 20  # of 16 MiB
ROUNDS = 3
RESET = struct.pack("ii", 1, 0)
HEAD = (f"POST {SERVICE}Enqueue HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/json\r\nConnect-Protocol-Version: 1\r\n")
JSON = b'{"queue":"q","payloadJson":"'


def post(h, head, body):
    """Part of a request, by a client that will not end it in order."""
    s = h.connect()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    with contextlib.suppress(ConnectionError):
        s.sendall(f"{HEAD}{head}\r\n".encode() + body)
    return s


def begin(h, size, sent):
    return post(h, f"Content-Length: {size}\r\n", JSON + b"1" * sent)


def packed():
    """15 MB in 170 kB."""
    text = JSON + b"".join(os.urandom(3).hex().encode() + b"a" * 600
                           for _ in range(25500)) + b'"}'
    return gzip.compress(text, 9)


def has_answer(socks):
    p = select.poll()
    for s in socks:
        p.register(s, select.POLLIN)
    return bool(p.poll(0))


def more(socks):
    for s in socks:
        with contextlib.suppress(OSError):
            s.sendall(b"1")


def leave_while_they_are_told(h, call, slow):
    """Once it is known that they are slow they are cut, and leave."""
    def are_told():
        more(slow)
        with post(h, "Content-Encoding: gzip\r\n"
                  f"Content-Length: {len(call)}\r\n", call) as s:
            wait_until(lambda: has_answer([s, *slow]), "an answer")
            if not has_answer(slow):
                return False
            for client in reversed(slow):
                client.close()
        return True

    wait_until(are_told, "slow clients to be cut")


def test_clients_that_leave_while_they_make_room():
    call = packed()
    with node("--http-max-memory=16MiB", "--request-timeout=4m") as h:
        for _ in range(ROUNDS):
            with contextlib.ExitStack() as all_of_them:
                slow = [all_of_them.enter_context(begin(h, BODY, BEGUN))
                        for _ in range(SLOW)]
                while held(h) < FULL:
                    all_of_them.enter_context(begin(h, LARGE + 10000, LARGE))
                leave_while_they_are_told(h, call, slow)
        assert h.get("/info").status == 200
