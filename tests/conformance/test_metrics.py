"""GET /metrics and /metrics/prometheus: the series exist, and count what happens."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.broker import SOON_S, Api, BrokerProcess, unique

DEPLOY = Path(__file__).parents[2] / "deploy"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
DASHBOARD = DEPLOY / "grafana" / "queen.json"

#: Series that the design names, as Prometheus shows them.
SERIES = {
    "queen_pop_batch_size_sum",
    "queen_pop_batch_count_total",
    "queen_has_pending_checks_total",
    "queen_has_pending_hits_total",
    "queen_has_pending_misses_total",
    "queen_smart_poll_preflight_queries_total",
    "queen_smart_poll_preflight_duration_ms_bucket",
    "queen_smart_poll_preflight_intentions_checked_sum",
    "queen_smart_poll_preflight_partitions_found_sum",
    "queen_smart_poll_intentions_skipped_total",
    "queen_smart_poll_intentions_viable_total",
    "queen_smart_poll_partition_assignments_total",
    "queen_smart_poll_query_reduction_percentage",
    "queen_smart_poll_double_assignment_errors_total",
    "queen_pop_state_seconds_total",
    "queen_pop_state_entries_total",
    "queen_pop_slot_busy_seconds_total",
    "queen_pop_slots",
    "queen_call_slots",
    "queen_db_wait_seconds",
    "queen_load_pressure",
    "queen_load_engaged",
    "queen_load_decisions_total",
    "queen_refused_total",
    "queen_messages_stored_total",
    "queen_event_loop_lag_seconds",
    "queen_uptime_seconds",
    "queen_db_pool_size",
    "queen_db_pool_idle",
    "queen_db_pool_active",
    "queen_process_resident_memory_bytes",
    "queen_cpu_user_microseconds_total",
}


async def read(api: Api) -> dict[str, float]:
    """All samples of a broker, by name and labels."""
    response = await api.http.get("/metrics/prometheus")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    samples: dict[str, float] = {}
    for family in text_string_to_metric_families(response.text):
        for sample in family.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()))
            samples[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return samples


async def test_all_series_of_the_design_are_there(api: Api) -> None:
    names = {name.partition("{")[0] for name in await read(api)}
    assert names >= SERIES
    assert all(name.startswith("queen_") for name in names)


async def test_pops_are_counted_by_state_and_decision(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    api = Api(start_broker().url)
    queue = unique()
    await api.push(queue, 1)
    before = await read(api)
    assert await api.data(queue) == [1]
    assert await api.pop(queue) == []
    after = await read(api)

    def grown(name: str) -> float:
        return after[name] - before.get(name, 0)

    assert grown("queen_pop_state_entries_total{state=pending}") >= 2
    assert grown("queen_pop_state_entries_total{state=leasing}") == 1
    assert grown("queen_pop_state_entries_total{state=completed}") == 1
    assert grown("queen_pop_state_entries_total{state=empty}") == 1
    assert grown("queen_pop_batch_count_total") == 1
    assert grown("queen_pop_batch_size_sum") == 1
    assert grown("queen_smart_poll_intentions_viable_total") == 1
    assert grown("queen_smart_poll_partition_assignments_total") == 1
    assert grown("queen_smart_poll_preflight_queries_total") >= 1
    # The partition is leased, which the second pop was told by its look-up.
    assert grown("queen_smart_poll_intentions_skipped_total{reason=lease_taken}") >= 1
    assert grown("queen_pop_state_seconds_total{state=leasing}") > 0
    busy = [grown(f"queen_pop_slot_busy_seconds_total{{slot={slot}}}") for slot in range(2)]
    assert max(busy) > 0
    await api.close()


async def test_quiet_pools_are_asked_the_cheap_question(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    # Fast enough for a test, and slow enough to count as quiet.
    broker = start_broker(
        QUEEN_SMART_POLL_MIN_INTERVAL_MS="500", QUEEN_SMART_POLL_MAX_INTERVAL_MS="500"
    )
    api = Api(broker.url)
    queue = unique()
    assert await api.pop(queue, wait=True, timeout=1800) == []
    samples = await read(api)
    assert samples["queen_has_pending_checks_total"] >= 1
    assert samples["queen_has_pending_misses_total"] >= 1
    assert samples["queen_has_pending_hits_total"] == 0
    await api.close()


async def test_many_waiting_pops_share_their_queries(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    api = Api(start_broker().url)
    queues = [unique() for _ in range(10)]
    pops = [api.pop(queue, wait=True, timeout=3000) for queue in queues * 5]
    assert await asyncio.gather(*pops) == [[]] * 50
    samples = await read(api)
    assert samples["queen_smart_poll_query_reduction_percentage"] > 50
    assert (
        samples["queen_smart_poll_preflight_intentions_checked_sum"]
        > (samples["queen_smart_poll_preflight_queries_total"])
    )
    await api.close()


async def test_overview_has_the_numbers_that_clients_read(api: Api) -> None:
    before = (await api.http.get("/metrics")).json()
    await api.push(unique(), 1, 2)
    after = (await api.http.get("/metrics")).json()
    assert set(after) == {"uptime", "requests", "messages", "database", "memory", "cpu"}
    assert after["messages"]["total"] >= before["messages"]["total"] + 2
    assert after["requests"]["total"] >= before["requests"]["total"] + 2
    assert after["database"]["poolSize"] >= 1
    assert after["memory"]["rss"] > 10 * 2**20
    assert after["uptime"] > before["uptime"]


async def declared(api: Api) -> set[str]:
    """All names that a broker tells, also of families without a series just now."""
    text = (await api.http.get("/metrics/prometheus")).text
    names = set()
    for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE):
        parts = ("_bucket", "_count", "_sum") if kind == "histogram" else ("",)
        names |= {name + part for part in parts}
    return names


async def test_every_series_of_alerts_dashboard_and_manual_exists(api: Api) -> None:
    names = await declared(api)
    rules = re.sub(r"#.*|(summary|description):.*", "", ALERTS.read_text())
    panels = json.loads(DASHBOARD.read_text())["panels"]
    queries = [target["expr"] for panel in panels for target in panel.get("targets", ())]
    assert len(queries) > 30
    used = set(re.findall(r"\bqueen_\w+", rules + " ".join(queries)))
    assert used
    assert used <= names
    manual = (DEPLOY.parent / "docs" / "operations.md").read_text()
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in names}
    told = {name for name in re.findall(r"`(queen_\w+)[`{]", manual)}
    # A schema of that name is in the manual, too.
    assert told - {"queen_streams"} <= families | names


@pytest.mark.skipif(not shutil.which("promtool"), reason="needs promtool of Debian's prometheus")
def test_prometheus_accepts_the_rules_and_they_fire_when_they_should() -> None:
    for command in (["check", "rules", str(ALERTS)], ["test", "rules", "alerts.test.yml"]):
        done = subprocess.run(
            ["promtool", *command], cwd=ALERTS.parent, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


async def test_messages_are_counted_by_what_became_of_them(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    api = Api(start_broker().url)
    queue = unique()
    await api.configure(queue, retryLimit=1, retryDelay=0)
    await api.push(queue, 1, 2, 3)
    await api.push(queue, 4, transactionId="a")
    await api.push(queue, 4, transactionId="a")
    for _ in range(2):
        (message,) = await api.pop(queue)
        await api.ack(message, status="failed")
    message, *_ = await api.pop(queue, batch=3)
    await api.ack(message)
    assert await api.pop(unique()) == []
    await api.ack({**message, "leaseId": unique()})
    refused = await api.http.get("/api/v1/pop/queue/" + "x" * 300)
    assert refused.status_code == 400
    assert (await api.http.get("/nowhere")).status_code == 404
    await api.transaction([{"type": "push", "items": [{"queue": queue, "payload": 1}]}])
    told = await read(api)
    prefix = "queen_messages_"
    assert told[prefix + "pushed_total"] == 5
    assert told[prefix + "stored_total{path=push}"] == 4
    assert told[prefix + "stored_total{path=transaction}"] == 1
    assert told[prefix + "duplicate_total"] == 1
    assert told[prefix + "delivered_total"] == 5
    assert told[prefix + "failed_total"] == 2
    assert told[prefix + "retried_total"] == 1
    assert told[prefix + "dead_lettered_total"] == 1
    assert told[prefix + "acked_total"] == 1
    assert told["queen_redeliveries_total"] == 1
    assert told["queen_acks_refused_total"] == 1
    assert told["queen_delivery_lag_seconds_count"] == 3
    assert told["queen_delivery_lag_seconds_sum"] < SOON_S
    requests = "queen_http_requests_total"
    assert told[requests + "{code=2xx,method=POST,route=/api/v1/push}"] == 3
    assert told[requests + "{code=2xx,method=GET,route=/api/v1/pop}"] == 4
    assert told[requests + "{code=4xx,method=GET,route=/api/v1/pop}"] == 1
    assert told[requests + "{code=4xx,method=GET,route=unknown}"] == 1
    assert told[requests + "{code=2xx,method=POST,route=/api/v1/transaction}"] == 1
    assert told["queen_request_seconds_count{operation=push}"] == 3
    assert told["queen_call_requests_sum{path=push}"] == 3
    assert told["queen_call_rows_sum{path=push}"] == 5
    # The empty pop was answered without a call.
    assert told["queen_pop_working_seconds_count"] == 3
    assert told["queen_connections"] >= 1
    assert told["queen_http_received_bytes_total"] > 1_000
    assert told["queen_http_sent_bytes_total"] > 1_000
    # Others use this database as well.
    assert told["queen_dlq_depth"] >= 1
    assert told[f"queen_dlq_depth_by_queue{{queue={queue}}}"] == 1
    assert told[f"queen_queue_depth{{queue={queue}}}"] == 3
    lag = f"queen_group_lag_messages{{group=__QUEUE_MODE__,queue={queue}}}"
    assert told[lag] == 3
    await api.close()


async def test_queues_beyond_the_bound_are_one_series(
    start_broker: Callable[..., BrokerProcess],
) -> None:
    api = Api(start_broker(QUEEN_METRICS_QUEUES_MAX="1").url)
    for _ in range(3):
        await api.push(unique(), 1)
    told = await read(api)
    depths = [name for name in told if name.startswith("queen_queue_depth{")]
    assert len(depths) == 2
    assert "queen_queue_depth{queue=_other}" in depths
    await api.close()
