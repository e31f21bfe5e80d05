"""Waiting for a condition. A test says how long that takes on an idle machine;
one that is busy, or runs a sanitized build, may take many times as long. The
time only matters where the condition is never met."""

import time

BUSY = 10
LONGEST_S = 240.0  # below the limit of ctest for a whole file


def patience(seconds):
    return max(seconds, min(seconds * BUSY, LONGEST_S))


def wait_until(cond, seconds=10.0, what="", every=0.01):
    """Waits until cond() is true and returns its value."""
    end = time.monotonic() + patience(seconds)
    while True:
        value = cond()
        if value:
            return value
        assert time.monotonic() < end, f"timed out waiting for {what or cond}"
        time.sleep(every)  # tidy: poll interval
