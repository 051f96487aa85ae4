"""GET /metrics and /metrics/prometheus: the series exist, and count what happens."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.support.broker import Api, BrokerProcess, unique

ALERTS = Path(__file__).parents[2] / "docs" / "prometheus-alerts.yml"

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


async def test_every_series_in_the_alert_rules_exists(api: Api) -> None:
    names = {name.partition("{")[0] for name in await read(api)}
    used = set(re.findall(r"\bqueen_\w+", ALERTS.read_text()))
    assert used
    assert used <= names
