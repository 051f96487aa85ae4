"""A client that costs next to nothing, bytes over a socket: what is left is the broker's time."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from benchmarks.broker import BenchmarkError


class _Message(msgspec.Struct):
    transactionId: str
    partitionId: str
    leaseId: str


class _Popped(msgspec.Struct):
    messages: list[_Message]


class _Acked(msgspec.Struct):
    next: _Popped | None


class BareClient:
    """Push and consume loops like those of a real client, without one."""

    def __init__(self, url: str) -> None:
        host, _, port = url.removeprefix("http://").rpartition(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._popped = msgspec.json.Decoder(_Popped)
        self._acked = msgspec.json.Decoder(_Acked)

    def close(self) -> None:
        self._socket.close()

    def push(self, queue: str, payload: Any, *, batch: int, messages: int) -> Callable[[], None]:
        """A loop of pushes; the requests are made now."""
        names = [f"{queue}-{number}" for number in range(messages)]
        requests = [
            _push_request(queue, payload, names[start : start + batch])
            for start in range(0, messages, batch)
        ]

        def run() -> None:
            for request in requests:
                self._exchange(request)

        return run

    def consume(self, queue: str, *, batch: int, messages: int) -> Callable[[], None]:
        """A loop of acks, each for a whole batch, that bring the next batch along."""
        place = f"/api/v1/pop/queue/{queue}?batch={batch}"
        pop = _request("GET", f"{place}&wait=true&timeout=30000")

        def run() -> None:
            left = messages
            found: _Popped | None = None
            while left > 0:
                found = found or self._popped.decode(self._exchange(pop))
                left -= len(found.messages)
                body = msgspec.json.encode({"acknowledgments": [found.messages[-1]], "next": place})
                acked = self._exchange(_request("POST", "/api/v1/ack/batch", body))
                found = self._acked.decode(acked).next

        return run

    def _exchange(self, request: bytes) -> bytes:
        self._socket.sendall(request)
        answer = b""
        while True:
            piece = self._socket.recv(1 << 20)
            answer += piece
            head, end, body = answer.partition(b"\r\n\r\n")
            if not piece or (end and head[9:12] not in (b"200", b"201")):
                raise BenchmarkError(f"the broker answered {head[:100]!r}")
            if end and len(body) == int(head.partition(b"content-length: ")[2].split(b"\r\n")[0]):
                return body


def _push_request(queue: str, payload: Any, names: Sequence[str]) -> bytes:
    items = [
        {"queue": queue, "partition": "Default", "payload": payload, "transactionId": name}
        for name in names
    ]
    return _request("POST", "/api/v1/push", json.dumps({"items": items}).encode())


def _request(method: str, path: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body
