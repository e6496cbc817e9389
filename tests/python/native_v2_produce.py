"""Topics and producing over the native API, against the real binary.

    DRIFTQ_BIN=target/debug/driftq python3 tests/python/native_v2_produce.py
"""

import base64
import json
import time
from datetime import datetime, timedelta, timezone

from _broker import Case, main, seconds, until


class Topics(Case):
    def test_creating_again_confirms_and_other_settings_are_named(self):
        spec = {"partitions": 2, "lease_ms": 7000, "ordering": "key"}
        created = self.create(**spec)
        self.assertEqual((created["created"], len(created["partitions"])), (True, 2))
        self.assertEqual((created["settings"]["lease_ms"], created["settings"]["ordering"]), (7000, "key"))
        path = f"/topics/{self.topic}"
        self.assertFalse(self.call("PUT", path, spec)["created"])
        for change in ({"lease_ms": 8000}, {"ordering": "fifo"}, {"partitions": 3}, {"lease_ms": None}):
            named = next(iter(change))
            self.refused("PUT", path, {**spec, **change}, 409, "SETTINGS_DIFFER", named)
        self.assertEqual(self.call("GET", path)["settings"], created["settings"])

    def test_a_patch_says_what_it_did(self):
        self.create(lease_ms=7000)
        path = f"/topics/{self.topic}"
        changed = self.call("PATCH", path, {"lease_ms": 9000, "max_in_flight": 5})
        changes = {change["setting"]: (change["before"], change["after"]) for change in changed["changed"]}
        self.assertEqual(changes["lease_ms"], (7000, 9000))
        self.assertEqual(changes["max_in_flight"][1], 5)
        self.assertEqual(self.call("PATCH", path, {"lease_ms": 9000})["changed"], [], "nothing to do")
        self.call("PATCH", path, {"lease_ms": None})
        self.assertNotIn("lease_ms", self.call("GET", path)["settings"]["set"], "null is back to the default")
        self.refused("PATCH", path, {"partitions": 9}, 400, "INVALID_JSON", "partitions")
        self.refused("PATCH", "/topics/nowhere", {"lease_ms": 1}, 404, "TOPIC_UNKNOWN")

    def test_deleting_asks_for_the_name_and_forgets_everything(self):
        self.create()
        path = f"/topics/{self.topic}"
        message = {"value": "first", "envelope": {"idempotency_key": "once"}}
        self.produce(message)
        self.lease()
        for query in ("", "?confirm=other"):
            self.refused("DELETE", path + query, status=400, code="CONFIRMATION_REQUIRED", says=self.topic)
        self.assertEqual(self.call("GET", path)["messages"], 1)
        self.call("DELETE", f"{path}?confirm={self.topic}", expect=204)
        self.refused("GET", path, status=404, code="TOPIC_UNKNOWN")
        self.refused("POST", f"{path}/messages", {"value": "v"}, 404, "TOPIC_UNKNOWN")
        again = self.create()
        self.assertEqual((again["messages"], again["groups"]), (0, []))
        self.assertFalse(self.produce(message)[0]["duplicate"], "identities go with the topic")
        self.assertEqual(self.lease_values(), ["first"])

    def test_lists_have_pages(self):
        names = [f"{self.topic}-{index}" for index in range(5)]
        for name in names:
            self.create(name)
        seen, cursor = [], ""
        while True:
            page = self.call("GET", f"/topics?limit=2{cursor}")
            self.assertLessEqual(len(page["topics"]), 2)
            seen += [topic["name"] for topic in page["topics"]]
            if not page.get("cursor"):
                break
            cursor = f"&cursor={page['cursor']}"
        self.assertEqual([name for name in seen if name.startswith(self.topic)], names)
        self.assertEqual(seen, sorted(set(seen)))


class Produce(Case):
    def setUp(self):
        super().setUp()
        self.create(partitions=2)
        self.path = f"/topics/{self.topic}/messages"

    def stored(self):
        return [item.get("value") for item in self.call("GET", self.path)["messages"]]

    def test_one_and_many_in_three_forms(self):
        one = self.client.call("POST", "/v2" + self.path, {"value": "one", "key": "k"})
        self.assertEqual(one.status, 201, str(one))
        self.assertEqual(one.json["duplicate"], False)
        array = self.client.call("POST", "/v2" + self.path, [{"value": "two"}, {"value": "three"}])
        self.assertEqual((array.status, array.kind, len(array.json)), (200, "application/json", 2), str(array))
        ndjson = b'{"value":"four"}\n\n{"value":"five"}'
        headers = {"Content-Type": "application/x-ndjson"}
        lines = self.client.call("POST", "/v2" + self.path, ndjson, headers)
        self.assertEqual((lines.status, lines.kind), (200, "application/x-ndjson"), str(lines))
        results = [one.json, *array.json, *lines.lines]
        self.assertEqual(len({(result["partition"], result["offset"]) for result in results}), 5)
        self.assertCountEqual(self.stored(), ["one", "two", "three", "four", "five"])
        for result, value in zip(results, ["one", "two", "three", "four", "five"]):
            place = f"{self.path}/{result['partition']}/{result['offset']}"
            self.assertEqual(self.call("GET", place)["value"], value, "results come in the order of messages")

    def test_duplicates_are_stored_once_and_say_where(self):
        message = {"value": "v", "envelope": {"idempotency_key": "k", "request_hash": "h"}}
        first, same, other = self.produce(message, message, "free")
        self.assertEqual([first["duplicate"], same["duplicate"], other["duplicate"]], [False, True, False])
        again = self.call("POST", self.path, message, 200)
        self.assertEqual({**first, "duplicate": True}, again)
        self.assertEqual((same["partition"], same["offset"]), (first["partition"], first["offset"]))
        tenant = {"value": "v", "envelope": {"idempotency_key": "k", "tenant_id": "another"}}
        self.assertFalse(self.produce(tenant)[0]["duplicate"], "an identity belongs to its tenant")
        self.assertCountEqual(self.stored(), ["v", "free", "v"])

    def test_a_key_with_another_hash_is_refused(self):
        envelope = {"idempotency_key": "k", "request_hash": "h1"}
        self.produce({"value": "v", "envelope": envelope})
        other = {"value": "v", "envelope": {**envelope, "request_hash": "h2"}}
        self.refused("POST", self.path, other, 422, "KEY_REUSED")
        results = self.call("POST", self.path, [{"value": "a"}, other, {"value": "b"}])
        self.assertEqual(results[1]["error"]["code"], "KEY_REUSED")
        self.assertEqual([result.get("duplicate") for result in results], [False, None, False])
        self.assertCountEqual(self.stored(), ["v", "a", "b"])

    def test_the_header_names_a_request(self):
        key = {"Idempotency-Key": "request-1"}
        first = self.client.call("POST", "/v2" + self.path, {"value": "v"}, key)
        again = self.client.call("POST", "/v2" + self.path, {"value": "v"}, key)
        self.assertEqual(first.status, 201, str(first))
        self.assertIn(again.status, (200, 201), str(again))
        place = lambda answer: (answer.json["partition"], answer.json["offset"])
        self.assertEqual(place(first), place(again), str(again))
        self.refused("POST", self.path, {"value": "w"}, 422, "KEY_REUSED", headers=key)
        key = {"Idempotency-Key": "request-2"}
        batch = [{"value": "a"}, {"value": "b"}]
        first = self.client.call("POST", "/v2" + self.path, batch, key)
        again = self.client.call("POST", "/v2" + self.path, batch, key)
        self.assertEqual([first.status, again.status], [200, 200], str(again))
        self.assertEqual([place["offset"] for place in first.json], [place["offset"] for place in again.json])
        self.refused("POST", self.path, batch[:1], 422, "KEY_REUSED", headers=key)
        self.assertCountEqual(self.stored(), ["v", "a", "b"])

    def test_bytes_come_back_as_they_were(self):
        raw = bytes(range(256))
        self.produce({"key": "k", "value_b64": base64.b64encode(raw).decode()}, {"key": "k", "value_b64": "cMOk"})
        bytes_item, text_item = self.lease(max=2)
        self.assertEqual(base64.b64decode(bytes_item["value_b64"]), raw)
        self.assertNotIn("value", bytes_item)
        self.assertEqual(text_item["value"], "pä", "bytes that are text come back as text")
        for message in ({}, {"value": "a", "value_b64": "YQ=="}, {"value_b64": "YQ"}, {"value": ""}):
            answer = self.client.call("POST", "/v2" + self.path, message)
            self.assertEqual(answer.status, 400, str(answer))

    def test_messages_without_a_key_are_spread_over_the_partitions(self):
        self.create("wide", partitions=4)
        path = "/topics/wide/messages"
        places = [self.call("POST", path, {"value": "one"}, 201)["partition"] for _ in range(40)]
        places += [place["partition"] for place in self.call("POST", path, [{"value": "many"}] * 400)]
        counts = [places.count(partition) for partition in range(4)]
        self.assertEqual(sum(counts), 440)
        self.assertTrue(all(count > 440 / 4 / 2 for count in counts), counts)
        commit = {"produce": [{"topic": "wide", "message": {"value": "v"}} for _ in range(40)]}
        produced = self.call("POST", "/commit", commit)["produced"]
        self.assertEqual({place["partition"] for place in produced}, {0, 1, 2, 3})
        keyed = {place["partition"] for place in self.call("POST", path, [{"key": "k", "value": "v"}] * 20)}
        self.assertEqual(len(keyed), 1, "a key has one partition")
        fixed = [{"value": "v", "envelope": {"partition_override": 2}}] * 20
        self.assertEqual({place["partition"] for place in self.call("POST", path, fixed)}, {2})
        first = {self.client.call("POST", "/v1/produce?topic=wide&value=v").status for _ in range(8)}
        self.assertEqual(first, {200})
        after = self.call("GET", "/topics/wide")["partitions"]
        self.assertEqual(after[0]["messages"] - places.count(0), 8 + self.zeros(produced, keyed), "/v1 keeps its rule")

    def zeros(self, produced, keyed):
        return sum(place["partition"] == 0 for place in produced) + (20 if keyed == {0} else 0)

    def test_keys_may_be_bytes(self):
        raw = bytes([0xff, 0x00, 0x80])
        placed = self.produce({"key_b64": base64.b64encode(raw).decode(), "value": "v"}, {"key_b64": "aw==", "value": "w"})
        again = self.produce({"key_b64": base64.b64encode(raw).decode(), "value": "x"}, {"key": "k", "value": "y"})
        self.assertEqual([place["partition"] for place in placed], [place["partition"] for place in again])
        items = {item["value"]: item for item in self.call("GET", self.path)["messages"]}
        self.assertEqual(base64.b64decode(items["v"]["key_b64"]), raw)
        self.assertNotIn("key", items["v"])
        self.assertEqual(items["w"]["key"], "k", "bytes that are text come back as text")
        self.refused("POST", self.path, {"key": "k", "key_b64": "aw==", "value": "v"}, says="exclude each other")

    def test_values_may_be_any_json(self):
        bodies = [b'{"a": [1, {"b": null}], "big": 12345678901234567890}', b"[]", b"1.50", b"true", b"null", b'"text"']
        for body in bodies:
            self.client.call("POST", "/v2" + self.path, b'{"key":"k","value":' + body + b"}")
        array = b"[" + b",".join(b'{"key":"k","value":' + body + b"}" for body in bodies) + b"]"
        self.client.call("POST", "/v2" + self.path, array)
        ndjson = b"\n".join(b'{"key":"k","value":' + body + b"}" for body in bodies)
        self.client.call("POST", "/v2" + self.path, ndjson, {"Content-Type": "application/x-ndjson"})
        commit = b",".join(
            b'{"topic":' + json.dumps(self.topic).encode() + b',"message":{"key":"k","value":' + body + b"}}"
            for body in bodies
        )
        answer = self.client.call("POST", "/v2/commit", b'{"produce":[' + commit + b"]}")
        self.assertEqual(answer.status, 200, str(answer))
        expected = [body.decode() for body in bodies[:-1]] + ["text"]
        self.assertEqual([item["value"] for item in self.lease(max=100)], expected * 4, "its JSON text, as it was sent")

    def test_a_bad_line_refuses_the_whole_batch(self):
        good = json.dumps({"value": "good"}).encode()
        ndjson = {"Content-Type": "application/x-ndjson"}
        for bad in (b"{", b'{"value":1e}', b'{"value":"a","extra":1}', b'"text"', b'{"value":"\xff"}', b"[]"):
            body = b"\n".join([good, bad, good])
            answer = self.client.call("POST", "/v2" + self.path, body, ndjson)
            self.assertEqual((answer.status, answer.kind), (400, "application/problem+json"), str(answer))
            self.assertRegex(answer.json["detail"], r"(line|message|\[)\D*[12]\b", str(answer))
        self.refused("POST", self.path, [{"value": "good"}, {"value": "v", "key": 1}], 400, "INVALID_JSON", "[1].key")
        self.refused("POST", self.path, [], 400)
        many = b"\n".join([b'{"value":"x"}'] * 10_001)
        answer = self.client.call("POST", "/v2" + self.path, many, ndjson)
        self.assertEqual(answer.status, 400, str(answer))
        self.assertIn("10000", answer.json["detail"])
        self.assertEqual(self.stored(), [])

    def test_the_envelope_reaches_the_reader(self):
        envelope = {
            "run_id": "r", "step_id": "s", "parent_step_id": "p", "tenant_id": "t", "labels": {"a": "1"},
            "idempotency_key": "i", "partition_override": 1, "deadline": "2099-01-01T00:00:00Z",
            "retry_policy": {"max_attempts": 3, "backoff_ms": 5, "max_backoff_ms": 50, "jitter": "none"},
        }
        place = self.produce({"value": "v", "key": "k", "priority": 4, "envelope": envelope})[0]
        self.assertEqual(place["partition"], 1)
        item = self.lease()[0]
        self.assertEqual((item["key"], item["priority"]), ("k", 4))
        self.assertEqual({name: item["envelope"].get(name) for name in envelope}, envelope)
        late = {"value": "v", "envelope": {"deadline": "2020-01-01T00:00:00Z"}}
        self.refused("POST", self.path, late, 400, "DEADLINE_EXCEEDED")


class Schedule(Case):
    def test_never_early_and_none_forgotten_across_a_kill(self):
        self.create(partitions=2)
        due_in = [300 + 40 * index for index in range(50)]
        messages = [{"value": f"d{delay}", "delay_ms": delay} for delay in due_in[::2]]
        for delay in due_in[1::2]:
            at = datetime.now(timezone.utc) + timedelta(milliseconds=delay)
            messages.append({"value": f"a{delay}", "deliver_at": at.isoformat().replace("+00:00", "Z")})
        begun = time.time()
        self.produce(*messages)
        self.assertEqual(self.call("GET", f"/topics/{self.topic}")["messages"], 50)
        got = {}

        def gather(wait_ms):
            for item in self.lease(max=100, wait_ms=wait_ms, lease_ms=60_000):
                self.assertGreaterEqual(time.time(), seconds(item["deliver_at"]) - 0.001, item)
                self.assertGreaterEqual(seconds(item["deliver_at"]) - begun, int(item["value"][1:]) / 1000 - 0.01)
                self.assertNotIn(item["value"], got, "delivered twice")
                got[item["value"]] = True
                self.settle("ack", item)

        until(lambda: gather(100) or len(got) >= 5, "the first of them are due")
        self.server.restart()
        gather(0)
        until(lambda: gather(500) or len(got) == 50, f"all of them: {len(got)}")
        self.assertEqual(set(got), {message["value"] for message in messages})
        self.assertEqual(self.group()["lag"], 0)

    def test_a_schedule_far_away_waits_and_a_past_one_does_not(self):
        self.create()
        past = {"value": "past", "deliver_at": "2020-01-01T00:00:00Z"}
        far = {"value": "far", "deliver_at": "2030-01-01T00:00:00Z"}
        self.produce(far, past)
        self.server.restart()
        self.assertEqual(self.lease_values(max=10), ["past"])
        self.assertEqual(self.call("GET", f"/topics/{self.topic}")["scheduled"], 1)
        both = {"value": "v", "delay_ms": 5, "deliver_at": "2030-01-01T00:00:00Z"}
        self.refused("POST", f"/topics/{self.topic}/messages", both, says="exclude each other")


if __name__ == "__main__":
    main()
