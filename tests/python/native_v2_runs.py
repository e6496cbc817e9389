"""Runs over the native API: what a workflow did, step by step, also long after it is done, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_runs.py
"""

from _broker import main, quoted, seconds, until
from _effects import LONG_MS, EffectCase


class RunCase(EffectCase):
    """Every scenario is a run over two topics, all named after it."""

    def setUp(self):
        super().setUp()
        self.run_id, self.second = self.topic, f"{self.topic}-second"
        for topic in (self.topic, self.second):
            self.create(topic, retry_policy={"max_attempts": 3, "backoff_ms": 0, "jitter": "none"})

    def step(self, step_id, parent=None, topic=None, run_id=None, **message):
        """Stores the message of a step, and answers where it is."""
        envelope = {"run_id": run_id or self.run_id, "step_id": step_id}
        if parent:
            envelope["parent_step_id"] = parent
        place, = self.produce({"value": step_id, "envelope": envelope, **message}, topic=topic)
        return place

    def lineage(self, run_id=None, **query):
        text = "&".join(f"{name}={value}" for name, value in query.items())
        return self.call("GET", f"/runs/{quoted(run_id or self.run_id)}?{text}")

    def steps(self):
        """The steps of the run by their ids."""
        steps = {step.get("step_id"): step for step in self.lineage(limit=1000)["steps"]}
        for step in steps.values():
            self.assertEqual(len(step["children"]), len(set(step["children"])), step)
        return steps

    def group_of(self, step_id, group="g"):
        """Where the message of a step stands with a group."""
        (message,) = self.steps()[step_id]["messages"]
        (found,) = [state for state in message["groups"] if state["group"] == group]
        return found

    def counts(self):
        run = self.lineage(limit=1000)
        self.assertEqual((run["run_id"], run["unlisted"]), (self.run_id, 0))
        return {name: run[name] for name in ("messages", "effects", "dead_letters", "open")}


class Tree(RunCase):
    def play(self):
        """plan → (fetch → mail, write), with failures in the middle."""
        self.step("plan")
        plan = self.taken(owner="planner")
        finished = self.execute("planned", run_id=self.run_id, step_id="plan")
        self.conclude(finished, body="not shown here", code=200)
        self.settle("ack", plan)
        self.step("fetch", "plan", self.second)
        for attempt in (1, 2):
            self.settle("nack", self.taken(owner=f"w{attempt}", topic=self.second), error=f"error {attempt}")
        fetch = self.taken(owner="w3", topic=self.second)
        self.conclude(self.execute("fetched", lease_token=fetch["lease"]["token"]), "failed_retryable", error="e")
        self.settle("ack", fetch)
        self.step("write", "plan", self.second)
        self.settle("nack", self.taken(owner="writer", topic=self.second), dead=True, error="poison")
        self.step("mail", "fetch")
        mail = self.taken(owner="mailer")
        mailed = self.execute("mailed", lease_ms=LONG_MS, lease_token=mail["lease"]["token"])
        self.execute("loose", lease_ms=LONG_MS, run_id=self.run_id)
        until(lambda: self.counts()["dead_letters"] == 1, "the letter")
        return mail, mailed

    def check_tree(self):
        steps = self.steps()
        self.assertEqual(set(steps), {"plan", "fetch", "write", "mail", None})
        parents = {name: step.get("parent_step_id") for name, step in steps.items() if name}
        self.assertEqual(parents, {"plan": None, "fetch": "plan", "write": "plan", "mail": "fetch"})
        children = {name: sorted(step["children"]) for name, step in steps.items()}
        expected = {"plan": ["fetch", "write"], "fetch": ["mail"], "write": [], "mail": [], None: []}
        self.assertEqual(children, expected)
        topics = {name: [message["topic"] for message in step["messages"]] for name, step in steps.items()}
        self.assertEqual(topics, {"plan": [self.topic], "fetch": [self.second], "write": [self.second],
                                  "mail": [self.topic], None: []})
        return steps

    def check_attempts(self):
        found = self.group_of("fetch")
        self.assertEqual((found["state"], found["attempts"], found["last_error"]), ("done", 3, "error 2"))
        failed = [(past["attempt"], past["owner"], past["error"]) for past in found["history"][:2]]
        self.assertEqual(failed, [(1, "w1", "error 1"), (2, "w2", "error 2")])
        plan = self.group_of("plan")
        self.assertEqual((plan["state"], plan["attempts"], plan.get("last_error")), ("done", 1, None))
        dead = self.group_of("write")
        self.assertEqual((dead["state"], dead["attempts"], dead["last_error"]), ("dead_lettered", 1, "poison"))
        self.assertEqual((dead["history"][0]["owner"], dead["history"][0]["error"]), ("writer", "poison"))

    def check_effects(self, mailed):
        states = {
            name: [(effect["key"], effect["state"]) for effect in step["effects"]]
            for name, step in self.steps().items()
        }
        self.assertEqual(states, {
            "plan": [("planned", "succeeded")], "fetch": [("fetched", "failed_retryable")], "write": [],
            "mail": [("mailed", mailed)], None: [("loose", "in_progress")],
        })
        (planned,) = self.steps()["plan"]["effects"]
        self.assertEqual(planned["outcome"]["code"], 200)
        self.assertFalse({"body", "headers"} & set(planned["outcome"]))

    def check_times(self):
        """Every step's times are in order, and so are the steps among themselves."""
        run = self.lineage(limit=1000)
        moments = [seconds(run["started_at"])]
        for name in ("plan", "fetch", "write"):
            (message,) = self.steps()[name]["messages"]
            (state,) = message["groups"]
            moments += [seconds(message["stored_at"]), seconds(state["first_leased_at"])]
            moments += [seconds(past[at]) for past in state["history"][:2] for at in ("leased_at", "ended_at")
                        if past["error"]]
            moments.append(seconds(state["ended_at"]))
        moments.append(seconds(run["last_at"]))
        self.assertEqual(moments, sorted(moments))

    def test_a_run_shows_its_steps_and_remembers_them(self):
        mail, mailed = self.play()
        self.check_tree()
        self.check_attempts()
        self.check_effects("in_progress")
        self.assertEqual(self.group_of("mail")["state"], "running")
        self.assertEqual(self.counts(), {"messages": 4, "effects": 4, "dead_letters": 1, "open": 1})
        tied = self.steps()["mail"]["effects"][0]["message"]
        place = {name: mail[name] for name in ("topic", "partition", "offset")}
        self.assertEqual(tied, {**place, "attempt": 1})
        self.conclude(mailed)
        self.settle("ack", mail)
        self.assertEqual(self.counts(), {"messages": 4, "effects": 4, "dead_letters": 1, "open": 0})
        for restart in (False, True):
            if restart:
                before = self.lineage(limit=1000)
                self.server.restart()
                self.assertEqual(self.lineage(limit=1000), before)
            self.check_tree()
            self.check_attempts()
            self.check_effects("succeeded")
            self.check_times()
            self.assertEqual(self.group_of("mail")["state"], "done")


class States(RunCase):
    def test_a_message_is_shown_where_it_stands(self):
        self.lease(), self.lease(group="h")
        places = {name: self.step(name) for name in ("waits", "gone")}
        for group in "gh":
            self.assertEqual(self.group_of("waits", group)["state"], "waiting")
        path = f"/topics/{self.topic}/messages/{places['gone']['partition']}/{places['gone']['offset']}"
        self.call("DELETE", path)
        self.assertEqual(self.group_of("gone")["state"], "cancelled")
        item = self.taken()
        found = self.group_of("waits")
        self.assertEqual((item["value"], found["state"], found["attempts"]), ("waits", "running", 1))
        self.assertEqual(self.group_of("waits", "h")["attempts"], 0)
        self.settle("nack", item, delay_ms=LONG_MS, error="not yet")
        found = self.group_of("waits")
        self.assertEqual((found["state"], found["attempts"], found["last_error"]), ("retrying", 1, "not yet"))
        self.assertNotIn("ended_at", found)
        self.assertEqual(self.counts()["open"], 1)

    def test_one_step_may_have_many_messages(self):
        for number in range(3):
            self.step("fan", "root", value=f"v{number}")
        fan = self.steps()["fan"]
        self.assertEqual(len(fan["messages"]), 3)
        self.assertEqual(fan["parent_step_id"], "root")
        places = [message["offset"] for message in fan["messages"]]
        self.assertEqual(places, sorted(places))

    def test_the_words_of_a_run_may_be_any(self):
        run_id = f"{self.topic} ü/?#"
        self.step("s/ü", run_id=run_id)
        run = self.lineage(run_id)
        self.assertEqual((run["run_id"], run["steps"][0]["step_id"]), (run_id, "s/ü"))


class Lists(RunCase):
    def everything(self, limit):
        """All that a run lists page by page; `limit` counts messages and effects together."""
        offsets, keys, query = [], [], {"limit": limit}
        while True:
            page = self.lineage(**query)
            here = [message["offset"] for step in page["steps"] for message in step["messages"]]
            there = [effect["key"] for step in page["steps"] for effect in step["effects"]]
            self.assertLessEqual(len(here) + len(there), limit)
            offsets, keys = offsets + here, keys + there
            if "cursor" not in page:
                return sorted(offsets), sorted(keys)
            query["cursor"] = page["cursor"]

    def test_a_long_run_comes_in_pages(self):
        self.lease()
        places = [self.step(f"s{index % 7}", f"s{(index + 1) % 7}") for index in range(25)]
        keys = [f"k{index:02}" for index in range(12)]
        for index, key in enumerate(keys):
            self.execute(key, lease_ms=LONG_MS, run_id=self.run_id, step_id=f"s{index % 7}")
        expected = ([place["offset"] for place in places], keys)
        for limit in (1, 10, 1000):
            self.assertEqual(self.everything(limit), expected, limit)
        self.assertEqual(self.counts(), {"messages": 25, "effects": 12, "dead_letters": 0, "open": 25})

    def test_runs_are_listed_newest_first(self):
        names = [f"{self.topic}-{index}" for index in range(7)]
        for name in names:
            self.step("only", run_id=name)
        self.execute(run_id=f"{self.topic}-effect", step_id="s")
        for limit in (3, 1000):
            runs = [run for run in self.pages("/runs", "runs", limit=limit)
                    if run["run_id"].startswith(self.topic)]
            found = [run["run_id"] for run in runs]
            self.assertEqual(found, [f"{self.topic}-effect", *reversed(names)])
        one = dict(self.lineage(names[3]))
        one.pop("steps")
        self.assertEqual(runs[4], one)
        self.assertEqual((one["messages"], one["effects"], one["started_at"]), (1, 0, one["last_at"]))

    def test_an_unknown_run(self):
        self.refused("GET", "/runs/nothing", status=404, code="RUN_UNKNOWN")
        self.refused("GET", f"/runs/{self.run_id}", status=404, code="RUN_UNKNOWN")
        self.step("s")
        for query in ("limit=0", "limit=1001", "cursor=nonsense", "nonsense=1"):
            self.refused("GET", f"/runs/{self.run_id}?{query}")


if __name__ == "__main__":
    main()
