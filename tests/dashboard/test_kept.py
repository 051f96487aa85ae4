"""Stored data is shown later: lag over time, runs of jobs and their findings, deliveries."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from tests.dashboard.world import HOSTILE, World, becomes
from tests.support.broker import unique
from tests.support.browser import Watched

_LAG = (
    "INSERT INTO queen.history_groups SELECT 1, date_trunc('minute', now())"
    " - make_interval(mins => n), $1, $2, 'consumer', 8 - n, 8 - n, n FROM generate_series(1, 3) n"
    " RETURNING lag"
)
_NOTE = "SELECT queen.note_pipeline_run($1, $2, $3, $4, $5)"


def test_the_lag_of_a_group_is_drawn_as_brokers_wrote_it_down(
    world: World, open_page: Callable[..., Watched]
) -> None:
    queue, group = f"{unique()} {HOSTILE}", f"{unique()} {HOSTILE}"
    world.push(queue, 1)
    world.pop(queue, group)
    watched = open_page(world.broker.url)
    page = world.enter(watched, "read-only", f"#/groups/{_quoted(group)}")
    page.get_by_text("Brokers write the lag down once a minute.").first.wait_for()
    world.fetch(_LAG, queue, group)
    page.reload()
    page.get_by_text("Messages before the group: 7 now, 5 lowest, 7 highest.").wait_for()
    page.get_by_text("Oldest: 1.0 s now").wait_for()
    page.goto(f"{watched.url}/#/queues/{_quoted(queue)}")
    page.get_by_text(f"{group}: 7 now, 5 lowest, 7 highest.").wait_for()
    page.goto(f"{watched.url}/#/groups?search={_quoted(group)}")
    page.get_by_role("img", name=f"Lag of {group}").wait_for()
    assert page.locator("main img").count() == 0
    assert watched.find_axe_faults() == []


def test_the_partitions_of_a_group_come_page_by_page(
    world: World, open_page: Callable[..., Watched]
) -> None:
    queue, group = unique(), unique()
    for number in range(55):
        world.push(queue, *range(55 - number), partition=f"p{number:02}")
    (taken,) = world.pop(queue, group)
    watched = open_page(world.broker.url)
    page = world.enter(watched, "read-only", f"#/groups/{group}")
    table = page.get_by_role("table", name="Cursors and leases")
    table.get_by_role("link", name="p00").wait_for()
    assert table.get_by_role("row").count() == 51
    page.get_by_role("button", name="Next page").click()
    table.get_by_role("link", name="p54").wait_for()
    page.get_by_text("51–55 of 55").wait_for()
    page.get_by_role("button", name="Under lease").click()
    becomes(lambda: table.get_by_role("row").count() == 2, "the one partition under lease")
    table.get_by_role("link", name=taken["partition"]).wait_for()
    page.get_by_role("button", name="By name").click()
    page.get_by_role("searchbox", name="Search partitions").fill("p4")
    becomes(lambda: table.get_by_role("row").count() == 11, "the ten partitions that match")
    table.get_by_role("link", name="p49").wait_for()
    assert watched.find_axe_faults() == []


def _start(world: World, job: str, **options: Any) -> str:
    run: Any = world.fetch("SELECT queen.start_pipeline_run($1, $2)", job, json.dumps(options))
    return str(run)


def test_runs_of_jobs_are_listed_with_what_they_found(
    world: World, open_page: Callable[..., Watched]
) -> None:
    _start(world, "stream", stream="revenue")
    lost = _start(world, "replay", queues=HOSTILE)
    world.fetch(
        "UPDATE queen.pipeline_runs SET seen_at = now() - interval '6 minutes' WHERE id = $1"
        " RETURNING 1", lost,
    )  # fmt: skip
    load, audit = _start(world, "load"), _start(world, "audit", lake="./lake")
    world.fetch(_NOTE, _start(world, "lake vacuum", hours=9), "done", "{}", "{}", None)
    world.fetch(_NOTE, load, "failed", "{}", "{}", f"no column {HOSTILE}")
    tables = {
        "first findings": {
            "columns": ["check", "queue", "seq", "detail"],
            "rows": [["density", HOSTILE, 1204, "message 1204 is missing"]],
            "total": 1,
        }
    }
    world.fetch(_NOTE, audit, "found", '{"findings": 1}', json.dumps(tables), None)

    watched = open_page(world.broker.url)
    page = world.enter(watched, "read-only", "#/pipeline")
    runs = page.get_by_role("table", name="Runs of jobs")
    for job, outcome in (
        ("stream", "running"),
        ("replay", "lost"),
        ("load", f"no column {HOSTILE}"),
        ("audit", "found something"),
        ("lake vacuum", "done"),
    ):
        row = runs.get_by_role("row", name=job)
        row.get_by_text(outcome, exact=True).wait_for()
    findings = page.get_by_role("table", name="First findings")
    findings.get_by_role("row", name="message 1204 is missing").wait_for()
    assert watched.find_axe_faults() == []
    jobs = page.get_by_role("group", name="Job")
    jobs.get_by_role("button", name="lake vacuum").click()
    runs.get_by_role("row", name="load").wait_for(state="detached")
    runs.get_by_text("hours 9").wait_for()
    for width in (1440, 900, 375):
        page.set_viewport_size({"width": width, "height": 800})
        assert not page.evaluate("document.documentElement.scrollWidth > innerWidth"), width
    page.set_viewport_size({"width": 1280, "height": 800})
    jobs.get_by_role("button", name="audit").click()
    runs.get_by_role("row", name="load").wait_for(state="detached")
    runs.get_by_role("link", name="audit").click()
    page.get_by_role("heading", level=1, name="Run of audit").wait_for()
    page.get_by_text("./lake", exact=True).wait_for()
    page.get_by_role("row", name="message 1204 is missing").wait_for()
    assert page.locator("main img").count() == 0
    assert watched.find_axe_faults() == []


def test_a_trace_has_deliveries_where_they_are_kept_and_says_where_not(
    world: World, open_page: Callable[..., Watched]
) -> None:
    name, kept, plain = unique(), unique(), unique()
    options = {"queue": kept, "options": {"ackHistory": True}}
    world.call("POST", "/api/v1/configure", options)
    for queue in (kept, plain):
        world.push(queue, {"of": queue})
        (message,) = world.pop(queue, "workers")
        place = {one: message[one] for one in ("transactionId", "partitionId")}
        note = place | {"consumerGroup": "workers", "eventType": "seen", "traceNames": [name]}
        world.call("POST", "/api/v1/traces", note | {"data": 1}, status=201)
        ack = place | {"leaseId": message["leaseId"], "status": "completed"}
        world.call("POST", "/api/v1/ack", ack | {"consumerGroup": "workers"})
    watched = open_page(world.broker.url)
    page = world.enter(watched, "read-only", f"#/traces/name/{name}")
    story = page.get_by_role("img", name=f"{kept}: pushed")
    story.wait_for()
    said = story.get_attribute("aria-label")
    steps = [said.find(f"{what} workers") for what in ("delivered to", "seen by", "acked by")]
    assert -1 not in steps and steps == sorted(steps), said
    page.get_by_text(f"{plain} keeps no ackHistory").wait_for()
    assert page.get_by_text(f"{kept} keeps no ackHistory").count() == 0
    assert watched.find_axe_faults() == []
    page.goto(f"{watched.url}/#/messages/{message['partitionId']}/{message['transactionId']}")
    page.get_by_text(f"{plain} keeps no ackHistory").wait_for()


def _quoted(text: str) -> str:
    return quote(text, safe="")
