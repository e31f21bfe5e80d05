"""Conditions of payload_jq as trees: written as text for the server, and
evaluated here on the same payload."""

import json
import operator
import re

from search_world import KEYS, ODD, WORDS

CMP = {"==": operator.eq, "!=": operator.ne, "<": operator.lt,
       "<=": operator.le, ">": operator.gt, ">=": operator.ge}
MISSING = object()


# --- trees ------------------------------------------------------------------
# ("cmp", path, op, literal) ("starts", path, text) ("contains", path, text)
# ("length", path, op, number) ("and", a, b) ("or", a, b) ("not", a)


def path_text(path, rng):
    out = "" if path else "."
    for i, key in enumerate(path):
        if isinstance(key, int):
            out += f"[{key}]" if i else f".[{key}]"
        elif re.fullmatch(r"[A-Za-z_]\w*", key, re.A) and rng.random() < 0.8:
            out += f".{key}"
        elif i and rng.random() < 0.5:
            out += f"[{json.dumps(key, ensure_ascii=rng.random() < 0.5)}]"
        else:
            out += f".{json.dumps(key)}"
    return out


def text_of(tree, rng):
    kind = tree[0]
    gap = rng.choice(["", " ", "  "])
    if kind in ("and", "or"):
        a, b = (f"({text_of(t, rng)})" for t in tree[1:])
        return f"{a} {kind} {b}"
    if kind == "not":
        inner = text_of(tree[1], rng)
        return rng.choice([f"not ({inner})", f"({inner}) | not"])
    path = path_text(tree[1], rng)
    if kind == "cmp":
        return f"{path}{gap}{tree[2]}{gap}{json.dumps(tree[3])}"
    if kind == "length":
        return f"{path} |{gap}length {tree[2]}{gap}{tree[3]}"
    name = {"starts": "startswith", "contains": "contains"}[kind]
    return f"{path}{gap}|{gap}{name}({gap}{json.dumps(tree[2])}{gap})"


# --- meaning ----------------------------------------------------------------


def follow(value, path):
    for key in path:
        if isinstance(key, int):
            if not isinstance(value, list):
                return MISSING
            if not -len(value) <= key < len(value):
                return MISSING
        elif not isinstance(value, dict) or key not in value:
            return MISSING
        value = value[key]
    return value


def kind_of(value):
    if isinstance(value, bool):
        return "bool"
    return "number" if isinstance(value, (int, float)) else type(value).__name__


def compare(value, op, literal):
    if value is None or value is MISSING:
        return op == "==" and literal is None
    if kind_of(value) != kind_of(literal):
        return op == "!="
    return CMP[op](value, literal)


def evaluate(tree, doc):
    kind = tree[0]
    if kind == "and":
        return evaluate(tree[1], doc) and evaluate(tree[2], doc)
    if kind == "or":
        return evaluate(tree[1], doc) or evaluate(tree[2], doc)
    if kind == "not":
        return not evaluate(tree[1], doc)
    value = follow(doc, tree[1])
    if kind == "cmp":
        return compare(value, tree[2], tree[3])
    if kind == "length":
        return isinstance(value, (str, list, dict)) and \
            CMP[tree[2]](len(value), tree[3])
    if kind == "starts":
        return isinstance(value, str) and value.startswith(tree[2])
    if isinstance(value, list):
        return any(isinstance(x, str) and x == tree[2] for x in value)
    return isinstance(value, str) and tree[2] in value


# --- random ones --------------------------------------------------------------


def random_path(rng):
    first = rng.choice(["n", "v", "name", "text", "list", "o", "missing"])
    path = [first]
    while rng.random() < 0.4:
        path.append(rng.choice(KEYS + ["region", "p", 0, 1, -1]))
    return path if rng.random() < 0.95 else []


def random_test(rng):
    path = random_path(rng)
    pick = rng.randrange(6)
    if pick == 0:
        return ("starts", path, rng.choice(["w", "inv", ""] + ODD))
    if pick == 1:
        return ("contains", path, rng.choice(WORDS + ODD))
    if pick == 2:
        return ("length", path, rng.choice(list(CMP)), rng.randrange(-1, 8))
    literal = rng.choice([None, True, False, 0, 1, 100, 50.5, 2**53 + 1, 1e20,
                          "eu", "us", -1] + WORDS + ODD)
    ops = ["==", "!="] if literal is None else list(CMP)
    return ("cmp", path, rng.choice(ops), literal)


def random_tree(rng, depth=3):
    if depth == 0 or rng.random() < 0.3:
        return random_test(rng)
    kind = rng.choice(["and", "or", "not"])
    return (kind, *(random_tree(rng, depth - 1)
                    for _ in range(1 if kind == "not" else 2)))
