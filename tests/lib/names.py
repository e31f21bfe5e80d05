"""A DNS server that answers what a test tells it to: A records, one list after
the other, the last one for ever."""

import socket
import struct
import threading


class Names:
    def __init__(self, answers, host="127.0.0.53", port=53):
        self.answers = list(answers)  # of lists of addresses
        self.asked = 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((host, port))
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                query, who = self.socket.recvfrom(4096)
            except OSError:
                return
            self.socket.sendto(self._answer(query), who)

    def _answer(self, query):
        end = query.index(b"\0", 12) + 5  # of the question
        kind = struct.unpack(">H", query[end - 4:end - 2])[0]
        addresses = []
        if kind == 1:
            addresses = self.answers[min(self.asked, len(self.answers) - 1)]
            self.asked += 1
        records = b"".join(
            b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 0, 4) +
            socket.inet_aton(a) for a in addresses)
        return query[:2] + b"\x81\x80\x00\x01" + \
            struct.pack(">HHH", len(addresses), 0, 0) + query[12:end] + records

    def close(self):
        self.socket.close()
