"""check_conf.py SETTINGS_DEF CORVO_CONF: does the example settings file show
every setting, with its true default and text?"""

import re
import sys
from pathlib import Path

ROW = re.compile(r'^SETTING\((\w+), \w+, "([^"]*)", ([\w |]+), "([^"]*)"\)',
                 re.M)
MARKS = {"S_RELOAD": "reload", "S_SEED": "seeds"}
# Where a packaged node keeps its files.
PACKAGED = {"data_dir": "/var/lib/corvo", "run_dir": "/run/corvo"}


def entries(text):
    """[(key, value, commented out, text above)]"""
    doc = []
    for line in text.splitlines():
        m = re.match(r"(#?)(\w+) =(?: (.*))?$", line)
        if m:
            yield m[2], m[3] or "", m[1] == "#", " ".join(doc)
        doc = doc + [line[2:]] if line.startswith("# ") else []


def main(settings_def, conf):
    wrong = []
    rows = {m[1]: m for m in ROW.finditer(Path(settings_def).read_text())}
    shown = {e[0]: e for e in entries(Path(conf).read_text())}
    rows.pop("config")
    for name in rows.keys() - shown.keys():
        wrong.append(f"{name} is not shown")
    for name in shown.keys() - rows.keys():
        wrong.append(f"{name} is no setting")
    for name in rows.keys() & shown.keys():
        _, value, commented, doc = shown[name]
        _, default, flags, text = rows[name].groups()
        marks = [word for mark, word in MARKS.items() if mark in flags]
        text += f" ({', '.join(marks)})" if marks else ""
        if value != PACKAGED.get(name, default):
            wrong.append(f"{name} has the default {default!r}, not {value!r}")
        if commented != (name not in PACKAGED):
            wrong.append(f"{name}: a default must be commented out")
        if doc != text:
            wrong.append(f"{name}: the text should be {text!r}")
    for line in sorted(wrong):
        print(f"FAIL: {conf}: {line}")
    return 1 if wrong or not rows else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
