#!/usr/bin/env python3
"""What one entry costs at most with the largest documents there are: memory
above what the process had before it, and time.

  entries.py [row...]      as entry_bench names them
"""

import subprocess
import sys

from figures import BUILD, head, say


def main(*rows):
    head("D  one entry with the largest documents")
    out = subprocess.run([str(BUILD / "bench" / "entry_bench"), *rows],
                         text=True, stdout=subprocess.PIPE, check=True)
    for line in out.stdout.splitlines():
        name, rest = line.split(maxsplit=1)
        say(name, rest, "< 64 MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
