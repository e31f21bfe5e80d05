#!/usr/bin/env python3
"""Memory of a fresh node: each process and the sum (PSS)."""

from figures import all_pids, head, let_pass, pss_mb, running_node, say


def main():
    head("H  memory of a fresh node (PSS)")
    with running_node() as node:
        let_pass(3)
        total = 0
        for name, pid in all_pids(node).items():
            total += pss_mb(pid)
            say(name, f"{pss_mb(pid):.1f} MB")
        say("all five", f"{total:.1f} MB", "<= 120 MB")


if __name__ == "__main__":
    main()
