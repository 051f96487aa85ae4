"""Views that change things: groups, dead letters, operations. Each does what it says, by role."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.dashboard.world import HOSTILE, World, becomes, confirm
from tests.support.broker import unique
from tests.support.browser import Watched
from tests.support.operations import enqueue

_LEASES = (
    "SELECT count(*) FROM queen.partition_consumers c JOIN queen.partitions p"
    " ON p.id = c.partition_id JOIN queen.queues q ON q.id = p.queue_id"
    " WHERE q.name = $1 AND c.lease_expires_at > now()"
)
_LETTERS = (
    "SELECT count(*) FROM queen.dead_letter_queue d JOIN queen.partitions p"
    " ON p.id = d.partition_id JOIN queen.queues q ON q.id = p.queue_id WHERE q.name = $1"
)
_MESSAGES = (
    "SELECT count(*) FROM queen.messages m JOIN queen.queues q ON q.id = m.queue_id"
    " WHERE q.name = $1"
)


def test_a_group_is_released_moved_paused_and_deleted(
    world: World, open_page: Callable[..., Watched]
) -> None:
    queue, group = f"{unique()} {HOSTILE}", f"{unique()} {HOSTILE}"
    world.push(queue, 1, 2, 3)
    world.pop(queue, group)
    watched = open_page(world.broker.url)
    page = world.enter(watched, "admin", "#/groups")
    page.get_by_role("searchbox").fill(group)
    page.get_by_role("link", name=group).click()
    page.get_by_role("heading", level=1, name=group).wait_for()
    page.get_by_role("button", name="Release p").wait_for()
    assert page.locator("main img").count() == 0
    assert watched.find_axe_faults() == []

    assert world.fetch(_LEASES, queue) == 1
    page.get_by_role("button", name="Release p").click()
    confirm(page, "Release the lease", "Release")
    world.wait_for(0, _LEASES, queue)

    def seek(place: str, again: int, skipped: int, **fields: str) -> None:
        page.get_by_role("button", name="Seek").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Move to").select_option(label=place)
        for label, value in fields.items():
            dialog.get_by_label(label).fill(value)
        preview = dialog.get_by_role("status")
        preview.get_by_text(f"{again} come again").wait_for()
        preview.get_by_text(f"{skipped} are skipped").wait_for()
        if place == "A time":
            assert watched.find_axe_faults() == []
        dialog.get_by_role("button", name="Move group").click()
        dialog.wait_for(state="detached")

    seek("The end: skip everything", 0, 3)
    assert world.lag(group, queue) == 0
    seek("A message of one partition", 2, 0, Partition="p", Number="2")
    assert world.lag(group, queue) == 2
    seek("A time", 1, 0)
    assert world.lag(group, queue) == 3

    page.get_by_role("button", name="Pause").click()
    confirm(page, f"Pause {group}", "Pause")
    page.get_by_text("paused", exact=True).wait_for()
    listed = world.call("GET", "/api/v1/consumer-groups")
    assert [one.get("isPaused") for one in listed if one["name"] == group] == [True]
    page.get_by_role("button", name="Resume").click()
    confirm(page, f"Resume {group}", "Resume")
    page.get_by_text("stable", exact=True).wait_for()
    assert len(world.pop(queue, group)) == 1

    page.get_by_role("button", name="Delete").click()
    confirm(page, f"Delete {group}", "Delete group", typed=group)
    page.get_by_role("heading", level=1, name="Consumer groups").wait_for()
    assert world.lag(group, queue) is None


def test_dead_letters_are_compared_retried_and_purged(
    world: World, open_page: Callable[..., Watched]
) -> None:
    queue, group, error = unique(), unique(), f"no such card {HOSTILE}"
    for number in range(5):
        world.push(queue, {"n": number, "card": {"kind": HOSTILE}}, partition=f"p{number}")
    for number in range(5):
        (message,) = world.pop(queue, group)
        world.bury(message, group, error if number < 4 else "timeout")
    assert world.fetch(_LETTERS, queue) == 5
    watched = open_page(world.broker.url)
    page = world.enter(watched, "admin", f"#/dead-letters?queue={queue}")
    page.get_by_role("link", name=error).click()
    page.wait_for_url("**tab=letters**")
    rows = page.get_by_role("region", name="Dead letters").get_by_role("row")
    becomes(lambda: rows.count() == 5, "four letters and a head")
    assert watched.find_axe_faults() == []
    here = page.url
    rows.nth(1).get_by_role("link").first.click()
    page.get_by_text("gave up").wait_for()
    page.get_by_label("Other letter", exact=True).select_option(index=1)
    page.get_by_role("rowheader", name="n", exact=True).wait_for()
    assert page.get_by_role("rowheader", name="card").count() == 0
    assert page.locator("main img").count() == 0
    assert watched.find_axe_faults() == []
    page.get_by_role("button", name="Retry").click()
    confirm(page, "Retry the dead letter", "Retry")
    world.wait_for(4, _LETTERS, queue)
    assert world.fetch(_MESSAGES, queue) == 6

    page.goto(here)
    page.get_by_role("button", name="Retry 3 letters").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Retry 3").click()
    dialog.get_by_text("3 of 3 retried.").wait_for()
    # One letter has another error, and stays.
    assert world.fetch(_LETTERS, queue) == 1
    assert world.fetch(_MESSAGES, queue) == 9
    dialog.get_by_role("button", name="Close").last.click()
    page.get_by_role("button", name="Clear").click()
    purge = page.get_by_role("button", name="Purge all")
    becomes(purge.is_disabled, "a purge without a filter is off")
    page.goto(f"{watched.url}/#/dead-letters?queue={queue}")
    page.get_by_role("button", name="Purge 1 letter").click()
    dialog.get_by_role("button", name="Purge 1").click()
    dialog.get_by_text("1 of 1 purged.").wait_for()
    assert world.fetch(_LETTERS, queue) == 0
    assert world.fetch(_MESSAGES, queue) == 9


def _fail_operations(world: World, queue: str, *payloads: Any) -> None:
    """Queue pushes that have failed before any worker sees them."""

    async def work(session: Any) -> None:
        partition = await session.fetchval(
            "SELECT p.id FROM queen.partitions p JOIN queen.queues q ON q.id = p.queue_id"
            " WHERE q.name = $1",
            queue,
        )
        ids = await enqueue(session, partition, *payloads)
        await session.execute(
            "UPDATE queen.operation_queue"
            " SET status = 'failed', processed_at = now(), error_message = $2 WHERE id = ANY ($1)",
            ids,
            f"no room {HOSTILE}",
        )

    world.on_database(work)


def test_operations_are_retried_and_discarded_and_switches_thrown(
    world: World, open_page: Callable[..., Watched]
) -> None:
    queue = f"{unique()} {HOSTILE}"
    world.push(queue, 0)
    _fail_operations(world, queue, 1, 2)
    watched = open_page(world.broker.url)
    page = world.enter(watched, "admin", "#/operations?status=failed")
    rows = page.get_by_role("region", name="Queued pushes").get_by_role("row")
    becomes(lambda: rows.count() == 3, "two operations and a head")
    assert page.locator("main img").count() == 0
    assert watched.find_axe_faults() == []
    rows.nth(1).get_by_role("button", name="Discard").click()
    confirm(page, "Discard the operation", "Discard", typed=queue)
    count = "SELECT count(*) FROM queen.operation_queue WHERE queue_name = $1 AND status = $2"
    world.wait_for(1, count, queue, "discarded")
    becomes(lambda: rows.count() == 2, "one operation and a head")
    rows.nth(1).get_by_role("button", name="Retry").click()
    confirm(page, "Retry the operation", "Retry")
    world.wait_for(2, _MESSAGES, queue)

    switch = page.get_by_role("switch", name="Keep pushes on disk")
    switch.focus()
    page.keyboard.press("Space")
    confirm(page, "Keep pushes on disk: on", "Switch on")
    becomes(switch.is_checked, "the switch is on")
    state = world.call("GET", "/api/v1/system/maintenance")
    assert (state["maintenanceMode"], state["popMaintenanceMode"]) == (True, False)
    switch.focus()
    page.keyboard.press("Space")
    # A switch that was not confirmed stays as it is.
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    becomes(switch.is_checked, "the switch is on")
    switch.focus()
    page.keyboard.press("Space")
    confirm(page, "Keep pushes on disk: off", "Switch off")
    pops = page.get_by_role("switch", name="Pause all pops")
    for word in ("on", "off"):
        pops.focus()
        page.keyboard.press("Space")
        confirm(page, f"Pause all pops: {word}", f"Switch {word}")
        becomes(lambda word=word: pops.is_checked() == (word == "on"), f"pops are {word}")
        state = world.call("GET", "/api/v1/system/maintenance")
        assert state["popMaintenanceMode"] == (word == "on")


def test_a_reader_sees_everything_and_may_do_nothing(
    world: World, open_page: Callable[..., Watched]
) -> None:
    queue, group = unique(), unique()
    world.push(queue, 1, 2)
    (message,) = world.pop(queue, group)
    world.bury(message, group, "broken")
    world.pop(queue, group)
    _fail_operations(world, queue, 1)
    page = world.enter(open_page(world.broker.url), "read-only", f"#/groups/{group}")
    buttons = {
        f"#/groups/{group}": ("Pause", "Delete", "Seek", "Release p"),
        f"#/dead-letters?queue={queue}": ("Retry 1 letter", "Purge 1 letter"),
        f"#/dead-letters/{message['partitionId']}/{message['transactionId']}": ("Retry",),
        "#/operations?status=failed": ("Retry all", "Retry", "Discard"),
    }
    for place, names in buttons.items():
        page.goto(f"{world.broker.url}/{place}")
        for name in names:
            button = page.get_by_role("button", name=name, exact=True).first
            button.wait_for()
            assert button.is_disabled(), name
    for name in ("Keep pushes on disk", "Pause all pops"):
        assert page.get_by_role("switch", name=name).is_disabled()
    # The broker refuses as well.
    one = f"/api/v1/consumer-groups/{group}"
    for method, path in (
        ("POST", f"{one}/pause"),
        ("POST", f"{one}/queues/{queue}/seek"),
        ("POST", f"{one}/queues/{queue}/partitions/p/release"),
        ("DELETE", one),
        ("POST", "/api/v1/dlq/retry"),
        ("DELETE", f"/api/v1/dlq?queue={queue}"),
        ("POST", "/api/v1/operations/retry"),
        ("POST", "/api/v1/system/maintenance"),
        ("GET", "/api/v1/system/settings"),
        ("POST", "/api/v1/tokens"),
    ):
        world.call(method, path, {} if method == "POST" else None, role="read-only", status=403)
