"""The smaller reads: dead jobs, jobs by their ids, by words, iterations."""

from urllib.parse import quote

import pytest

from node import API

NO_JOB = "job_00000000000000000000000000"


def kill(client, queue, n, **members):
    """Makes n dead jobs; their ids in the order of creation."""
    ids = [client.enqueue(queue, max_retries=1, payload={"n": i}, **members)
           for i in range(n)]
    for _ in range(n):
        client.fail(client.fetch(queue), error="by test")
    return ids


def find(client, q, **arguments):
    more = "".join(f"&{k}={v}" for k, v in arguments.items())
    a = client.get(f"{API}/search/fulltext?q={q}{more}")
    assert a.status == 200, a
    return a.json


def found(client, q, **arguments):
    return [hit["id"] for hit in find(client, q, **arguments)["results"]]


# --- GET /dead -----------------------------------------------------------


def test_dead_jobs_of_a_queue(client, queue):
    ids = kill(client, queue, 3)
    client.enqueue(queue)
    a = client.get(f"{API}/dead?queue={queue}")
    assert a.status == 200
    assert [j["id"] for j in a.json["jobs"]] == ids[::-1]
    assert {j["state"] for j in a.json["jobs"]} == {"dead"}
    assert a.json["jobs"][0]["last_error"] == "by test"
    assert (a.json["total"], a.json["has_more"]) == (3, False)
    assert isinstance(a.json["duration_ms"], int)


def test_dead_jobs_of_all_queues(client, queue):
    mine = kill(client, queue, 2) + kill(client, queue + "-2", 1)
    a = client.get(f"{API}/dead?limit=1000").json
    assert set(mine) <= {j["id"] for j in a["jobs"]}


def test_dead_jobs_page_by_page(client, queue):
    ids = kill(client, queue, 5)
    got, more = [], ""
    while True:
        a = client.get(f"{API}/dead?queue={queue}&order=asc&limit=2{more}")
        assert a.status == 200, a
        got += [j["id"] for j in a.json["jobs"]]
        if not a.json["has_more"]:
            break
        more = "&cursor=" + a.json["cursor"]
    assert got == ids


def test_dead_without_any(client, queue):
    a = client.get(f"{API}/dead?queue={queue}").json
    assert a["jobs"] == [] and a["total"] == 0


def test_dead_limit_outside_its_range(client, queue):
    ids = kill(client, queue, 2)
    for limit in ("0", "1001"):
        path = f"{API}/dead?queue={queue}&limit={limit}"
        a = client.get(path)
        assert (a.status, a.code) == (400, "VALIDATION_ERROR")
        assert "limit: must be a whole number from 1 to 1000" in a.json["error"]
        a = client.get(path, {"X-Corvo-Compat": "0.3"}).json
        assert [j["id"] for j in a["jobs"]] == ids[::-1]


# --- POST /jobs/bulk-get -------------------------------------------------


def test_bulk_get_shows_jobs_as_get_does(client, queue):
    ids = kill(client, queue, 3) + [client.enqueue(queue)]
    a = client.post(f"{API}/jobs/bulk-get", {"job_ids": ids})
    assert a.status == 200
    assert a.json == {"jobs": [client.job(i) for i in ids]}
    assert a.json["jobs"][0]["errors"][0]["error"] == "by test"
    assert a.json["jobs"][0]["timeline"]
    assert "X-Corvo-Index" not in a.headers


def test_bulk_get_skips_unknown_and_repeated_ids(client, queue):
    one, two = client.enqueue(queue), client.enqueue(queue)
    a = client.post(f"{API}/jobs/bulk-get",
                    {"job_ids": [two, NO_JOB, "nonsense", one, two]})
    assert [j["id"] for j in a.json["jobs"]] == [two, one]


def test_bulk_get_of_nothing(client):
    for body in ({"job_ids": []}, {}):
        a = client.post(f"{API}/jobs/bulk-get", body)
        assert (a.status, a.json) == (200, {"jobs": []})


def test_bulk_get_takes_a_thousand_ids(client, queue):
    ids = []
    for _ in range(10):
        ids += client.post(f"{API}/enqueue/batch", {
            "jobs": [{"queue": queue}] * 100}).json["job_ids"]
    a = client.post(f"{API}/jobs/bulk-get", {"job_ids": ids})
    assert [j["id"] for j in a.json["jobs"]] == ids
    a = client.post(f"{API}/jobs/bulk-get", {"job_ids": ids + [NO_JOB]})
    assert (a.status, a.code) == (400, "VALIDATION_ERROR")
    assert "1000" in a.json["error"]


def test_bulk_get_names_what_did_not_fit(client, queue):
    """60 jobs of 250 kB are more than one answer holds."""
    ids = [client.enqueue(queue, payload="x" * 250_000) for _ in range(60)]
    got, rest = [], ids
    while rest:
        a = client.post(f"{API}/jobs/bulk-get", {"job_ids": rest})
        assert a.status == 200 and len(a.body) < 12 << 20
        assert a.json["jobs"]
        got += [j["id"] for j in a.json["jobs"]]
        rest = a.json.get("omitted", [])
        assert got + rest == ids
    assert got == ids


def test_many_bulk_gets_at_a_time(node, client, queue):
    """Each is answered, or refused and may come again; nothing else waits."""
    ids = client.post(f"{API}/enqueue/batch", {
        "jobs": [{"queue": queue}] * 1000}).json["job_ids"]
    clients = [node.client() for _ in range(60)]
    for c in clients:
        c.send("POST", f"{API}/jobs/bulk-get", {"job_ids": ids})
    client.enqueue(queue)
    answers = [c.receive() for c in clients]
    for c in clients:
        c.close()
    assert {a.status for a in answers} <= {200, 429}
    for a in answers:
        if a.status == 429:
            assert a.code == "OVERLOADED" and a.headers["Retry-After"]
        else:
            assert len(a.json["jobs"]) == 1000
    assert any(a.status == 200 for a in answers)


# --- GET /search/fulltext ------------------------------------------------


def test_words_of_payload_tags_and_queue(client):
    a = client.enqueue("fruit-basket", payload={"note": "ripe Mangosteen"},
                       tags={"season": "monsoon"})
    for q in ("mangosteen", "MANGOSTEEN", "monsoon", "season", "note",
              "basket", "ripe%20mangosteen", "mangosteen+monsoon",
              "mangos*", "%22ripe%20mangosteen%22"):
        assert a in found(client, q), q
    for q in ("angosteen%20zebra", "%22mangosteen%20ripe%22",
              "mangosteen+zebra"):
        assert a not in found(client, q), q


def test_address_is_found(client, queue):
    a = client.enqueue(queue, payload={"to": "jane.doe@example.org"})
    b = client.enqueue(queue, payload={"to": "doe.jane@example.org"})
    assert found(client, "jane.doe@example.org") == [a]
    assert found(client, "doe.jane@example.org") == [b]
    assert found(client, "jane.doe@exam*") == [a]


def test_answer_of_fulltext(client, queue):
    a = client.enqueue(queue, payload={"word": "kumquat"}, tags={"a": "b"})
    answer = find(client, "kumquat")
    assert answer["q"] == "kumquat"
    (hit,) = answer["results"]
    assert hit["id"] == a and hit["queue"] == queue
    assert hit["state"] == "pending"
    assert hit["payload"] == '{"word": "kumquat"}'  # a text
    assert hit["tags"] == '{"a": "b"}'
    assert hit["created_at"].endswith("Z")
    assert find(client, "no-such-word-anywhere")["results"] == []


def test_newest_first_and_limit(client, queue):
    ids = [client.enqueue(queue, payload="rambutan") for _ in range(60)]
    assert found(client, "rambutan") == ids[:9:-1]
    assert found(client, "rambutan", limit=7) == ids[:-8:-1]
    assert found(client, "rambutan", limit=500) == ids[::-1]
    path = f"{API}/search/fulltext?q=rambutan&limit="
    for limit in ("0", "501", "-1", "many", ""):
        a = client.get(path + limit)
        assert (a.status, a.code) == (400, "VALIDATION_ERROR"), (limit, a)
        assert a.json["error"] == \
            "limit: must be a whole number from 1 to 500"
        a = client.get(path + limit, {"X-Corvo-Compat": "0.3"})
        assert len(a.json["results"]) == 50, limit


def test_part_of_a_word_when_no_job_has_the_word(client, queue):
    a = client.enqueue(queue, payload={"note": "Pomegranate, peeled"})
    assert found(client, "megranate,%20PEE") == [a]
    assert found(client, "egranat") == [a]
    # wildcards of no language mean anything
    assert found(client, "me%25ate") == [] and found(client, "_egranate") == []


@pytest.mark.parametrize("q", [
    "%22", "*", "AND", "a+OR", "NOT%20x", "(", "payload%3A", "%5E", "-", "%27",
    "%22%22%22", "NEAR(a%20b%2C%205)", "%27;DROP%20TABLE%20jobs;--",
    "{a%20b}:x", "x" * 2000, "%F0%9F%A6%86"])
def test_no_text_is_an_error(client, queue, q):
    assert find(client, q)["results"] is not None


# The index gathers all that each of them begins, in memory.
def test_few_words_may_end_with_a_star(client, queue):
    job = client.enqueue(queue, payload=" ".join(
        f"loquat{c}x" for c in "abcdefghijklmnop"))
    stars = " ".join(f"loquat{c}*" for c in "abcdefghijklmnop")
    assert found(client, quote(stars)) == [job]
    assert found(client, quote(f"{stars} {stars}")) == [job]
    too_many = f"{stars} loqua*"
    why = "at most 16 words may end with *"
    for a, member in [
            (client.get(f"{API}/search/fulltext?q={quote(too_many)}"), "q"),
            (client.post(f"{API}/jobs/search", {"text": too_many}), "text")]:
        assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
        assert a.json["error"] == f"{member}: {why}"


# It holds all places of each of their words in a row, and compares them.
def test_phrases_have_an_end(client, queue):
    words = [f"durian{i}" for i in range(128)]
    job = client.enqueue(queue, payload=" ".join(words))
    assert found(client, quote(f'"{" ".join(words)}"')) == [job]
    too_long = f'"{" ".join(words)} more"'
    a = client.get(f"{API}/search/fulltext?q={quote(too_long)}")
    assert (a.status, a.code) == (400, "VALIDATION_ERROR"), a
    assert a.json["error"].startswith("q: at most 128 words may stand next to")


def test_deleted_and_moved_jobs(client, queue):
    a = client.enqueue(queue, payload="tamarillo")
    b = client.enqueue(queue, payload="tamarillo")
    client.request("DELETE", f"{API}/jobs/{a}")
    assert found(client, "tamarillo") == [b]
    client.post(f"{API}/jobs/{b}/move", {"queue": "salak.pen"})
    assert found(client, "salak") == [b]


# --- GET /jobs/{id}/iterations -------------------------------------------


def test_iterations_of_an_unknown_job(client):
    a = client.get(f"{API}/jobs/{NO_JOB}/iterations")
    assert (a.status, a.code) == (404, "NOT_FOUND")
    assert NO_JOB in a.json["error"]


def test_iterations_of_a_job_that_has_none(client, queue):
    a = client.get(f"{API}/jobs/{client.enqueue(queue)}/iterations")
    assert (a.status, a.json) == (200, {"iterations": []})
