"""Rows of test_bad_requests.py on what ties jobs together: keys, batches,
chains, dependencies, groups, actions on jobs, queues and schedules.

(what, method, path, body, (status, code), fragment of the text); @PENDING@ and
the like stand for the ids of jobs in those states.
"""

from node import API

E = f"{API}/enqueue"
B = f"{API}/enqueue/batch"
J = f"{API}/jobs"
Q = f"{API}/queues"
BA = f"{API}/batches"
SC = f"{API}/schedules"
NO_JOB = "job_00000000000000000000000000"
NO_BATCH = "batch_00000000000000000000000000"

WRONG = (400, "VALIDATION_ERROR")
GONE = (404, "NOT_FOUND")
LONG = "x" * 256


def job(**members):
    return {"queue": "bad", **members}


def step(**members):
    return {"queue": "bad", **members}


def chain(*steps, **members):
    return job(chain={"steps": list(steps), **members})


def error(name):
    return (400, name + "_ERROR")


JOBS = [
    ("unique_key a number", "POST", E, job(unique_key=5), WRONG, "unique_key"),
    ("unique_key too long", "POST", E, job(unique_key=LONG), WRONG,
     "unique_key"),
    ("unique_period negative", "POST", E,
     job(unique_key="k", unique_period=-1), WRONG, "unique_period"),
    ("unique_action unknown", "POST", E,
     job(unique_key="k", unique_action="explode"), WRONG, "unique_action"),
    ("timeout of a job unreadable", "POST", E, job(timeout="soon"), WRONG,
     "timeout"),
    ("timeout of a job negative", "POST", E, job(timeout=-1), WRONG,
     "timeout"),
    ("group a number", "POST", E, job(group=1), WRONG, "group"),
    ("group too long", "POST", E, job(group=LONG), WRONG, "group"),

    ("dependency unknown", "POST", E, job(depends_on=[NO_JOB]), WRONG, NO_JOB),
    ("dependencies a text", "POST", E, job(depends_on="@DONE@"), WRONG,
     "depends_on"),
    ("dependency a number", "POST", E, job(depends_on=[1]), WRONG,
     "depends_on[0]"),
    ("dependency empty", "POST", E, job(depends_on=[""]), WRONG,
     "depends_on"),
    ("too many dependencies", "POST", E,
     job(depends_on=["@DONE@"] * 257), WRONG, "depends_on"),
    ("policy unknown", "POST", E,
     job(depends_on=["@DONE@"], on_dependency_failure="shrug"), WRONG,
     "on_dependency_failure"),
    ("position outside a batch", "POST", E, job(depends_on=["#0"]), WRONG,
     "#0"),
    ("position beyond the batch", "POST", B,
     {"jobs": [job(), job(depends_on=["#2"])]}, WRONG, "#2"),
    ("position that is no number", "POST", B,
     {"jobs": [job(), job(depends_on=["#-1"])]}, WRONG, "#-1"),
    ("job that waits for itself", "POST", B,
     {"jobs": [job(depends_on=["#0"]), job()]}, WRONG, ""),
    ("cycle of three", "POST", B,
     {"jobs": [job(depends_on=["#1"]), job(depends_on=["#2"]),
               job(depends_on=["#0"])]}, WRONG, "cycle"),

    ("chain a list", "POST", E, job(chain=[step(), step()]), WRONG, "chain"),
    ("chain without steps", "POST", E, job(chain={}), WRONG, "steps"),
    ("chain of one step", "POST", E, chain(step()), WRONG, "steps"),
    ("chain of too many steps", "POST", E, chain(*[step()] * 101), WRONG,
     "steps"),
    ("chain step without a queue", "POST", E, chain(step(), {}), WRONG,
     "queue"),
    ("chain step with a strange queue", "POST", E,
     chain(step(), {"queue": "a\nb"}), WRONG, "control"),
    ("chain that begins elsewhere", "POST", E,
     chain({"queue": "other"}, step()), WRONG, "queue"),
    ("chain step with negative attempts", "POST", E,
     chain(step(), step(max_retries=-1)), WRONG, "max_retries"),
    ("on_exit without a queue", "POST", E, chain(step(), step(), on_exit={}),
     WRONG, "on_exit"),
    ("on_failure a text", "POST", E,
     chain(step(), step(), on_failure="bad"), WRONG, "on_failure"),
    ("step_status unknown", "POST", f"{API}/ack/@ACTIVE@",
     {"step_status": "jump"}, error("ACK"), "step_status"),

    ("job for no such batch", "POST", E, job(batch_id=NO_BATCH), GONE,
     NO_BATCH),
    ("batch_id a number", "POST", E, job(batch_id=1), WRONG, "batch_id"),
    ("batch a text", "POST", B, {"jobs": [job()], "batch": "b"}, WRONG,
     "batch"),
    ("callback queue strange", "POST", B,
     {"jobs": [job()], "batch": {"callback_queue": " x"}}, WRONG, "space"),
    ("batch under no such parent", "POST", B,
     {"jobs": [job()], "batch": {"parent_id": NO_BATCH}}, GONE, NO_BATCH),
    ("batch with an item of another", "POST", B,
     {"jobs": [job(batch_id=NO_BATCH)], "batch": {}}, (400, None), "batch"),
    ("open batch with a number", "POST", BA, {"callback_queue": 1}, WRONG,
     "callback_queue"),
    ("open batch under no such parent", "POST", BA, {"parent_id": NO_BATCH},
     GONE, NO_BATCH),
    ("open batch a list", "POST", BA, [], WRONG, "object"),
    ("seal of no such batch", "POST", f"{BA}/{NO_BATCH}/seal", b"", GONE,
     "batch"),
    ("get of no such batch", "GET", f"{BA}/{NO_BATCH}", b"", GONE, "batch"),
    ("get of an overlong batch", "GET", f"{BA}/" + "b" * 65, b"", WRONG,
     "batch_id"),
]

ACTIONS = [
    ("move of no such job", "POST", f"{J}/{NO_JOB}/move", {"queue": "bad"},
     error("MOVE"), "not found"),
    ("move to nowhere", "POST", f"{J}/@PENDING@/move", {}, WRONG, "queue"),
    ("move with no body", "POST", f"{J}/@PENDING@/move", b"", (400, None), ""),
    ("move to a strange queue", "POST", f"{J}/@PENDING@/move",
     {"queue": "a\0b"}, WRONG, "control"),
    ("move to an overlong queue", "POST", f"{J}/@PENDING@/move",
     {"queue": LONG}, WRONG, "255"),
    ("move to a number", "POST", f"{J}/@PENDING@/move", {"queue": 1}, WRONG,
     "queue"),
    ("priority of no such job", "POST", f"{J}/{NO_JOB}/priority",
     {"priority": "high"}, error("PRIORITY"), "not found"),
    ("priority missing", "POST", f"{J}/@PENDING@/priority", {}, WRONG,
     "priority"),
    ("priority of a job a number", "POST", f"{J}/@PENDING@/priority",
     {"priority": 1}, WRONG, "priority"),
    ("priority of an active job", "POST", f"{J}/@ACTIVE@/priority",
     {"priority": "high"}, error("PRIORITY"), "active"),
    ("priority of a completed job", "POST", f"{J}/@DONE@/priority",
     {"priority": "high"}, error("PRIORITY"), "completed"),
    ("requeue of no such job", "POST", f"{J}/{NO_JOB}/requeue", b"",
     error("REQUEUE"), "not found"),
    ("requeue of a completed job", "POST", f"{J}/@DONE@/requeue", b"",
     error("REQUEUE"), "completed"),
    ("requeue of a pending job", "POST", f"{J}/@PENDING@/requeue", b"",
     error("REQUEUE"), "pending"),
    ("hold of no such job", "POST", f"{J}/{NO_JOB}/hold", b"", error("HOLD"),
     "not found"),
    ("hold of a dead job", "POST", f"{J}/@DEAD@/hold", b"", error("HOLD"),
     "dead"),
    ("hold for a number", "POST", f"{J}/@PENDING@/hold", {"reason": 1}, WRONG,
     "reason"),
    ("hold for too long a reason", "POST", f"{J}/@PENDING@/hold",
     {"reason": "x" * 17000}, WRONG, "reason"),
    ("approve of no such job", "POST", f"{J}/{NO_JOB}/approve", b"",
     error("APPROVE"), "not found"),
    ("approve of a pending job", "POST", f"{J}/@PENDING@/approve", b"",
     error("APPROVE"), "pending"),
    ("reject of no such job", "POST", f"{J}/{NO_JOB}/reject", b"",
     error("REJECT"), "not found"),
    ("reject of an active job", "POST", f"{J}/@ACTIVE@/reject", b"",
     error("REJECT"), "active"),
    ("why of no such job", "GET", f"{J}/{NO_JOB}/why", b"", GONE, "job"),
    ("logs of no such job", "GET", f"{J}/{NO_JOB}/logs", b"", GONE, "job"),
    ("logs after a text", "GET", f"{J}/@ACTIVE@/logs?after=x", b"", WRONG,
     "after"),
    ("logs after a negative number", "GET", f"{J}/@ACTIVE@/logs?after=-1", b"",
     WRONG, "after"),
    ("log line too long", "POST", f"{API}/heartbeat",
     {"jobs": {"@ACTIVE@": {"logs": ["x" * 4097]}}}, WRONG, "logs"),
    ("log lines a text", "POST", f"{API}/ack/@ACTIVE@", {"logs": "x"}, WRONG,
     "logs"),
    ("too many log lines", "POST", f"{API}/fail/@ACTIVE@",
     {"logs": ["x"] * 257}, WRONG, "logs"),
    ("wait unreadable", "GET", f"{J}/@PENDING@?wait=soon", b"", WRONG, "wait"),
    ("wait negative", "GET", f"{J}/@PENDING@?wait=-1s", b"", WRONG, "wait"),
    ("wait for no such job", "GET", f"{J}/{NO_JOB}?wait=1s", b"", GONE, "job"),
]

QUEUES = [
    ("get of no such queue", "GET", f"{Q}/nothere", b"", GONE, "queue"),
    ("get of an overlong queue", "GET", f"{Q}/{LONG}", b"", WRONG, "255"),
    ("patch with no body", "PATCH", f"{Q}/bad.other", b"[", (400, None), ""),
    ("patch of a list", "PATCH", f"{Q}/bad.other", [], WRONG, "object"),
    ("concurrency negative", "PATCH", f"{Q}/bad.other",
     {"max_concurrency": -1}, WRONG, "max_concurrency"),
    ("concurrency a text", "PATCH", f"{Q}/bad.other",
     {"max_concurrency": "5"}, WRONG, "max_concurrency"),
    ("concurrency too large", "PATCH", f"{Q}/bad.other",
     {"max_concurrency": 1000001}, WRONG, "max_concurrency"),
    ("rate without a period", "PATCH", f"{Q}/bad.other", {"rate": 5}, WRONG,
     "period"),
    ("period without a rate", "PATCH", f"{Q}/bad.other", {"period": "1m"},
     WRONG, "rate"),
    ("period of nothing", "PATCH", f"{Q}/bad.other",
     {"rate": 5, "period": "0s"}, WRONG, "period"),
    ("group rate without a period", "PATCH", f"{Q}/bad.other",
     {"group_rate": 5}, WRONG, "group_period"),
    ("lease of a queue too long", "PATCH", f"{Q}/bad.other",
     {"lease_duration": "48h"}, WRONG, "lease_duration"),
    ("fairness unknown", "PATCH", f"{Q}/bad.other", {"fairness": "luck"},
     WRONG, "fairness"),
    ("jitter of a queue too large", "PATCH", f"{Q}/bad.other",
     {"retry_jitter": 2}, WRONG, "retry_jitter"),
    ("backlog negative", "PATCH", f"{Q}/bad.other", {"max_backlog": -1}, WRONG,
     "max_backlog"),
    ("retention unreadable", "PATCH", f"{Q}/bad.other",
     {"retention": "always"}, WRONG, "retention"),
    ("groups a list", "PATCH", f"{Q}/bad.other", {"groups": [1]}, WRONG,
     "groups"),
    ("limits of a group a number", "PATCH", f"{Q}/bad.other",
     {"groups": {"g": 1}}, WRONG, "g"),
    ("weight too large", "PATCH", f"{Q}/bad.other",
     {"groups": {"g": {"weight": 1001}}}, WRONG, "weight"),
    ("group of limits too long", "PATCH", f"{Q}/bad.other",
     {"groups": {LONG: {"weight": 1}}}, WRONG, "255"),
    ("concurrency without max", "POST", f"{Q}/bad.other/concurrency", {},
     WRONG, "max"),
    ("concurrency of a text", "POST", f"{Q}/bad.other/concurrency",
     {"max": "9"}, WRONG, "max"),
    ("throttle of nothing", "POST", f"{Q}/bad.other/throttle", {}, WRONG,
     "rate and window_ms must be positive"),
    ("throttle of rate 0", "POST", f"{Q}/bad.other/throttle",
     {"rate": 0, "window_ms": 1000}, WRONG,
     "rate and window_ms must be positive"),
    ("throttle with a negative rate", "POST", f"{Q}/bad.other/throttle",
     {"rate": -1, "window_ms": 1000}, WRONG, "rate"),
    ("throttle with an unreadable period", "POST", f"{Q}/bad.other/throttle",
     {"rate": 1, "period": "often"}, WRONG, "period"),
    ("delete of a queue unconfirmed", "DELETE", f"{Q}/bad.other", b"", WRONG,
     "confirm"),
    ("delete of a queue half confirmed", "DELETE",
     f"{Q}/bad.other?confirm=maybe", b"", WRONG, "confirm"),
    ("delete of no such queue", "DELETE", f"{Q}/nothere?confirm=true", b"",
     GONE, "queue"),
    ("drain with an unreadable wait", "POST", f"{Q}/bad.other/drain?wait=long",
     b"", WRONG, "wait"),
    ("clear of an overlong queue", "POST", f"{Q}/{LONG}/clear", b"", WRONG,
     "255"),
]

SCHEDULE = {"name": "n", "queue": "bad", "cron": "@daily"}


def schedule(**members):
    return {**SCHEDULE, **members}


SCHEDULES = [
    ("schedule of nothing", "POST", SC, {}, (400, None), ""),
    ("schedule without a name", "POST", SC, schedule(name=""), (400, None),
     "name"),
    ("schedule without a queue", "POST", SC, schedule(queue=""), (400, None),
     "queue"),
    ("schedule without a time", "POST", SC, schedule(cron=""), (400, None),
     "cron"),
    ("schedule with four fields", "POST", SC, schedule(cron="* * * *"),
     (400, None), "field"),
    ("schedule at minute 60", "POST", SC, schedule(cron="60 * * * *"),
     (400, None), "minute"),
    ("schedule that never comes", "POST", SC, schedule(cron="0 0 30 2 *"),
     (400, None), ""),
    ("schedule too long", "POST", SC, schedule(cron="*" * 300), (400, None),
     "cron"),
    ("schedule in no such zone", "POST", SC, schedule(timezone="Mars/Crater"),
     (400, None), "zone"),
    ("schedule in a path", "POST", SC, schedule(timezone="../../etc/passwd"),
     (400, None), "zone"),
    ("schedule with an unknown overlap", "POST", SC, schedule(overlap="fight"),
     WRONG, "overlap"),
    ("schedule with an unknown dst", "POST", SC, schedule(dst="never"), WRONG,
     "dst"),
    ("schedule with negative runs", "POST", SC, schedule(max_runs=-1), WRONG,
     "max_runs"),
    ("schedule a list", "POST", SC, [], WRONG, "object"),
    ("get of no such schedule", "GET", f"{SC}/nothere", b"", GONE, "schedule"),
    ("put of no such schedule", "PUT", f"{SC}/nothere", SCHEDULE, GONE,
     "schedule"),
    ("delete of no such schedule", "DELETE", f"{SC}/nothere", b"", GONE,
     "schedule"),
    ("pause of no such schedule", "POST", f"{SC}/nothere/pause", b"", GONE,
     "schedule"),
    ("resume of no such schedule", "POST", f"{SC}/nothere/resume", b"", GONE,
     "schedule"),
    ("run of no such schedule", "POST", f"{SC}/nothere/run", b"", GONE,
     "schedule"),
    ("next of no such schedule", "GET", f"{SC}/nothere/next", b"", GONE,
     "schedule"),
    ("preview of nothing", "POST", f"{SC}/preview", {}, (400, None), "cron"),
    ("preview of too many", "POST", f"{SC}/preview",
     {"cron": "@daily", "count": 101}, (400, None), "count"),
    ("preview of a bad expression", "POST", f"{SC}/preview",
     {"cron": "every day"}, (400, None), ""),
]

READS = [
    ("dead with a limit that is no number", "GET", f"{API}/dead?limit=many",
     b"", WRONG, "limit"),
    ("dead with a negative limit", "GET", f"{API}/dead?limit=-1", b"", WRONG,
     "limit"),
    ("dead of an overlong queue", "GET", f"{API}/dead?queue={LONG}", b"",
     WRONG, "queue"),
    ("dead of a queue that is no UTF-8", "GET", f"{API}/dead?queue=%ff", b"",
     WRONG, "queue"),
    ("dead with an overlong cursor", "GET", f"{API}/dead?cursor={'x' * 1025}",
     b"", WRONG, "cursor"),
    ("words missing", "GET", f"{API}/search/fulltext", b"", WRONG,
     "q is required"),
    ("words empty", "GET", f"{API}/search/fulltext?q=", b"", WRONG,
     "q is required"),
    ("words that are no UTF-8", "GET", f"{API}/search/fulltext?q=%ff", b"",
     WRONG, "q"),
    ("a thousand ids and one", "POST", f"{J}/bulk-get",
     {"job_ids": ["x"] * 1001}, WRONG, "1000"),
    ("ids that are a text", "POST", f"{J}/bulk-get", {"job_ids": "x"}, WRONG,
     "job_ids"),
    ("id that is a number", "POST", f"{J}/bulk-get", {"job_ids": [1]}, WRONG,
     "job_ids[0]"),
    ("overlong id", "POST", f"{J}/bulk-get", {"job_ids": ["x" * 65]}, WRONG,
     "job_ids[0]"),
    ("iterations of no such job", "GET", f"{J}/{NO_JOB}/iterations", b"",
     GONE, NO_JOB),
]

BK = f"{API}/bulk"
NO_BULK = "bulk_00000000000000000000000000"


def bulk(action, **members):
    return {"action": action, "job_ids": ["@DEAD@"], **members}


BULK = [
    ("bulk of nothing", "POST", f"{J}/bulk", {}, WRONG, "action"),
    ("bulk with no body", "POST", f"{J}/bulk", b"", (400, None), ""),
    ("bulk a list", "POST", f"{J}/bulk", [], WRONG, "object"),
    ("bulk with an empty action", "POST", f"{J}/bulk", bulk(" "), WRONG,
     "action"),
    ("bulk with an unknown action", "POST", f"{J}/bulk", bulk("explode"),
     error("BULK"), "action"),
    ("bulk with a number for an action", "POST", f"{J}/bulk", bulk(1), WRONG,
     "action"),
    ("bulk without jobs", "POST", f"{J}/bulk", {"action": "retry"}, WRONG,
     "job_ids or filter"),
    ("bulk with a text for ids", "POST", f"{J}/bulk",
     bulk("retry", job_ids="@DEAD@"), WRONG, "job_ids"),
    ("bulk with an overlong id", "POST", f"{J}/bulk",
     bulk("retry", job_ids=["x" * 65]), WRONG, "job_ids[0]"),
    ("bulk with a text for a filter", "POST", f"{J}/bulk",
     {"action": "retry", "filter": "all"}, WRONG, "filter"),
    ("bulk move to nowhere", "POST", f"{J}/bulk", bulk("move"), error("BULK"),
     "move_to_queue"),
    ("bulk move to a strange queue", "POST", f"{J}/bulk",
     bulk("move", move_to_queue="a\0b"), WRONG, "move_to_queue"),
    ("bulk change of priority to none", "POST", f"{J}/bulk",
     bulk("change_priority"), error("BULK"), "priority"),
    ("bulk with a negative rate", "POST", f"{J}/bulk", bulk("retry", rate=-1),
     WRONG, "rate"),
    ("bulk with too many canaries", "POST", f"{J}/bulk",
     bulk("retry", canary=1001), WRONG, "canary"),
    ("bulk with canaries of a delete", "POST", f"{J}/bulk",
     bulk("delete", canary=1), error("BULK"), "canary"),
    ("get of no such bulk operation", "GET", f"{BK}/{NO_BULK}", b"", GONE,
     "bulk operation"),
    ("get of an overlong bulk operation", "GET", f"{BK}/" + "b" * 65, b"",
     WRONG, "bulk_id"),
    ("progress of no such bulk operation", "GET", f"{BK}/{NO_BULK}/progress",
     b"", GONE, "bulk operation"),
    ("pause of no such bulk operation", "POST", f"{BK}/{NO_BULK}/pause", b"",
     GONE, "bulk operation"),
    ("resume of no such bulk operation", "POST", f"{BK}/{NO_BULK}/resume",
     b"", GONE, "bulk operation"),
    ("cancel of no such bulk operation", "POST", f"{BK}/{NO_BULK}/cancel",
     b"", GONE, "bulk operation"),
]

ROWS = BULK + READS + JOBS + ACTIONS + QUEUES + SCHEDULES
