"""A client that pushes and pops at a steady small rate, in a process of its own.

It writes down what each request took, so that times with and without other load can be told apart
afterwards. In the process that makes the load it would measure that process instead.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

#: A group of its own: a fuzzed request may pause the default one.
_POP = "/api/v1/pop/queue/beside?consumerGroup=beside&autoAck=true&batch=10"
_PUSH = b'{"items":[{"queue":"beside","payload":1}]}'
_EXPECTED = {"push": (201,), "pop": (200, 204)}


class Sample(NamedTuple):
    """One request: on the clock of the machine when it began, and what it took."""

    kind: str
    began_s: float
    took_ms: float
    status: int

    @property
    def is_served(self) -> bool:
        """Return whether the answer is that of a broker that works as ever."""
        return self.status in _EXPECTED[self.kind]


class SteadyClient:
    """The samples of the process so far are there once it has ended."""

    def __init__(self) -> None:
        self.samples: Sequence[Sample] = ()


@contextlib.contextmanager
def running_client(url: str, *, per_s: float) -> Iterator[SteadyClient]:
    """Run the client. It ends with the block, and then has its samples."""
    client = SteadyClient()
    command = [sys.executable, "-m", "tests.support.steady_client", url, str(per_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield client
        finally:
            # The end of its standard input is the sign to stop.
            written, _ = process.communicate()
    client.samples = [Sample(*json.loads(line)) for line in written.splitlines()]


def main() -> None:
    url, per_s = sys.argv[1], float(sys.argv[2])
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)
    samples: list[Sample] = []
    due = time.monotonic()
    while not _is_ended(due - time.monotonic()):
        samples.append(_send(connection, "push", "POST", "/api/v1/push", _PUSH))
        samples.append(_send(connection, "pop", "GET", _POP, None))
        due = max(due + 1 / per_s, time.monotonic() - 1)
    print("\n".join(json.dumps(one) for one in samples))


def _is_ended(wait_s: float) -> bool:
    """Wait for the next turn. Return whether the parent wants no more."""
    ready, _, _ = select.select([sys.stdin], [], [], max(0.0, wait_s))
    return bool(ready)


def _send(
    connection: http.client.HTTPConnection, kind: str, method: str, path: str, body: bytes | None
) -> Sample:
    began = time.monotonic()
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        answer.read()
        status = answer.status
    except (OSError, http.client.HTTPException):
        connection.close()
        status = 0
    return Sample(kind, began, (time.monotonic() - began) * 1000, status)


if __name__ == "__main__":
    main()
