"""Requests that somebody wrote to do harm, byte by byte, and how each must be answered."""

import json
import socket

JSON = "application/json"
NDJSON = "application/x-ndjson"
MESSAGES = "/v2/topics/orders/messages"
LEASE = "/v2/topics/orders/groups/billing/lease"
MIB = 1 << 20


def post(path, body, kind=JSON, **headers):
    """A request whose length is right."""
    body = body if isinstance(body, bytes) else body.encode()
    return raw("POST", path, {"Content-Type": kind, "Content-Length": str(len(body)), **headers}) + body


def posted(headers):
    """The head of a produce."""
    return raw("POST", MESSAGES, {"Content-Type": JSON, **headers})


def raw(method, path, headers=None):
    lines = [f"{method} {path} HTTP/1.1", "Host: broker", "Connection: close"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in (headers or {}).items() if value is not None]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def enveloped(**envelope):
    return json.dumps({"value": "a", "envelope": envelope}).encode()


def ndjson(bad):
    good = b'{"value":"good"}'
    return post(MESSAGES, b"\n".join([good, bad, good]), NDJSON)


def bodies():
    """Bodies that are no message: all are refused with 400 unless another status is named."""
    nested = b"[" * 200_000 + b"]" * 200_000
    yield "nothing", b""
    yield "a blank", b" \n "
    yield "a number", b"1"
    yield "null", b"null"
    yield "a text", b'"value"'
    yield "an empty array", b"[]"
    yield "no value", b"{}"
    yield "a value that is no number", b'{"value":01}'
    yield "a value that is no object", b'{"value":{"a":1,}}'
    yield "a value that is cut", b'{"value":nul}'
    yield "an empty value", b'{"value":""}'
    yield "two values", b'{"value":"a","value_b64":"YQ=="}'
    yield "an unknown field", b'{"value":"a","vlaue":"b"}'
    yield "an unknown field of the envelope", b'{"value":"a","envelope":{"run":"r"}}'
    yield "a field twice", b'{"value":"a","value":"b"}'
    yield "a field of the envelope twice", b'{"value":"a","envelope":{"run_id":"a","run_id":"b"}}'
    yield "a label twice", b'{"value":"a","envelope":{"labels":{"x":"1","x":"2"}}}'
    yield "a priority too high", b'{"value":"a","priority":10}'
    yield "a negative priority", b'{"value":"a","priority":-1}'
    yield "half a priority", b'{"value":"a","priority":0.5}'
    yield "a priority as a text", b'{"value":"a","priority":"1"}'
    yield "a huge delay", b'{"value":"a","delay_ms":1' + b"0" * 400 + b"}"
    yield "a delay beyond 64 bits", b'{"value":"a","delay_ms":18446744073709551616}'
    yield "an infinite delay", b'{"value":"a","delay_ms":1e999}'
    yield "a delay that is not a number", b'{"value":"a","delay_ms":NaN}'
    yield "two times", b'{"value":"a","delay_ms":1,"deliver_at":"2030-01-01T00:00:00Z"}'
    yield "a day that is not", b'{"value":"a","deliver_at":"2030-02-30T00:00:00Z"}'
    yield "a time without a zone", b'{"value":"a","deliver_at":"2030-01-01T00:00:00"}'
    yield "a key too long", json.dumps({"value": "a", "key": "k" * 4097}).encode()
    yield "a key too long in bytes", json.dumps({"value": "a", "key": "é" * 2049}, ensure_ascii=False).encode()
    yield "an idempotency key too long", enveloped(idempotency_key="i" * 4097)
    yield "too many labels", enveloped(labels={str(number): "" for number in range(65)})
    yield "a label's name too long", enveloped(labels={"l" * 129: ""})
    yield "a label's value too long", enveloped(labels={"l": "v" * 1025})
    yield "an empty run", enveloped(run_id="")
    yield "a partition that no topic can have", enveloped(partition_override=4096)
    yield "broken base64", b'{"value_b64":"YQ"}'
    yield "base64 for the web", b'{"value_b64":"_-8="}'
    yield "invalid UTF-8", b'{"value":"\xff\xfe"}'
    yield "an overlong form", b'{"value":"\xc0\xaf"}'
    yield "UTF-16", '{"value":"a"}'.encode("utf-16")
    yield "a byte order mark", b'\xef\xbb\xbf{"value":"a"}'
    yield "half a surrogate", b'{"value":"\\ud800"}'
    yield "a bare control character", b'{"value":"a\x01"}'
    yield "a truncated body", b'{"value":"a'
    yield "two documents", b'{"value":"a"}{"value":"b"}'
    yield "a trailing comma", b'{"value":"a",}'
    yield "a comment", b'{"value":"a"/* no */}'
    yield "single quotes", b"{'value':'a'}"
    yield "deep nesting", nested
    yield "deep nesting in a field", b'{"value":"v","key":' + nested + b"}"
    yield "deep nesting in a value that does not end", b'{"value":' + nested
    yield "deep nesting of objects", b'{"envelope":' * 100_000
    yield "an array with a bad item", b'[{"value":"a"},{"value":"b"},7]'
    yield "too many messages", b"[" + b",".join([b'{"value":"a"}'] * 10_001) + b"]"


def requests():
    """`(name, bytes, statuses)`: every one is refused, with one of the statuses."""
    for name, body in bodies():
        yield name, post(MESSAGES, body), {400}
    lines = {
        "text": b"hello", "a number": b"1", "an array": b"[]", "invalid UTF-8": b'{"value":"\xff"}',
        "half a line": b'{"value":"a"', "an unknown field": b'{"value":"a","b":1}', "NUL": b"\x00",
    }
    for name, line in lines.items():
        yield f"NDJSON with a bad line in the middle: {name}", ndjson(line), {400}
    yield "a body over the limit", post(MESSAGES, b'{"value":"' + b"a" * (5 * MIB) + b'"}'), {413}
    yield "a length over the limit, and no body", posted({"Content-Length": str(2**60)}), {413}
    yield "a body that does not come", posted({"Content-Length": "100"}) + b'{"value":"tr', {408}
    yield "broken chunks", posted({"Transfer-Encoding": "chunked"}) + b"zz\r\n", {400}
    kinds = ("text/plain", "application/xml", "application/x-www-form-urlencoded", "multipart/form-data", "json", "*/*")
    for kind in kinds:
        yield f"content type {kind!r}", post(MESSAGES, '{"value":"a"}', kind), {415}
    yield "NDJSON for a lease", post(LEASE, '{"owner":"w"}', NDJSON), {415}
    for target in ("/v2/topics/%", "/v2/topics/%zz", "/v2/topics/%4", "/v2/topics/%ff", "/v2/topics/%c0%af",
                   f"{MESSAGES}?key=%", f"{MESSAGES}?key=%ff", f"{MESSAGES}?label.%ff=1", f"{MESSAGES}?limit=1&limit=2",
                   f"{MESSAGES}?limit=99999999999999999999", f"{MESSAGES}?partition=0x1",
                   f"{MESSAGES}?cursor=" + "f" * 24 + "0",
                   f"{MESSAGES}?unknown=1", f"{MESSAGES}?=", f"{MESSAGES}?state="):
        yield f"GET {target[:60]}", raw("GET", target), {400, 404}
    for target in (f"{MESSAGES}/0/-1", f"{MESSAGES}/-1/0", f"{MESSAGES}/0/9223372036854775808", f"{MESSAGES}/a/b",
                   f"{MESSAGES}/0/1e3", f"{MESSAGES}/+0/+0", f"{MESSAGES}/%30/0x0"):
        yield f"GET {target}", raw("GET", target), {400, 404}
    yield "a name too long", raw("GET", "/v2/topics/" + "t" * 256), {400}
    yield "a name too long in bytes", raw("GET", "/v2/topics/" + "%C3%A9" * 128), {400}
    yield "a name with dots", raw("PUT", "/v2/topics/..%2F..%2Fetc"), {400, 404, 201, 200}
    yield "a dead-letter topic created by hand", raw("PUT", "/v2/topics/dlq.mine"), {400, 409, 201, 200}
    yield "an address too long", raw("GET", "/v2/topics/" + "t" * 62_000), {414}
    yield "an idempotency key that is empty", post(MESSAGES, '{"value":"a"}', Idempotency_Key=""), {400}
    yield "an idempotency key too long", post(MESSAGES, '{"value":"a"}', Idempotency_Key="i" * 256), {400}
    yield "an idempotency key that is not ASCII", post(MESSAGES, '{"value":"a"}', Idempotency_Key="\xe9"), {400}
    yield "a method that is not", raw("BREW", "/v2/topics"), {405}
    yield "a call that is not", raw("GET", "/v2/nothing"), {404}
    yield "a slash too much", raw("GET", "/v2/topics/"), {400, 404}
    for body in ('{"owner":""}', '{"owner":"w","max":0}', '{"owner":"w","max":1001}', '{"owner":"w","wait_ms":60001}',
                 '{"owner":"w","lease_ms":0}', '{"owner":"w","lease_ms":604800001}', '{"max":1}', '{"owner":["w"]}',
                 '{"owner":"w","request_id":""}', json.dumps({"owner": "o" * 256})):
        yield f"lease {body[:50]}", post(LEASE, body), {400}
    many = json.dumps({"leases": [{"token": "t"}] * 1001})
    for verb in ("ack", "nack", "extend", "release"):
        for body in ("{}", '{"leases":[]}', '{"leases":{}}', '{"leases":[{}]}', '{"leases":[{"token":1}]}', many,
                     '{"leases":[{"token":"t","extra":1}]}', json.dumps({"leases": [{"token": "t" * 129}]})):
            yield f"{verb} {body[:40]}", post(f"/v2/leases/{verb}", body), {400}
        yield f"{verb} by a token of nobody", post(f"/v2/leases/{verb}", '{"leases":[{"token":"t"}]}'), {404}


def broken_http():
    """`(bytes, statuses)` of what never becomes a request: refused or cut off before anybody could explain it."""
    for headers in ({"Content-Length": "ten"}, {"Content-Length": "-1"}, {"Transfer-Encoding": "gzip"}, {"X": "\x01"}):
        yield posted(headers), {400}
    yield b"GET /v2/topics HTTP/1.1\r\nHost: bro", {400, 408, None}
    # A little more than the server takes may still come in with one read; this much never does.
    yield raw("GET", "/v2/topics", {"X-Big": "a" * 2_000_000}), {431, None}
    yield raw("GET", "/v2/topics", {f"X-{number}": "a" for number in range(3000)}), {431}
    yield raw("GET", "/v2/topics/" + "t" * 70_000), {414}
    yield b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(64), {400, None}
    yield b"GET /v2/topics HTTP/0.9\r\n\r\n", {400, 505, None}
    yield b"GET\r\n\r\n", {400, None}
    yield b"\r\n" * 1000, {400, None}


def send(server, request, timeout):
    """`(status, content type, body)`; no status if the connection just ended."""
    received = b""
    with socket.create_connection((server.host, server.port), timeout) as connection:
        try:
            connection.sendall(request)
        except OSError:
            # It may be refused before all of it was sent.
            pass
        try:
            while piece := connection.recv(65536):
                received += piece
        except TimeoutError:
            raise
        except OSError:
            pass
    if not received.startswith(b"HTTP/"):
        return None, "", received
    head, _, body = received.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    return int(lines[0].split()[1]), headers.get("content-type", "").split(";")[0], body


def repeat(server, request):
    """A line that sends the same bytes."""
    if len(request) > 2000:
        return f"({len(request)} bytes: {request[:300]!r} ...)"
    octal = "".join(f"\\{byte:03o}" for byte in request)
    return f"printf '{octal}' | nc {server.host} {server.port}"
