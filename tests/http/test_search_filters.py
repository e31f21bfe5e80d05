"""POST /jobs/search against a brute-force evaluation: each filter, each form
of payload_jq, each sort, texts that try to be SQL, and the time budget."""

import os
import random

import pytest

import jq_world as jq
from node import API
from search_world import (EQUAL, FUTURE, ODD, PRIORITIES, STATES, TIMES, World,
                          in_order)

SEED = int(os.environ.get("CORVO_TEST_SEED", random.randrange(1 << 32)))
JOBS = 3000
COUNTED = 10000  # totals are exact up to here


@pytest.fixture(autouse=True)
def seed():
    print(f"CORVO_TEST_SEED={SEED}")  # shown with whatever fails


@pytest.fixture(scope="module")
def world(node):
    with node.client(timeout=60) as c:
        yield World(c, SEED, JOBS).make()


def find(client, limit=1000, **members):
    """All ids in the order given, the last total, the number of pages."""
    members = {"time_budget": "10s", **members}
    ids, pages = [], 0
    while True:
        a = client.search(limit=limit, **members)
        ids += [j["id"] for j in a["jobs"]]
        pages += 1
        if not a["has_more"]:
            assert "cursor" not in a and "partial" not in a
            return ids, a["total"], pages
        members["cursor"] = a["cursor"]


def check(world, client, **members):
    """The search finds exactly what it should, in order; how many."""
    expected = world.matching(**members)
    ids, total, _ = find(client, **members)
    assert ids == [j["id"] for j in expected], members
    assert total == len(expected), members  # known on the last page
    return len(expected)


def values(world, name):
    return sorted({j[name] for j in world.jobs.values() if name in j})


# --- filters ----------------------------------------------------------------


def test_world_has_everything(world):
    assert len(world.jobs) > JOBS * 0.9
    for state in STATES:
        assert sum(j["state"] == state for j in world.jobs.values()) > 20, state
    for name in EQUAL:
        assert len(values(world, name)) >= (1 if name == "schedule_id" else 3)


@pytest.mark.parametrize("name", EQUAL)
def test_filter_equal(world, client, name):
    have = values(world, name)
    for value in random.Random(SEED).sample(have, min(len(have), 8)):
        assert check(world, client, **{name: value}) > 0
    assert check(world, client, **{name: "no-such"}) == 0


def test_filter_state(world, client):
    for state in STATES:
        assert check(world, client, state=[state]) > 0
    check(world, client, state=["dead", "held", "scheduled"])
    check(world, client, state=["pending"], queue="mail")


def test_filter_priority(world, client):
    for priority in PRIORITIES:
        assert check(world, client, priority=priority) > 0
        assert check(world, client, priority=priority, queue="q1") > 0
        check(world, client, priority=priority, state=["dead", "pending"])


def test_filter_tags_with_any_characters(world, client):
    seen = sorted({(k, v) for j in world.jobs.values()
                   for k, v in j.get("tags", {}).items()})
    for key, value in random.Random(SEED).sample(seen, 40):
        assert check(world, client, tags={key: value}) > 0
    job = next(j for j in world.jobs.values() if len(j.get("tags", {})) >= 2)
    assert check(world, client, tags=job["tags"]) > 0
    assert check(world, client, tags={"tenant": "none", "a": "b"}) == 0
    check(world, client, tags={})


@pytest.mark.parametrize("tags", [{"a": 1}, {"a": None}, {"a": {}}, {"a": []}])
def test_filter_tags_must_be_texts(world, client, tags):
    a = client.post(f"{API}/jobs/search", {"tags": tags})
    assert a.status == 400 and a.code == "VALIDATION_ERROR"
    assert "tags" in a.json["error"] and "string" in a.json["error"]


def test_filter_payload_contains(world, client):
    for part in ["WELCOME", "invoice", '"n":', '": ', "\u00fc", "\\u00fc",
                 "\U0001f600", "%", "_", "\\", "'", "e\", \"", "no such text",
                 "DROP TABLE", "\u0000", "\u00dc"]:
        check(world, client, payload_contains=part)
    assert check(world, client, payload_contains="rEpOrT") > 0


@pytest.mark.parametrize("name", sorted(TIMES))
def test_filter_times_are_strict(world, client, name):
    have = values(world, TIMES[name])
    low, middle, high = have[0], have[len(have) // 2], have[-1]
    for edge in (low, middle, high):
        check(world, client, **{f"{name}_after": edge})
        check(world, client, **{f"{name}_before": edge})
        check(world, client, queue="mail", state=["dead", "pending"],
              **{f"{name}_before": edge})
    check(world, client, **{f"{name}_after": low, f"{name}_before": high})
    check(world, client, **{f"{name}_after": high, f"{name}_before": low})
    for order in ("asc", "desc"):
        ids, _, _ = find(client, limit=333, order=order,
                         **{f"{name}_after": low})
        expected = world.matching(**{f"{name}_after": low})
        assert ids == in_order(expected, order=order)


def test_filter_times_to_the_nanosecond(world, client):
    assert check(world, client, scheduled_after=FUTURE[0]) > \
        check(world, client, scheduled_after=FUTURE[1])


def test_filter_attempts(world, client):
    assert check(world, client, attempt_min=1) > 0
    assert check(world, client, attempt_max=0) > 0
    assert check(world, client, attempt_min=1, attempt_max=1) > 0
    check(world, client, attempt_min=2)
    assert check(world, client, attempt_min=2, attempt_max=1) == 0


def test_filter_has_errors(world, client):
    with_errors = check(world, client, has_errors=True)
    without = check(world, client, has_errors=False)
    assert with_errors > 0 and with_errors + without == len(world.jobs)
    check(world, client, has_errors=True, queue="q2")


def test_filter_error_contains(world, client):
    assert check(world, client, error_contains="smtp timeout") > 0
    for part in ["%", "_", "'", "\u00fc", "DROP", "\\", "no such", "\u0000",
                 "\U0001f600"]:
        check(world, client, error_contains=part)


def test_filter_job_id_prefix(world, client):
    ids = sorted(world.jobs)
    for n in (1, 4, 10, 18, 24, 30):
        assert check(world, client, job_id_prefix=ids[len(ids) // 2][:n]) > 0
    assert check(world, client, job_id_prefix="job_zzzz") == 0
    assert check(world, client, job_id_prefix="%") == 0


def test_filter_text(world, client):
    for text in ["welcome", "INVOICE", "welc*", '"alpha beta"', "alpha beta",
                 '"user example"', "mail", "nosuchword", "welcome nosuchword",
                 '"user exa"*', "user-example", "report.alpha", "drop table",
                 "a queue with", "region eu"]:
        check(world, client, text=text)
    assert check(world, client, text="report alpha") > 0


def test_filter_text_finds_an_id(world, client):
    # The later jobs of a chain carry the id of an earlier one.
    job_id = next(j["id"] for j in world.newest_first if "chain_id" not in j)
    assert find(client, text=job_id)[0] == [job_id]


@pytest.mark.parametrize("text", ['"', "*", "AND", "a OR", "NOT b", "NEAR(a b)",
                                  "payload:x", "^a", "{a b}", "a + b", '"a" "',
                                  "''", "-a", "(", ")", "\u0000", "a\u0000b",
                                  "!!!", "\U0001f600"])
def test_filter_text_has_no_operators(world, client, text):
    a = client.post(f"{API}/jobs/search", {"text": text})
    assert a.status == 200, a


def test_filter_text_without_words_finds_nothing(world, client):
    for text in ("!!!", "---", '""', "*"):
        assert find(client, text=text)[0] == []


def random_members(world, rng):
    """Filters that one of the jobs matches, mostly."""
    job = rng.choice(list(world.jobs.values()))
    m = {}
    for name in EQUAL:
        if name in job and rng.random() < 0.25:
            m[name] = job[name]
    for name, column in TIMES.items():
        for side in ("after", "before"):
            if rng.random() < 0.1:
                m[f"{name}_{side}"] = rng.choice(values(world, column))
    options = {
        "state": lambda: rng.sample(STATES, rng.randrange(1, 6)),
        "priority": lambda: job["priority"],
        "attempt_min": lambda: rng.randrange(3),
        "attempt_max": lambda: rng.randrange(3),
        "has_errors": lambda: rng.random() < 0.5,
        "payload_contains": lambda: rng.choice(ODD),
        "job_id_prefix": lambda: job["id"][:rng.randrange(8, 30)],
        "text": lambda: rng.choice(["welcome", "alpha*", '"beta user"']),
        "error_contains": lambda: rng.choice(["smtp", "time", "'"]),
        "tags": lambda: dict(list(job.get("tags", {}).items())[:2]),
    }
    for name, make in options.items():
        if rng.random() < 0.15:
            m[name] = make()
    return m


def test_filters_together(world, client):
    rng = random.Random(SEED)
    for _ in range(80):
        check(world, client, **random_members(world, rng))


# --- payload_jq -------------------------------------------------------------


def jq_matching(world, tree, **members):
    return [j["id"] for j in world.matching(**members)
            if jq.evaluate(tree, j["payload"])]


def check_jq(world, client, tree, rng, **members):
    text = jq.text_of(tree, rng)
    expected = jq_matching(world, tree, **members)
    ids, total, _ = find(client, payload_jq=text, **members)
    assert ids == expected, text
    assert total == len(expected), text
    return len(expected)


FORMS = {
    "compare": [("cmp", ["n"], op, lit) for op in jq.CMP
                for lit in (100, 50.5, "x")],
    "compare_texts": [("cmp", ["name"], op, lit) for op in jq.CMP
                      for lit in ("user", ODD[0], "\u00fcber")],
    "compare_null": [("cmp", p, op, None) for op in ("==", "!=")
                     for p in (["v"], ["missing"], ["o", "region"])],
    "compare_bool": [("cmp", ["v"], op, lit) for op in ("==", "!=")
                     for lit in (True, False)],
    "nested": [("cmp", ["o", "region"], "==", "eu"),
               ("cmp", ["o", "p", "a.b"], "!=", 1),
               ("cmp", ["v", 0], "==", "welcome"),
               ("cmp", ["v", -1, "a"], "!=", None),
               ("cmp", ["o", "p", '"'], "!=", None),
               ("cmp", ["v", "\U0001f511"], "!=", None)],
    "startswith": [("starts", ["text"], "wel"), ("starts", ["name"], ""),
                   ("starts", ["name"], "'"), ("starts", ["n"], "1"),
                   ("starts", ["name"], "\\")],
    "contains": [("contains", ["list"], "alpha"), ("contains", ["text"], "a b"),
                 ("contains", ["list"], "alp"), ("contains", ["v"], "%"),
                 ("contains", ["name"], "\u0000")],
    "length": [("length", ["list"], op, n) for op in jq.CMP
               for n in (0, 2, 4)] + [("length", ["v"], "==", 3),
                                      ("length", ["name"], "==", 1)],
    "logic": [("and", ("cmp", ["n"], ">", 50), ("contains", ["list"], "user")),
              ("or", ("cmp", ["n"], "<", 9), ("starts", ["text"], "Rep")),
              ("not", ("cmp", ["n"], "<", 190)),
              ("not", ("or", ("cmp", ["n"], "<", 190),
                       ("not", ("cmp", ["v"], "==", None))))],
}


@pytest.mark.parametrize("form", sorted(FORMS))
def test_jq_form(world, client, form):
    rng = random.Random(SEED)
    found = [check_jq(world, client, tree, rng, queue="mail")
             for tree in FORMS[form]]
    check_jq(world, client, FORMS[form][0], rng)
    assert sum(n > 0 for n in found) >= 3 or form == "compare_null"


def test_jq_random(world, client):
    rng = random.Random(SEED)
    for i in range(60):
        members = {"queue": "q1"} if i % 6 else {}
        check_jq(world, client, jq.random_tree(rng), rng, **members)


def test_jq_precedence(world, client):
    """and before or; `| not` is for all to its left; no parentheses needed."""
    for text, tree in (
            ('.n < 9 or .n > 100 and .o.region == "eu"',
             ("or", ("cmp", ["n"], "<", 9),
              ("and", ("cmp", ["n"], ">", 100),
               ("cmp", ["o", "region"], "==", "eu")))),
            ('.list | contains("user") and .n > 100',
             ("and", ("contains", ["list"], "user"), ("cmp", ["n"], ">", 100))),
            ('.n > 9 and .n < 20 | not',
             ("not", ("and", ("cmp", ["n"], ">", 9), ("cmp", ["n"], "<", 20)))),
            ('not .n > 9 and .n != 5',
             ("and", ("not", ("cmp", ["n"], ">", 9)),
              ("cmp", ["n"], "!=", 5)))):
        assert find(client, payload_jq=text)[0] == jq_matching(world, tree)


@pytest.mark.parametrize("text,at", [
    (".n", 3), (".n = 5", 4), (".n == ", 7), ("n == 5", 1), (".n == 5 and", 12),
    ("(.n == 5", 9), (".n == 'x'", 7), (".n | foo(1)", 6), (".n == 5; --", 8),
    ('.n == "x', 7), (".n < null", 6), ("$.n == 1", 1), (".n-m == 1", 3)])
def test_jq_malformed_names_the_position(world, client, text, at):
    a = client.post(f"{API}/jobs/search", {"payload_jq": text})
    assert a.status == 400 and a.code == "VALIDATION_ERROR"
    assert a.json["error"].startswith("payload_jq: ")
    assert a.json["error"].endswith(f"at byte {at}"), a.json["error"]


# --- order and pages --------------------------------------------------------


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("sort", ["created_at", "priority", "started_at",
                                  "completed_at", "attempt"])
def test_sort_pages_see_every_job_once(world, client, sort, order):
    everything = in_order(world.jobs.values(), sort, order)
    assert find(client, sort=sort, order=order)[0] == everything
    some = {"queue": "mail", "state": ["dead", "completed", "active"]}
    expected = world.matching(**some)
    ids, total, pages = find(client, limit=17, sort=sort, order=order, **some)
    assert ids == in_order(expected, sort, order)
    assert total == len(expected) and pages == -(-len(expected) // 17)


@pytest.mark.parametrize("member,words", [
    ("sort", "created_at, priority, started_at, completed_at, attempt, cost, "
     "iteration, model"),
    ("order", "asc, desc"), ("priority", "critical, high, normal")])
def test_an_unknown_word_is_refused_and_names_what_there_is(
        client, member, words):
    a = client.post(f"{API}/jobs/search", {member: "colour"})
    assert a.status == 400 and a.code == "VALIDATION_ERROR", a
    assert a.json["error"] == f"{member}: must be one of {words}"


def test_cursor_brings_sort_and_order(world, client):
    expected = in_order(world.jobs.values(), "attempt", "asc")
    first = client.search(limit=40, sort="attempt", order="asc")
    second = client.search(limit=40, cursor=first["cursor"])
    assert [j["id"] for j in first["jobs"] + second["jobs"]] == expected[:80]


def test_cursor_of_another_sort_is_the_start(world, client):
    cursor = client.search(limit=5)["cursor"]
    a = client.search(limit=5, sort="attempt", cursor=cursor)
    assert [j["id"] for j in a["jobs"]] == \
        in_order(world.jobs.values(), "attempt")[:5]


def test_cursor_works_with_another_filter(world, client):
    everything = in_order(world.jobs.values())
    cursor = client.search(limit=100)["cursor"]
    a = client.search(limit=20, cursor=cursor, payload_contains="welcome")
    expected = [i for i in everything[100:]
                if "welcome" in world.jobs[i]["_raw"].lower()]
    assert [j["id"] for j in a["jobs"]] == expected[:20]
    assert a["total_is_lower_bound"] is True


def test_total_on_every_page(world, client):
    members = {"attempt_max": 0, "payload_contains": "alpha"}
    n = len(world.matching(**members))
    while True:
        a = client.search(time_budget="10s", limit=700, **members)
        assert a["total"] == n and "total_is_lower_bound" not in a
        if not a["has_more"]:
            break
        members["cursor"] = a["cursor"]


# --- the time budget --------------------------------------------------------


@pytest.mark.parametrize("sort", ["created_at", "started_at", "attempt"])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_budget_partial_answers_go_on_until_all_is_found(world, client, sort,
                                                         order):
    tree = ("cmp", ["n"], "<", 40)
    expected = set(jq_matching(world, tree))
    members = {"payload_jq": ".n < 40", "sort": sort, "order": order,
               "time_budget": "1ns", "limit": 1000}
    ids, partial = [], 0
    while True:
        a = client.search(**members)
        ids += [j["id"] for j in a["jobs"]]
        partial += a.get("partial", False)
        if not a["has_more"]:
            break
        assert a["total_is_lower_bound"] is True
        members["cursor"] = a["cursor"]
    assert len(ids) == len(set(ids)) and set(ids) == expected
    assert partial > 10
    assert a["total"] == len(expected) and "total_is_lower_bound" not in a
    if sort == "created_at":
        assert ids == [i for i in in_order(world.jobs.values(), sort, order)
                       if i in expected]


def test_budget_full_page_is_not_partial(world, client):
    a = client.search(limit=3, payload_jq=".missing == null",
                      time_budget="1ns")
    assert len(a["jobs"]) == 3 and "partial" not in a and a["has_more"]


# --- texts that try to be something else ------------------------------------


TEXTS = ["queue", "payload_contains", "payload_jq", "unique_key", "batch_id",
         "worker_id", "parent_id", "chain_id", "group", "schedule_id",
         "error_contains", "job_id_prefix", "text", "sort", "order", "cursor"]
ATTACKS = ODD + ["' UNION SELECT * FROM meta --", "1); DROP TABLE jobs; --",
                 "');", "\" OR \"\"=\"", "x' AND randomblob(100000000) --",
                 "?2", ":a", "@a", "$x", "%00", "\\' OR 1=1", "a\u0000' OR 1=1"]


@pytest.mark.parametrize("name", TEXTS)
def test_injection_in_texts_changes_nothing(world, client, name):
    everything = [j["id"] for j in world.newest_first]
    for text in ATTACKS:
        a = client.post(f"{API}/jobs/search", {name: text, "limit": 100,
                                               "time_budget": "10s"})
        if a.status == 400:
            assert a.code == "VALIDATION_ERROR", (text, a)
            continue
        assert a.status == 200, (text, a)
        got = [j["id"] for j in a.json["jobs"]]
        if name in EQUAL + ["payload_contains", "error_contains",
                            "job_id_prefix"]:
            expected = world.matching(**{name: text})
            assert got == [j["id"] for j in expected[:100]], text
            assert a.json["total"] == min(len(expected), COUNTED)
        elif name in ("sort", "order", "cursor"):
            assert got == everything[:100], text
    a = client.search(limit=1000, time_budget="10s")
    assert [j["id"] for j in a["jobs"]] == everything[:1000]
    assert a["total"] == len(everything)


def test_injection_in_tags_changes_nothing(world, client):
    for key in ATTACKS:
        check(world, client, tags={key: key})
        check(world, client, tags={key: "'", "'": key})
    assert find(client)[1] == len(world.jobs)


def test_injection_leaves_the_view_whole(world, client, node):
    """After all of the above: lists agree, and nothing was made anew."""
    rows = client.get(f"{API}/queues").json
    for row in rows:
        for state in STATES:
            assert row[state] == sum(
                j["state"] == state and j["queue"] == row["name"]
                for j in world.jobs.values()), (row["name"], state)
    assert client.get(f"{API}/workers").status == 200
    assert "view is made anew" not in node.log()
