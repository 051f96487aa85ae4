"""The frame around all views: navigation, theme, keys, connection, access, hostile names."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any
from urllib.parse import quote, urljoin

import asyncpg
import pytest

from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.browser import Watched
from tests.support.tokens import signed

HOSTILE = "<img src=x onerror=alert(1)>"
#: Names without any character that has a shape, and how they are shown.
BLANKS = {
    "\u2003 \u200b": "U+2003 U+0020 U+200B",
    "\n\t": "U+000A U+0009",
    "\u0001": "U+0001",
    " ": "U+0020",
}
#: Every view, by its place and its heading.
PLACES = (
    ("#/", "Overview"),
    ("#/queues", "Queues"),
    ("#/messages", "Messages"),
    ("#/groups", "Consumer groups"),
    ("#/dead-letters", "Dead letters"),
    ("#/operations", "Operations"),
    ("#/traces", "Traces"),
    ("#/pipeline", "Pipeline"),
    ("#/system", "System"),
    ("#/system?tab=postgres", "System"),
    ("#/system?tab=settings", "System"),
)


def _heading(page: Any, text: str) -> None:
    page.get_by_role("heading", level=1, name=text).wait_for()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_views_have_no_serious_fault_of_accessibility(
    open_page: Callable[..., Watched], broker: BrokerProcess, scheme: str, width: int
) -> None:
    watched = open_page(broker.url, viewport={"width": width, "height": 800}, color_scheme=scheme)
    for place, title in PLACES:
        page = watched.open(place)
        _heading(page, title)
        page.locator("main .spinner").first.wait_for(state="detached")
        assert watched.find_axe_faults() == []
        is_wider = "document.documentElement.scrollWidth > innerWidth"
        assert not page.evaluate(is_wider), "the page scrolls sideways"


async def _push_to(url: str, *queues: str) -> None:
    api = Api(url)
    for queue in queues:
        await api.push(queue, 1)
    await api.close()


async def _use_blank_name(url: str, name: str) -> str:
    """Queue, partition, group, transaction, trace and error have this name. Return the place."""
    api = Api(url)
    await api.push(name, 1, partition=name, transactionId=name)
    [message] = await api.pop(quote(name), consumerGroup=name)
    where = {key: message[key] for key in ("partitionId", "transactionId")}
    traced = where | {"traceNames": [name], "data": {"text": name}, "eventType": name}
    assert (await api.http.post("/api/v1/traces", json=traced)).status_code == 201
    await api.ack(message, status="dlq", group=name, error=name)
    await api.close()
    return f"{message['partitionId']}/{quote(name)}"


def test_names_of_spaces_can_be_seen(watched: Watched, run: Callable[..., Any]) -> None:
    for name, shown in BLANKS.items():
        place = run(_use_blank_name(watched.url, name))
        page = watched.open(f"#/queues?search={quote(name)}")
        page.get_by_role("link", name=f"({shown})").wait_for()
    inner = (
        f"#/queues/{quote(name)}",
        f"#/queues/{quote(name)}?tab=partitions",
        f"#/queues/{quote(name)}/partitions/{quote(name)}",
        f"#/groups/{quote(name)}",
        f"#/messages/{place}",
        f"#/messages?queue={quote(name)}&within=all",
        f"#/dead-letters?queue={quote(name)}&tab=letters",
        f"#/dead-letters/{place}",
        f"#/traces/message/{place}",
        f"#/traces/name/{quote(name)}",
    )
    for view in (*(view for view, _ in PLACES), *inner):
        page = watched.open(view)
        page.locator("main h1").wait_for()
        page.locator("main .spinner").first.wait_for(state="detached")
        assert watched.find_axe_faults() == [], view


def test_a_hostile_name_is_text(watched: Watched, run: Callable[..., Any]) -> None:
    name = f"{unique()} {HOSTILE}"
    run(_push_to(watched.url, name))
    page = watched.open("#/queues")
    page.get_by_role("searchbox").fill(name)
    page.get_by_role("link", name=name).wait_for()
    assert page.locator("main img").count() == 0
    page.wait_for_url("**search=**")


def test_a_name_of_dots_leads_nowhere_else(watched: Watched) -> None:
    page = watched.open("#/queues")
    _heading(page, "Queues")
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "seek" in request.url else None)
    said = page.evaluate(
        """async () => {
            const main = document.querySelector("script[type=module]").src;
            const { path, send } = await import(main.replace("main.js", "lib/api.js"));
            const said = [];
            for (const name of ["..", "."]) {
                const where = path`/api/v1/consumer-groups/g/queues/q/partitions/${name}/seek`;
                said.push(await send("POST", where, { toEnd: true }).catch((error) => error.kind));
            }
            return said;
        }"""
    )
    # As a browser reads the path, it would be the seek of the whole queue.
    assert (said, asked) == (["refused", "refused"], [])


async def _hold_queue(database_url: str, queue: str, held: Event, released: Event) -> None:
    """Keep the queue from being deleted until the release."""
    connection = await asyncpg.connect(database_url)
    async with connection.transaction():
        await connection.fetch("SELECT FROM queen.queues WHERE name = $1 FOR UPDATE", queue)
        held.set()
        await asyncio.to_thread(released.wait, SOON_S)
    await connection.close()


def test_a_long_deletion_does_not_lose_the_broker(
    open_page: Callable[..., Watched],
    broker: BrokerProcess,
    shared_database_url: str,
    run: Callable[..., Any],
) -> None:
    queue = unique()
    run(_push_to(broker.url, queue))
    # A page without the dashboard, whose own looks would run out of time when the clock jumps.
    watched = open_page(broker.url)
    watched.forgiven.append("/favicon.ico")
    page = watched.open()
    script = page.locator("script[type=module]").get_attribute("src")
    api = urljoin(page.url, script).replace("main.js", "lib/api.js")
    page.goto(api)
    page.clock.install()
    begin = """async ([api, queue]) => {
        const { path, send } = await import(api);
        const { connection } = await import(api.replace("api.js", "store.js"));
        const where = path`/api/v1/resources/queues/${queue}`;
        window.said = send("DELETE", where).catch((error) => error.kind);
        window.isLost = () => connection.get().isLost;
    }"""
    held, released = Event(), Event()
    with ThreadPoolExecutor(1) as pool:
        hold = pool.submit(asyncio.run, _hold_queue(shared_database_url, queue, held, released))
        try:
            assert held.wait(SOON_S)
            with page.expect_request("**/resources/queues/*"):
                page.evaluate(begin, [api, queue])
            # Far beyond the limit of any other answer.
            page.clock.fast_forward(600_000)
            assert page.evaluate("window.isLost()") is False
        finally:
            released.set()
        hold.result()
    assert page.evaluate("window.said")["existed"] is True


def test_the_theme_is_kept(watched: Watched) -> None:
    page = watched.open()
    page.get_by_role("button", name="dark theme").click()
    page.reload()
    _heading(page, "Overview")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    assert page.get_by_role("button", name="dark theme").get_attribute("aria-pressed") == "true"


def test_keys_lead_everywhere(watched: Watched) -> None:
    page = watched.open()
    _heading(page, "Overview")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.keyboard.press("g")
    page.keyboard.press("q")
    _heading(page, "Queues")
    assert page.evaluate("document.activeElement.tagName") == "H1"
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.type("g?o")
    _heading(page, "Queues")
    page.keyboard.press("Tab")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")


def test_a_broker_that_goes_away_is_said_and_one_that_comes_back_heals(
    open_page: Callable[..., Watched], shared_database_url: str
) -> None:
    where = ["--database-url", shared_database_url]
    brokers = [BrokerProcess(where)]
    url = brokers[0].url
    watched = open_page(url)
    # A killed broker ends a connection in one of several ways.
    watched.forgiven.append("net::ERR_")
    try:
        page = watched.open()
        page.get_by_text("In", exact=True).wait_for()
        brokers[0].kill()
        page.get_by_text("The broker has not answered since").wait_for()
        # What was known stays, and is said to be old.
        page.get_by_text("These numbers are from").first.wait_for()
        brokers.append(BrokerProcess([*where, "--port", url.rpartition(":")[2]]))
        page.get_by_text("The broker has not answered since").wait_for(state="detached")
        page.get_by_text("These numbers are from").first.wait_for(state="detached")
        # A rate needs two looks at the new broker.
        page.get_by_text("being measured").wait_for()
        page.get_by_text("messages consumed").wait_for()
    finally:
        for one in brokers:
            if one.process.poll() is None:
                one.stop()


def test_a_queue_is_made_once(watched: Watched) -> None:
    name = unique()
    page = watched.open("#/queues")
    for is_new in (True, False):
        page.get_by_role("button", name="New queue").click()
        page.get_by_role("textbox", name="Name").fill(name)
        page.get_by_role("button", name="Make queue").click()
        if is_new:
            page.get_by_role("link", name=name).wait_for()
    page.get_by_text("exists already").wait_for()


def test_an_unknown_place_says_so(watched: Watched) -> None:
    page = watched.open("#/no/such/page")
    page.get_by_text("There is no such page").wait_for()
    page.get_by_role("link", name="Go to the overview").click()
    _heading(page, "Overview")


def test_login_and_logout_over_tls(
    guarded_by_tls: BrokerProcess, open_page: Callable[..., Watched]
) -> None:
    # In this order, the page is closed before its broker.
    watched = open_page(guarded_by_tls.url, ignore_https_errors=True)
    watched.forgiven.append("the server responded with a status of 401")
    page = watched.open("#/queues")
    _heading(page, "Log in")
    page.get_by_label("Token").fill(signed(role="read-write", sub="ada"))
    page.get_by_role("button", name="Log in").click()
    _heading(page, "Queues")
    (cookie,) = page.context.cookies()
    assert cookie["name"] == "__Host-queen_session" and cookie["secure"] and cookie["httpOnly"]
    assert (cookie["domain"], cookie["path"]) == ("127.0.0.1", "/")
    # A change needs the header that the page has from its session.
    name = unique()
    page.get_by_role("button", name="New queue").click()
    page.get_by_role("textbox", name="Name").fill(name)
    page.get_by_role("button", name="Make queue").click()
    page.get_by_role("link", name=name).wait_for()
    page.get_by_role("button", name="Log out").click()
    _heading(page, "Log in")
    assert page.context.cookies() == []


def test_login_and_logout(open_page: Callable[..., Watched], guarded: BrokerProcess) -> None:
    watched = open_page(guarded.url)
    watched.forgiven.append("the server responded with a status of 401")
    page = watched.open("#/queues")
    _heading(page, "Log in")
    assert watched.find_axe_faults() == []
    page.get_by_label("Token").fill("nonsense")
    page.get_by_role("button", name="Log in").click()
    page.locator(".field-error").wait_for()
    page.get_by_label("Token").fill(signed(role="read-only", sub="ada"))
    page.get_by_role("button", name="Log in").click()
    # The link that was opened is where the login leads to.
    _heading(page, "Queues")
    assert page.get_by_role("button", name="New queue").is_disabled()
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Log out").click()
    _heading(page, "Log in")
    page.get_by_label("Token").fill(signed(role="read-write", sub="ada"))
    page.get_by_role("button", name="Log in").click()
    name = unique()
    page.get_by_role("button", name="New queue").click()
    page.get_by_role("textbox", name="Name").fill(name)
    page.get_by_role("button", name="Make queue").click()
    page.get_by_role("link", name=name).wait_for()
