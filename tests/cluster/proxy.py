#!/usr/bin/env python3
"""Goes between nodes where namespaces are not permitted; see links.py.

  proxy.py SEED PORT:TARGET ...

Listens on 127.0.0.1:PORT for what other nodes send the first, second, ... node,
whose own port is TARGET. Who sends it stands in the first message of each
connection (the handshake of nodes): a name that ends in the node's number.

Here are streams, no packets. So what is cut is held and comes when the cut is
healed, as TCP would send it again; what is lost comes RESEND_S late, and
nothing comes twice.
"""

import asyncio
import random
import sys

from links import all_links, read_command

RESEND_S = 0.2
CHUNK = 65536
WAITING = 64  # chunks
# Before the name in a first message: kind, magic, two versions, purpose,
# cluster, raft id.
NAME_AT = 1 + 4 + 2 + 2 + 1 + 16 + 8


def who(hello):
    """Number of the node that sent it; 0: that cannot be told."""
    if len(hello) <= NAME_AT:
        return 0
    n = hello[NAME_AT]
    name = hello[NAME_AT + 1:NAME_AT + 1 + n].decode(errors="replace")
    digits = name[len(name.rstrip("0123456789")):]
    return int(digits) if digits else 0


class Proxy:
    def __init__(self, seed, targets):
        self.rng = random.Random(f"{seed} proxy")
        self.targets = targets
        self.links = all_links(len(targets), self.rng)
        self.changed = asyncio.Event()

    async def arrive(self, link, due):
        """Until a chunk is there: its time has come and nothing is cut."""
        loop = asyncio.get_running_loop()
        if self.rng.random() < link.loss:
            due += RESEND_S
        await asyncio.sleep(max(0.0, due - loop.time()))
        while link.cut:
            await self.changed.wait()

    async def read(self, reader, queue, link):
        loop = asyncio.get_running_loop()
        try:
            while chunk := await reader.read(CHUNK):
                await queue.put((link.due(loop.time(), len(chunk)), chunk))
        except OSError:
            pass  # broken off, which the other side hears of as of an end
        await queue.put((loop.time(), b""))

    async def write(self, writer, queue, link):
        while True:
            due, chunk = await queue.get()
            await self.arrive(link, due)
            if not chunk:
                return
            writer.write(chunk)
            await writer.drain()

    async def carry(self, one, other, there, back):
        """Both directions, until one of them ends."""
        tasks = []
        for (reader, _), (_, writer), link in ((one, other, there),
                                               (other, one, back)):
            queue = asyncio.Queue(WAITING)
            tasks += [asyncio.create_task(self.read(reader, queue, link)),
                      asyncio.create_task(self.write(writer, queue, link))]
        # What was read before the end is still written.
        await asyncio.wait([tasks[1], tasks[3]],
                           return_when=asyncio.FIRST_COMPLETED)
        for t in tasks:
            t.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def serve(self, n, reader, writer):
        other = None
        try:
            head = await reader.readexactly(2)
            hello = await reader.readexactly(int.from_bytes(head, "big"))
            sender = who(hello)
            there = self.links.get(f"{sender}>{n}")
            if there is None:
                return
            await self.arrive(there, there.due(
                asyncio.get_running_loop().time(), len(hello)))
            other = await asyncio.open_connection("127.0.0.1",
                                                  self.targets[n - 1])
            other[1].write(head + hello)
            await self.carry((reader, writer), other, there,
                             self.links[f"{n}>{sender}"])
        except (OSError, asyncio.IncompleteReadError):
            return  # one of the two is gone, and so is the connection
        finally:
            for w in (writer, other[1] if other else None):
                if w is not None:
                    w.close()

    async def commands(self):
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            read_command(line, self.links)
            self.changed.set()
            self.changed = asyncio.Event()
            print("ok", flush=True)

    async def run(self, ports):
        for n, port in enumerate(ports, 1):
            await asyncio.start_server(
                lambda r, w, n=n: self.serve(n, r, w), "127.0.0.1", port)
        print("ready", flush=True)
        await self.commands()


def main(seed, *pairs):
    pairs = [tuple(map(int, p.split(":"))) for p in pairs]

    async def run():
        await Proxy(seed, [t for _, t in pairs]).run([p for p, _ in pairs])

    asyncio.run(run())


if __name__ == "__main__":
    main(*sys.argv[1:])
