"""The data that requests of the contract need: messages in every state, leases, a stream."""

from __future__ import annotations

from typing import Any

import httpx

from tests.support.broker import SOON_S, unique

NOWHERE = "00000000-0000-4000-8000-000000000000"


class World:
    """Makes it through the API of a broker. `names` are the words that cases fill in."""

    def __init__(self, url: str) -> None:
        self._http = httpx.Client(base_url=url, timeout=SOON_S)
        self.names: dict[str, str] = {"nowhere": NOWHERE, "fresh": unique()}

    def close(self) -> None:
        self._http.close()

    def send(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return self._http.request(method, path, json=body)

    def _ok(self, method: str, path: str, body: Any = None) -> Any:
        response = self.send(method, path, body)
        assert response.is_success, response.text
        return response.json()

    def _push(self, queue: str, count: int) -> None:
        items = [{"queue": queue, "payload": n, "transactionId": f"t{n}"} for n in range(count)]
        self._ok("POST", "/api/v1/push", {"items": items})

    def _pop(self, queue: str, group: str) -> Any:
        (message,) = self._ok("GET", f"/api/v1/pop/queue/{queue}?consumerGroup={group}")["messages"]
        return message

    def _ack(self, message: Any, status: str) -> None:
        body = {**message, "status": status, "error": "made to fail"}
        self._ok("POST", "/api/v1/ack", body)

    def make_history(self) -> None:
        """Do some work. The broker writes it down when it stops."""
        queue = unique()
        self._push(queue, 2)
        self._ack(self._pop(queue, "g"), "completed")

    def make(self) -> None:
        self._make_messages()
        self._make_leases()
        self._make_stream()

    def _make_messages(self) -> None:
        queue, group, dead_queue = unique(), unique(), unique()
        self.names |= {"queue": queue, "group": group, "dead_queue": dead_queue}
        self.names |= {"namespace": unique(), "trace": unique(), "gone_queue": unique()}
        labels = {"namespace": self.names["namespace"], "task": unique()}
        options = {"options": {"retryLimit": 0}}
        for name in (queue, dead_queue):
            self._ok("POST", "/api/v1/configure", {"queue": name, **labels, **options})
        self._push(queue, 10)
        self._push(self.names["gone_queue"], 1)
        done, dead = self._pop(queue, group), None
        self._ack(done, "completed")
        for name in (queue, dead_queue):
            self._push(dead_queue, 1)
            dead = self._pop(name, group)
            self._ack(dead, "failed")
        trace = {**done, "data": {"x": 1}, "traceNames": [self.names["trace"]]}
        self._ok("POST", "/api/v1/traces", trace)
        self.names |= {"partition": done["partitionId"], "id": "t0", "traced_id": "t0"}
        self.names |= {"dead_id": "t1", "gone_id": "t5", "move_id": "t6"}

    def _make_leases(self) -> None:
        for prefix in ("leased", "second", "long"):
            queue = unique()
            self._push(queue, 2)
            message = self._pop(queue, self.names["group"])
            lease = "lease" if prefix == "leased" else f"{prefix}_lease"
            self.names |= {
                f"{prefix}_id": message["transactionId"],
                f"{prefix}_partition": message["partitionId"],
                lease: message["leaseId"],
            }

    def _make_stream(self) -> None:
        name, queue = unique(), self.names["queue"]
        body = {"name": name, "source_queue": queue, "config_hash": "a"}
        query_id = self._ok("POST", "/streams/v1/queries", body)["query_id"]
        self.names |= {"stream": name, "query_id": query_id}
        row = {"type": "upsert", "key": "a", "value": {"n": 1}}
        cycle = {
            "query_id": query_id,
            "partition_id": self.names["partition"],
            "state_ops": [row],
        }
        assert self._ok("POST", "/streams/v1/cycle", cycle)["success"]
        message = self._pop(queue, f"streams.{name}")
        self.names |= {"stream_id": message["transactionId"], "stream_lease": message["leaseId"]}
