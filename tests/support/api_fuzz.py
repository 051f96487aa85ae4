"""Hostile requests for every route of a broker: JSON bombs, odd names, wrong types, broken framing.

Bodies and paths are made from the broker's own OpenAPI document, and then something in them is made
worse. The suite runs a few. Many, with figures: `python -m tests.support.fuzz_figures`.
"""

# ruff: noqa: E501 - a hostile request is easier to read in one line

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

_LANES = 16
#: What a fuzzed pop may wait, so that a run ends.
_WAIT_MS = "20"
#: Of an answer: a client that gets none is counted as one that was hung up on.
_ANSWER_S = 60.0

TEXTS = [
    "", " ", "a", "é", "\u202e", "../../etc/passwd", "..%2f..%2fetc", "%00", "\x00", "\r\nX-A: b",
    "a" * 256, "é" * 400, "\ud800", "\ud83d\ude00", "' OR 1=1 --", "$1", "{{7*7}}", "*", "null",
    "Infinity", "-0", "0x7f", "1e309", "\ufeff", "a/b", "a%2Fb", "?", "#", "__QUEUE_MODE__", "\u0000",
]  # fmt: skip
NUMBERS = [
    "0", "-1", "1", "2147483648", "-9223372036854775809", "9223372036854775808", "1e400", "-1e400",
    "0.1", "1" * 400, "1e-400", "NaN", "Infinity", "00", "1.", "0x10",
]  # fmt: skip
BOMBS = [
    "[" * 5_000, "{\"a\":" * 5_000, "[" * 800 + "]" * 800, "[" * 3_000 + "]" * 3_000, '"' + "\\u0000" * 50 + '"',
    '"\\ud800"', "{" + ",".join(f'"k{n}":{n}' for n in range(5_000)) + "}", '{"a":1,"a":2}', "nul", "[1,]",
    '"' + "a" * 300_000 + '"', "\ufeff{}", '{"a":"\x01"}', "[" + "null," * 20_000 + "null]", "",
]  # fmt: skip
#: Requests whose framing is broken or has two meanings.
FRAMES = [
    b"POST /api/v1/push HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /",
    b"POST /api/v1/push HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    b"POST /api/v1/push HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n0\r\n\r\n",
    b"POST /api/v1/push HTTP/1.1\r\nHost: h\r\nContent-Length: +5\r\n\r\nabcde",
    b"POST /api/v1/push HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFF\r\n",
    b"POST /api/v1/push HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999999\r\n\r\n",
    b"GET /api/v1/../../x HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost : h\r\n\r\n", b"GET /health HTTP/1.1\r\n Host: h\r\n\r\n",
    b"GET  /health  HTTP/1.1\r\n\r\n", b"GET /\x00 HTTP/1.1\r\nHost: h\r\n\r\n", b"\x00\x01\x02\x03\r\n\r\n",
    b"GET /health HTTP/9.9\r\nHost: h\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00",
    b"GET http://evil/ HTTP/1.1\r\nHost: h\r\n\r\n", b"CONNECT h:1 HTTP/1.1\r\nHost: h\r\n\r\n",
    b"POST /api/v1/push HTTP/1.1\r\nHost: h\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00",
    b"GET /health HTTP/1.1\r\nHost: h\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer \xff\xfe\r\nCookie: queen_session=\xff\r\n\r\n",
]  # fmt: skip


class Report:
    """Counts of the answers, and failures."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        #: Answers that were closed or did not come: right for broken framing, wrong for the rest.
        self.hung_up = 0
        self.failures: list[str] = []

    @property
    def count(self) -> int:
        return sum(self.statuses.values()) + self.hung_up


class ApiFuzz:
    """A run against a broker. Belongs to one event loop."""

    def __init__(
        self, url: str, document: dict[str, Any], seed: int, *, without: Sequence[str] = ()
    ) -> None:
        parts = urlsplit(url)
        self._host, self._port = parts.hostname or "", parts.port or 80
        self._document = document
        self._chance = random.Random(seed)
        self._routes = [
            (method.upper(), path, spec)
            for path, methods in document["paths"].items()
            if not path.startswith(tuple(without))
            for method, spec in methods.items()
        ]
        self.report = Report()

    async def run(self, count: int, *, per_s: float = float("inf")) -> Report:
        """Send so many requests, some at a time, and no more than so many a second."""
        left = iter(range(count))
        began_s = time.monotonic()
        lanes = (self._lane(left, began_s, 1 / per_s) for _ in range(_LANES))
        await asyncio.gather(*lanes)
        return self.report

    async def _lane(self, left: Iterator[int], began_s: float, each_s: float) -> None:
        for number in left:
            await asyncio.sleep(max(0.0, began_s + number * each_s - time.monotonic()))
            request = self._chance.choice(FRAMES) if number % 20 == 19 else self._request()
            is_frame = number % 20 == 19
            try:
                async with asyncio.timeout(_ANSWER_S):
                    status, body = await self._send(request, ends=is_frame)
            except (OSError, TimeoutError, asyncio.IncompleteReadError, IndexError) as error:
                self.report.hung_up += 1
                if not is_frame:
                    self.report.failures.append(f"{error!r} for {request[:600]!r}")
                continue
            self.report.statuses[status] += 1
            if status >= 500 and not (is_frame and status in (501, 505)):
                self.report.failures.append(f"{status} {body[:300]!r} for {request[:600]!r}")

    async def _send(self, request: bytes, *, ends: bool) -> tuple[int, bytes]:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(request)
            with contextlib.suppress(OSError):
                await writer.drain()
                if ends:
                    # Half a frame would be waited for; a client that ends its side has left.
                    writer.write_eof()
            head = await reader.readuntil(b"\r\n\r\n")
            return int(head.split()[1]), await reader.read(2_000)
        finally:
            writer.transport.abort()

    # Requests.

    def _request(self) -> bytes:
        method, path, spec = self._chance.choice(self._routes)
        if self._chance.random() < 0.05:
            method = self._chance.choice(
                ["PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "GET", "DELETE"]
            )
        for name in [part[1:-1] for part in path.split("/") if part.startswith("{")]:
            path = path.replace("{" + name + "}", self._path_part(name), 1)
        query = self._query(spec)
        body = self._body(spec)
        head = f"{method} {path}{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        if body or method in ("POST", "PUT", "PATCH"):
            head += f"Content-Length: {len(body)}\r\nContent-Type: application/json\r\n"
        return head.encode("utf-8", "surrogatepass") + b"\r\n" + body

    def _path_part(self, name: str) -> str:
        if self._chance.random() < 0.5:
            return "0190d3c5-0000-7000-8000-000000000001" if name.endswith("id") else "fuzz"
        return quote(self._text(), safe=self._chance.choice(["", "%/."]), errors="surrogatepass")

    def _query(self, spec: dict[str, Any]) -> str:
        given = []
        for one in spec.get("parameters", ()):
            if one["in"] != "query" or self._chance.random() < 0.5:
                continue
            value = self._chance.choice([*TEXTS, *NUMBERS, "true", "5"])
            if one["name"] in ("timeout", "wait"):
                # Not for minutes.
                value = _WAIT_MS if one["name"] == "timeout" else "true"
            elif one["name"] == "batch" and value.isdigit():
                value = value[:3]
            given.append(f"{one['name']}={quote(value, errors='surrogatepass')}")
        if any(one.startswith("wait=") for one in given):
            given = [one for one in given if not one.startswith("timeout=")]
            given.append(f"timeout={_WAIT_MS}")
        return "?" + "&".join(given) if given else ""

    def _body(self, spec: dict[str, Any]) -> bytes:
        content = spec.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            return b""
        if self._chance.random() < 0.2:
            return self._chance.choice(BOMBS).encode("utf-8", "surrogatepass")
        text = self._value(content["schema"], 0)
        if self._chance.random() < 0.1 and text:
            # Cut, or with a byte that does not belong there.
            at = self._chance.randrange(len(text))
            text = (
                text[:at] + self._chance.choice(["", "\x00", "\ud800", '"', "}"]) + text[at + 1 :]
            )
        return text.encode("utf-8", "surrogatepass")

    def _value(self, schema: dict[str, Any], depth: int) -> str:
        """JSON that fits the schema, but for some of its values."""
        if "$ref" in schema:
            schema = self._document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        if "anyOf" in schema:
            return self._value(self._chance.choice(schema["anyOf"]), depth)
        if depth > 6 or self._chance.random() < 0.12:
            return self._chance.choice(
                [*BOMBS[:9], *NUMBERS, _json(self._text()), "null", "[]", "{}"]
            )
        kind = schema.get("type")
        if kind == "object" or "properties" in schema:
            required = set(schema.get("required", ()))
            fields = [
                f"{json.dumps(name)}:{self._value(one, depth + 1)}"
                for name, one in schema.get("properties", {}).items()
                if name in required or self._chance.random() < 0.5
            ]
            return "{" + ",".join(fields) + "}"
        if kind == "array":
            items = schema.get("items") or (schema.get("prefixItems") or [{}])[0]
            count = self._chance.choice([0, 1, 1, 2, 5])
            return "[" + ",".join(self._value(items, depth + 1) for _ in range(count)) + "]"
        if kind in ("integer", "number"):
            return self._chance.choice(["1", "5", "60", *NUMBERS])
        if kind == "boolean":
            return self._chance.choice(["true", "false"])
        return _json(self._chance.choice(["fuzz", "fuzz", "push", "ack", self._text()]))

    def _text(self) -> str:
        return self._chance.choice(TEXTS)


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


async def fuzz(url: str, *, count: int, seed: int) -> Report:
    """Fuzz a broker and put its switches back."""
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        document = (await client.get("/openapi.json")).json()
        report = await ApiFuzz(url, document, seed).run(count)
        for path in ("/api/v1/system/maintenance", "/api/v1/system/maintenance/pop"):
            await client.post(path, json={"enabled": False})
        await client.post("/api/v1/consumer-groups/__QUEUE_MODE__/resume")
    return report
