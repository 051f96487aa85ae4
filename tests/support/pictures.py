"""Takes pictures of every view: to look at, and for the docs.

`python -m tests.support.pictures FOLDER` writes each view in light, dark and on a phone.
`python -m tests.support.pictures docs/img` writes those of the docs again.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from queenmq.storage.schema.migrator import migrate
from tests.support.broker import SOON_S, running_broker
from tests.support.browser import running_browser
from tests.support.shared_postgres import running_postgres
from tests.support.shop import TRACE, furnish
from tests.support.small_png import shrink

DOCS = Path(__file__).parents[2] / "docs/img"
#: Until charts are drawn and transitions are over.
_SETTLE_MS = 700
SCHEMES = {"light": "", "dark": "dark"}
SIZES = {"": (1280, 800), "phone": (390, 844)}
VIEWS = {
    "overview": "#/",
    "queues": "#/queues",
    "queue": "#/queues/orders.placed",
    "queue-partitions": "#/queues/orders.placed?tab=partitions",
    "queue-options": "#/queues/orders.placed?tab=options",
    "partition": "#/queues/orders.placed/partitions/vip",
    "messages": "#/messages?queue=orders.placed",
    "message": "#/messages/{message}",
    "groups": "#/groups",
    "group": "#/groups/reporting",
    "dead-letters": "#/dead-letters",
    "operations": "#/operations",
    "traces": f"#/traces/name/{TRACE}",
    "traces-list": "#/traces",
    "pipeline": "#/pipeline",
    "pipeline-run": "#/pipeline/runs/{run}",
    "system": "#/system",
    "system-postgres": "#/system?tab=postgres",
    "system-settings": "#/system?tab=settings",
}


@contextlib.contextmanager
def open_shop() -> Iterator[tuple[str, dict[str, str]]]:
    """A broker with a furnished shop: its URL, and the places of what pictures show."""
    with running_postgres() as postgres:
        postgres.create("shop", template=None)
        url = postgres.url_of("shop")
        asyncio.run(migrate(url))
        with running_broker(database_url=url) as broker:
            places = asyncio.run(furnish(broker.url, url))
            yield broker.url, places


def find_run(page: Any, url: str) -> str:
    """The run of a job that has the most to show."""
    answer = page.context.request.get(f"{url}/api/v1/analytics/runs?job=audit").json()
    run: str = answer["runs"][0]["run"]
    return run


def take(page: Any, blank: Any, target: Path) -> None:
    """Take a picture, as small as it may be in a repository."""
    page.wait_for_load_state("networkidle")
    page.get_by_text("being measured").wait_for(state="detached")
    page.wait_for_timeout(_SETTLE_MS)
    target.write_bytes(shrink(blank, page.screenshot()))


def main(folder: Path) -> None:
    """Take all pictures, or those that the docs have."""
    wanted = {one.stem for one in folder.glob("*.png")} if folder.resolve() == DOCS else None
    folder.mkdir(parents=True, exist_ok=True)
    with open_shop() as (url, places), running_browser() as browser:
        # View by view: all pictures of one show the shop at the same time.
        pages = {look: _open(browser, *look) for look in itertools.product(SCHEMES, SIZES)}
        blank = browser.new_page()
        for name, place in VIEWS.items():
            for (scheme, device), page in pages.items():
                stem = "-".join(part for part in (name, SCHEMES[scheme], device) if part)
                if wanted is None or stem in wanted:
                    page.goto(f"{url}/{place.format(run=find_run(page, url), **places)}")
                    take(page, blank, folder / f"{stem}.png")


def _open(browser: Any, scheme: str, device: str) -> Any:
    width, height = SIZES[device]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    context.set_default_timeout(SOON_S * 1000)
    return context.new_page()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
