"""Queue, partition, messages and message in a browser: what they show, what actions do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import pytest

from tests.dashboard.conftest import run_apart
from tests.dashboard.scene import HOSTILE, Scene, ask, cursor_of
from tests.dashboard.world import becomes
from tests.support.broker import Api, BrokerProcess, unique
from tests.support.browser import Watched
from tests.support.tokens import signed

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def played(broker: BrokerProcess) -> Scene:
    """A scene that no test changes."""
    return run_apart(Scene().play(broker.url))


def _places(scene: Scene) -> list[tuple[str, str]]:
    """Every place of these views, and a text that is there when it has loaded."""
    return [
        (scene.queue_place, "taken"),
        (f"{scene.queue_place}?tab=partitions", scene.partition),
        (f"{scene.queue_place}?tab=options", "Review changes"),
        (scene.partition_place, "1 failed attempt of 5"),
        (f"#/messages?queue={quote(scene.queue)}", scene.ids[5]),
        (scene.message_place(0), "State in every group"),
    ]


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_views_are_readable_by_all_and_hostile_text_stays_text(
    open_page: Callable[..., Watched],
    broker: BrokerProcess,
    played: Scene,
    scheme: str,
    width: int,
) -> None:
    watched = open_page(broker.url, viewport={"width": width, "height": 800}, color_scheme=scheme)
    for place, text in _places(played):
        page = watched.open(place)
        page.get_by_text(text).first.wait_for(state="attached")
        assert page.locator("main img").count() == 0
        assert watched.find_axe_faults() == [], place
        is_wider = "document.documentElement.scrollWidth > innerWidth"
        assert not page.evaluate(is_wider), f"{place} scrolls sideways"
    page.get_by_role("button", name="Raw").first.click()
    assert HOSTILE in page.get_by_label("payload", exact=True).inner_text()


def test_the_queue_says_what_its_groups_do(watched: Watched, played: Scene) -> None:
    page = watched.open(f"{played.queue_place}?group=slow")
    groups = page.get_by_role("table", name="Groups of this queue")
    groups.get_by_role("row", name="slow").wait_for()
    # The group of the link is open, the others are a line each.
    page.get_by_text("wait for its acks or its end").wait_for()
    stuck = page.get_by_role("table", name="Partitions to look at")
    stuck.get_by_role("row", name="fast").get_by_text(f"no {HOSTILE}").wait_for()
    stuck.get_by_role("link", name=played.partition).first.click()
    page.get_by_role("heading", level=1, name=played.partition).wait_for()
    assert "group=" in page.url


def test_partitions_are_searched_and_paged_by_the_broker(watched: Watched, run: Run) -> None:
    queue = unique()

    async def push() -> None:
        api = Api(watched.url)
        names = [f"p{number:02}" for number in range(60)]
        await api.push_items([{"queue": queue, "partition": name, "payload": 1} for name in names])
        await api.push(queue, 2, partition="p33")
        await api.close()

    run(push())
    page = watched.open(f"#/queues/{queue}?tab=partitions")
    page.get_by_text("1–50 of 60").wait_for()
    page.get_by_role("button", name="Next page").click()
    page.get_by_role("link", name="p59").wait_for()
    assert "offset=50" in page.url
    page.get_by_role("button", name="Deepest").click()
    page.locator("tbody tr").first.get_by_role("link", name="p33").wait_for()
    page.get_by_role("searchbox").fill("p1")
    page.get_by_role("link", name="p33").wait_for(state="detached")
    becomes(lambda: page.locator("tbody tr").count() == 10, "the ten partitions that match")
    page.get_by_role("button", name="Blocked").click()
    page.get_by_text("No partition is blocked").wait_for()


def test_a_partition_is_live_and_its_groups_are_steered(watched: Watched, run: Run) -> None:
    scene = run(Scene().play(watched.url))
    page = watched.open(scene.partition_place)
    row = page.get_by_role("row", name="slow")
    row.get_by_text("left").wait_for()

    row.get_by_role("button", name="Release").click()
    page.get_by_role("dialog").get_by_role("button", name="Release").click()
    row.get_by_text("free").wait_for()
    assert run(cursor_of(watched.url, scene, "slow"))["leasedUntil"] is None

    # The failed message is skipped, and the count before it says so.
    row = page.get_by_role("row", name="fast")
    row.get_by_role("button", name="Skip one").click()
    page.get_by_text("1 message would be skipped").wait_for()
    page.get_by_role("dialog").get_by_role("button", name="Skip").click()
    page.get_by_text("fast goes on after 5").wait_for()
    after = run(cursor_of(watched.url, scene, "fast"))
    assert (after["cursorSeq"], after["retryCount"]) == (5, 0)

    row.get_by_role("button", name="Seek").click()
    page.get_by_label("To", exact=True).select_option("seq")
    page.get_by_label("Number").fill("x")
    page.get_by_text("A whole number from 1.").wait_for()
    assert page.get_by_role("button", name="Move").is_disabled()
    page.get_by_label("Number").fill("2")
    page.get_by_text("4 messages would be delivered again").wait_for()
    page.get_by_role("button", name="Move").click()
    page.get_by_text("Moved fast").wait_for()
    assert run(cursor_of(watched.url, scene, "fast"))["cursorSeq"] == 1

    async def push() -> None:
        api = Api(watched.url)
        await api.push(scene.queue, 7, partition=scene.partition)
        await api.close()

    run(push())
    page.get_by_text("7 messages kept").wait_for()


def test_options_are_checked_and_compared_before_they_are_saved(watched: Watched, run: Run) -> None:
    queue = unique("space.task")

    async def configure(**options: Any) -> None:
        api = Api(watched.url)
        await api.configure(queue, namespace="space", task="task", **options)
        await api.close()

    def options() -> Any:
        return run(ask(watched.url, f"/api/v1/resources/queues/{queue}"))

    run(configure(leaseTime=30, ttl=77))
    page = watched.open(f"#/queues/{queue}?tab=options")
    lease = page.get_by_label("Lease time (seconds)")
    lease.fill("1.5")
    page.get_by_text("A whole number, without a dot.").wait_for()
    assert page.get_by_role("button", name="Review changes").is_disabled()
    lease.fill("45")
    page.get_by_label("Poison messages").select_option("block")
    # What others change meanwhile is kept.
    run(configure(leaseTime=30, ttl=78, retryLimit=9))
    page.get_by_role("button", name="Review changes").click()
    changes = page.get_by_role("table", name="Changes")
    assert changes.get_by_role("row", name="Lease time").inner_text().split("\t") == [
        "Lease time", "30 s", "45 s"
    ]  # fmt: skip
    assert changes.locator("tbody tr").count() == 2
    page.get_by_text("A poison message stops its partition").wait_for()
    assert options()["options"]["leaseTime"] == 30
    page.get_by_role("button", name="Save").click()
    page.get_by_text("Saved 2 changes").wait_for()
    page.get_by_text("No changes").wait_for()
    assert page.get_by_role("dialog").count() == 0
    saved = options()
    wanted = {"leaseTime": 45, "onPoison": "block", "ttl": 78, "retryLimit": 9}
    assert {name: saved["options"][name] for name in wanted} == wanted
    assert (saved["namespace"], saved["task"]) == ("space", "task")


def test_a_queue_is_cleared_and_deleted_after_its_name_was_typed(
    watched: Watched, run: Run
) -> None:
    scene = run(Scene().play(watched.url))
    page = watched.open(f"{scene.queue_place}?tab=options")
    path = f"/api/v1/resources/queues/{quote(scene.queue, safe='')}"
    page.get_by_role("button", name="Clear queue").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_text("6 messages").wait_for()
    confirm = dialog.get_by_role("button", name="Clear queue")
    dialog.get_by_role("textbox").fill("something else")
    assert confirm.is_disabled()
    dialog.get_by_role("textbox").fill(scene.queue)
    confirm.click()
    page.get_by_text("Dropped 6 messages").wait_for()
    assert run(ask(watched.url, path))["totals"]["total"] == 0
    page.get_by_role("button", name="Delete queue").click()
    page.get_by_role("dialog").get_by_role("textbox").fill(scene.queue)
    page.get_by_role("dialog").get_by_role("button", name="Delete queue").click()
    page.get_by_role("heading", level=1, name="Queues").wait_for()
    assert run(ask(watched.url, path)) == 404


def test_messages_are_found_and_a_test_message_is_pushed_as_it_was_typed(
    watched: Watched, run: Run, played: Scene
) -> None:
    page = watched.open("#/messages")
    page.get_by_label("Queue", exact=True).fill(played.queue)
    named = "document.activeElement.labels?.[0]?.textContent ?? document.activeElement.innerText"
    order = []
    for _ in range(6):
        page.keyboard.press("Tab")
        order.append(page.evaluate(named))
    assert order == [
        "Partition", "Transaction id", "Text in the payload", "Status", "Pushed", "Search"
    ]  # fmt: skip
    page.get_by_label("Text in the payload").fill('"n":3')
    page.get_by_role("button", name="Search").click()
    page.get_by_role("link", name=played.ids[2], exact=True).wait_for()
    page.get_by_role("link", name=played.ids[1], exact=True).wait_for(state="detached")
    assert "text=" in page.url
    page.get_by_role("button", name="Clear").click()
    page.get_by_label("Queue", exact=True).fill(played.queue)
    page.keyboard.press("Enter")
    page.get_by_label("Status").select_option("processing")
    page.get_by_role("link", name=played.ids[1], exact=True).wait_for()
    page.get_by_role("link", name=played.ids[3], exact=True).wait_for(state="detached")
    page.reload()
    page.get_by_role("link", name=played.ids[1], exact=True).wait_for()

    queue = unique()
    page.get_by_role("button", name="Push a message").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Queue").fill(queue)
    dialog.get_by_label("Payload").fill("{oops")
    dialog.get_by_text("This is not JSON").wait_for()
    assert dialog.get_by_role("button", name="Push").is_disabled()
    dialog.get_by_label("Payload").fill('{"id": 12345678901234567890, "x": 1.0}')
    dialog.get_by_role("button", name="Push").click()
    dialog.get_by_role("link", name="Open the message").click()
    page.get_by_text("12345678901234567890").wait_for()

    async def stored() -> list[Any]:
        api = Api(watched.url)
        response = await api.http.get(f"/api/v1/pop/queue/{queue}")
        await api.close()
        return ["12345678901234567890" in response.text, '"x":1.0' in response.text]

    assert run(stored()) == [True, True]


def test_a_message_is_buried_retried_and_deleted(watched: Watched, run: Run) -> None:
    scene = run(Scene().play(watched.url))
    page = watched.open(scene.message_place(5))
    assert page.get_by_role("button", name="Retry").is_disabled()
    page.get_by_role("button", name="Move to dead letters").click()
    page.get_by_label("Why").fill(f"because {HOSTILE}")
    page.get_by_role("dialog").get_by_role("button", name="Move").click()
    page.get_by_text(f"because {HOSTILE}").wait_for()

    async def letters() -> list[Any]:
        api = Api(watched.url)
        found = await api.dead_letters(scene.queue)
        await api.close()
        return [(one["consumerGroup"], one["errorMessage"]) for one in found]

    reason = f"because {HOSTILE}"
    assert sorted(run(letters())) == [("fast", reason), ("slow", reason)]
    page.get_by_role("button", name="Retry").click()
    page.get_by_role("dialog").get_by_role("button", name="Retry").click()
    page.get_by_text("Pushed again").wait_for()
    assert run(letters()) == []
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("textbox").fill("delete")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.get_by_role("heading", level=1, name=scene.partition).wait_for()
    path = f"/api/v1/messages/{scene.partition_id}/{quote(scene.ids[5], safe='')}"
    assert run(ask(watched.url, path)) == 404


def test_a_reader_sees_everything_and_changes_nothing(
    open_page: Callable[..., Watched], guarded: BrokerProcess, run: Run
) -> None:
    async def push() -> Any:
        api = Api(guarded.url)
        api.http.headers["authorization"] = f"Bearer {signed(role='read-write')}"
        pushed = await api.push("orders", {"n": 1}, {"n": 2})
        await api.pop("orders", consumerGroup="g", subscriptionMode="all")
        await api.close()
        return pushed[0]

    message = run(push())
    watched = open_page(guarded.url)
    watched.forgiven.append("the server responded with a status of 401")
    page = watched.open("#/queues/orders?tab=options")
    page.get_by_label("Token").fill(signed(role="read-only", sub="ada"))
    page.get_by_role("button", name="Log in").click()
    page.get_by_text("Your role may not change options.").wait_for()
    disabled = {
        "#/queues/orders?tab=options": [
            "Push a message", "Review changes", "Clear queue", "Delete queue"
        ],
        "#/queues/orders/partitions/Default": ["Push a message", "Release", "Skip one", "Seek"],
        f"#/messages/{message['partition_id']}/{message['transaction_id']}": [
            "Retry", "Move to dead letters", "Delete"
        ],
    }  # fmt: skip
    for place, names in disabled.items():
        page = watched.open(place)
        for name in names:
            button = page.get_by_role("button", name=name)
            button.wait_for()
            assert button.is_disabled(), name
    page.get_by_text('"n"').or_(page.get_by_text("n", exact=True)).first.wait_for()


def test_the_list_of_queues_never_says_zero_for_unknown(watched: Watched, played: Scene) -> None:
    watched.forgiven.append("the server responded with a status of 503")
    page = watched.page
    page.route(
        "**/api/v1/consumer-groups",
        lambda route: route.fulfill(status=503, json={"error": "too busy", "code": "busy"}),
    )
    watched.open(f"#/queues?search={quote(played.queue)}")
    page.get_by_text("The lag and the groups are not known: too busy").wait_for()
    row = page.get_by_role("row", name=played.queue)
    row.wait_for()
    cells = row.get_by_role("cell").all_inner_texts()
    assert cells[5:7] == ["–", "–"]
    page.unroute("**/api/v1/consumer-groups")
    page.get_by_text("The lag and the groups are not known").wait_for(state="detached")
    cells = row.get_by_role("cell").all_inner_texts()
    assert cells[6] == "2"
