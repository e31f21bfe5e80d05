"""What stands between nodes where namespaces are not permitted."""

import asyncio
import contextlib
import socket
import struct

from proxy import NAME_AT, Proxy


def break_off(sock):
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                    struct.pack("ii", 1, 0))
    sock.close()


async def hear_of_the_end():
    """As a node, of a connection that another node breaks off."""
    came, ended = asyncio.Event(), asyncio.Event()

    async def node(reader, writer):
        with contextlib.suppress(OSError):
            while await reader.read(100):
                came.set()
        writer.close()
        ended.set()

    target = await asyncio.start_server(node, "127.0.0.1", 0)
    port = target.sockets[0].getsockname()[1]
    proxy = Proxy(1, [port, port])
    between = await asyncio.start_server(lambda r, w: proxy.serve(1, r, w),
                                         "127.0.0.1", 0)
    hello = bytes(NAME_AT) + b"\x02n2"
    async with target, between:
        with socket.create_connection(between.sockets[0].getsockname()) as s:
            s.sendall(len(hello).to_bytes(2, "big") + hello)
            await asyncio.wait_for(came.wait(), 60)
            break_off(s)
        await asyncio.wait_for(ended.wait(), 60)


def test_a_node_hears_of_a_connection_that_is_broken_off():
    asyncio.run(hear_of_the_end())
