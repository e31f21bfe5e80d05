"""Histories to judge the judge by (test_history.py)."""


class Told:
    """A history made by hand. Times are small numbers; an op lasts 0.1 s."""

    def __init__(self):
        self.records = []
        self.final = {}

    def add(self, op, begin, request, outcome="ok", answer=None, client="c",
            end=None):
        self.records.append({
            "client": client, "op": op, "begin": begin,
            "end": begin + 0.1 if end is None else end, "outcome": outcome,
            "request": request, "answer": answer or {}})
        return self

    def enqueue(self, job, begin, outcome="ok", queue="q", key=None,
                priority="normal", duplicate=False, mark=None, **more):
        request = {"mark": mark or "m-" + job, "queue": queue,
                   "priority": priority}
        if key:
            request["unique_key"] = key
        return self.add("enqueue", begin, request, outcome,
                        {"job_id": job, "duplicate": duplicate}
                        if outcome == "ok" else {}, **more)

    def batch(self, jobs, begin, outcome="ok"):
        rows = [{"mark": "m-" + j, "queue": "q", "priority": "normal"}
                for j in jobs]
        return self.add("enqueue_batch", begin, {"jobs": rows}, outcome,
                        {"job_ids": jobs} if outcome == "ok" else {})

    def fetch(self, job, begin, token, attempt=1, lease=2.0, **more):
        more.setdefault("client", f"w{token}")
        return self.add("fetch", begin, {"queues": ["q"], "lease_s": lease},
                        "ok", {"jobs": [{"job_id": job, "token": token,
                                         "attempt": attempt, "queue": "q",
                                         "mark": "m-" + job}]}, **more)

    def with_token(self, op, job, begin, token, outcome="ok", code=None,
                   **more):
        answer = {"status": "ok"} if op == "beat" and not code else {}
        if code:
            answer = {"code": code}
        return self.add(op, begin, {"job_id": job, "token": token}, outcome,
                        answer, **more)

    def ack(self, *args, **more):
        return self.with_token("ack", *args, **more)

    def fail(self, *args, **more):
        return self.with_token("fail", *args, **more)

    def beat(self, *args, **more):
        return self.with_token("beat", *args, **more)

    def cancel(self, job, begin, outcome="ok", status="cancelled"):
        return self.add("cancel", begin, {"job_id": job}, outcome,
                        {"status": status} if outcome == "ok" else {})

    def acked(self, job, begin, port=1, index=0):
        """An enqueue, with the node that answered it."""
        self.enqueue(job, begin)
        self.records[-1]["answer"].update(port=port, index=index)
        return self.end(job, "pending")

    def read(self, job, begin, status=404, port=1, min_index=None,
             behind=False):
        return self.add("read", begin, {"job_id": job, "port": port,
                                        "min_index": min_index},
                        "ok" if status == 200 else "refused",
                        {"status": status, "behind": behind})

    def delete(self, job, begin, outcome="ok"):
        return self.add("delete", begin, {"job_id": job}, outcome)

    def end(self, job, state, events=(), mark=None):
        self.final[job] = {"state": state, "mark": mark or "m-" + job,
                           "events": [list(e) for e in events]}
        return self
