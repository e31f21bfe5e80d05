"""What workers reported, added up from the event log and asked of the server:
two ways that share nothing, to the last billionth."""

import collections
import datetime
import json
from decimal import Decimal

from node import API

NANO = 10 ** 9
PAGE = 1000


class Sums(collections.Counter):
    """{(model, provider, day, local_day, unit): amount}; costs in billionths.
    """

    def report(self, names, usage):
        self[(*names, "count")] += 1
        for unit in "input_tokens", "output_tokens":
            self[(*names, unit)] += usage.get(unit, 0)
        self[(*names, "cost")] += billionths(usage.get("cost_usd", 0))

    def total(self, unit):
        return sum(n for key, n in self.items() if key[-1] == unit)

    def days(self):
        return sorted({key[2] for key in self})


def billionths(usd):
    nano = Decimal(usd) * NANO
    assert nano == int(nano), usd
    return int(nano)


def exact(answer):
    assert answer.status == 200, answer
    return json.loads(answer.body, parse_float=Decimal)


def day_of(at_ns, offset_s=0):
    at = datetime.datetime(1970, 1, 1) + datetime.timedelta(
        seconds=at_ns // NANO + offset_s)
    return at.date().isoformat()


def of_events(client, queue, offset_s=0):
    """Every event of usage, read page by page."""
    sums, after = Sums(), 0
    while True:
        page = exact(client.get(
            f"{API}/cluster/events?types=usage&queues={queue}"
            f"&limit={PAGE}&after_seq={after}"))
        assert not page.get("lost"), "events are gone: raise event_retention"
        for e in page["events"]:
            data = e["data"]
            sums.report((data.get("model", ""), data.get("provider", ""),
                         day_of(int(e["at_ns"])),
                         day_of(int(e["at_ns"]), offset_s)), data)
        if page["next"] == after or after >= page["head_seq"]:
            return sums
        after = page["next"]


def of_server(client, queue, since):
    """The server's own sums from that day on."""
    sums = Sums()
    found = exact(client.get(
        f"{API}/usage?queue={queue}&from={since}"
        "&group_by=model,provider,day,local_day"))
    for g in found["groups"]:
        by = g["by"]
        names = (by["model"], by["provider"], by["day"], by["local_day"])
        sums.report(names, g)
        sums[(*names, "count")] += g["count"] - 1
    return sums
