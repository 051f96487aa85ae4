"""Laws of a pop's path and query: anything may arrive, and every name can be asked for."""

from __future__ import annotations

from urllib.parse import quote, quote_plus

import hypothesis.strategies as st
from hypothesis import given

from queenmq.engine.requests import Scope
from queenmq.errors import InvalidRequest
from queenmq.server.routes.hot.pop import parse_pop
from queenmq.settings import Settings

SETTINGS = Settings()

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1)
parameters = st.sampled_from(
    ["batch", "partitions", "timeout", "wait", "autoAck", "consumerGroup", "namespace", "task",
     "subscriptionMode", "subscriptionFrom"]
)  # fmt: skip
queries = st.lists(
    st.tuples(parameters.map(str.encode), st.binary(max_size=12) | names.map(str.encode)),
    max_size=6,
).map(lambda pairs: b"&".join(name + b"=" + value for name, value in pairs))


@given(
    path=st.sampled_from([b"", b"/", b"/queue/", b"/queue/q/partition/"]),
    rest=st.binary(max_size=30),
    query=queries | st.binary(max_size=40),
)
def test_any_request_is_understood_or_refused(path: bytes, rest: bytes, query: bytes) -> None:
    tail = rest if path.startswith(b"/queue") else b""
    try:
        request = parse_pop(b"/api/v1/pop" + path + tail, query, settings=SETTINGS)
    except InvalidRequest as error:
        assert str(error)
        return
    assert 1 <= request.batch <= SETTINGS.max_batch_size
    assert 1 <= request.partitions <= SETTINGS.pop_candidates_max
    assert request.wait_ms is None or 0 <= request.wait_ms <= SETTINGS.max_timeout_ms
    for name in (*request.scope, request.consumer_group):
        assert name is None or 1 <= len(name) <= SETTINGS.max_name_length
        assert name is None or "\0" not in name


@given(queue=names, partition=names, group=names)
def test_every_name_can_be_asked_for(queue: str, partition: str, group: str) -> None:
    path = f"/api/v1/pop/queue/{quote(queue, safe='')}/partition/{quote(partition, safe='')}"
    query = f"consumerGroup={quote_plus(group)}"
    request = parse_pop(path.encode(), query.encode(), settings=SETTINGS)
    assert request.scope == Scope(queue, partition)
    assert request.consumer_group == group
