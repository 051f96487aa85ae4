"""Push, pop and ack over plain HTTP, with nothing but the standard library.

Usage: python examples/01_push_pop_ack.py QUEEN_URL
"""

from __future__ import annotations

import json
import sys
import uuid
from typing import Any
from urllib.request import Request, urlopen

QUEUE = "example.letters"


def call(method: str, url: str, body: object = None) -> Any:
    """One request; an answer without a body is None."""
    data = None if body is None else json.dumps(body).encode()
    with urlopen(Request(url, data=data, method=method), timeout=60) as answer:
        text = answer.read()
    return json.loads(text) if text else None


def main(queen_url: str) -> None:
    """Push two messages, one of them twice, and consume what is there."""
    letter = {"queue": QUEUE, "partition": "anna", "payload": {"text": "hello"}}
    named = {**letter, "payload": {"text": "only once"}, "transactionId": str(uuid.uuid4())}
    for result in call("POST", f"{queen_url}/api/v1/push", {"items": [letter, named, named]}):
        print(f"pushed item {result['index']}: {result['status']}")

    # A lease covers the whole answer; acking its last message ends it.
    pop_url = f"{queen_url}/api/v1/pop/queue/{QUEUE}?batch=10&wait=true&timeout=2000"
    popped = call("GET", pop_url)
    for message in popped["messages"]:
        print(f"popped from {message['partition']}: {message['data']['text']}")
        fields = ("transactionId", "partitionId", "leaseId")
        ack = {field: message[field] for field in fields}
        (result,) = call("POST", f"{queen_url}/api/v1/ack", ack)
        print(f"acked: {result['success']}, lease released: {result['leaseReleased']}")

    empty = call("GET", f"{queen_url}/api/v1/pop/queue/{QUEUE}")
    print(f"nothing left: {empty is None}")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
