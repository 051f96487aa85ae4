"""A browser for tests: Debian's chromium, driven by Playwright, that forgives no error."""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

#: CI sets it, so that missing browsers fail there instead of being skipped.
REQUIRED = "REQUIRE_BROWSER"
_AXE = Path(__file__).parent / "vendor" / "axe.min.js"
_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
_NAMES = ("chromium", "chromium-browser", "google-chrome")


def _give_up(reason: str) -> None:
    if os.environ.get(REQUIRED):
        pytest.fail(f"{reason} {REQUIRED} is set, so this is an error.", pytrace=False)
    pytest.skip(reason)


@contextlib.contextmanager
def running_browser() -> Iterator[Any]:
    """A headless browser; the test is skipped with a sentence where none is installed."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _give_up("Playwright is not installed. Run make setup.")
    path = next((found for name in _NAMES if (found := shutil.which(name))), None)
    if path is None:
        _give_up("No browser is installed. Run apt-get install chromium.")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=_FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page and everything that went wrong on it."""

    def __init__(self, page: Any, url: str) -> None:
        self.page = page
        self.url = url
        self.faults: list[str] = []
        self.foreign: list[str] = []
        #: Parts of console errors that a test provokes.
        self.forgiven: list[str] = []
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.faults.append(f"exception: {error}"))
        page.on("request", self._asked)

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type}: {message.text} ({message.location['url']})")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:")):
            self.foreign.append(request.url)

    def open(self, hash_: str = "#/") -> Any:
        """Go to a place of the dashboard; the page."""
        self.page.goto(f"{self.url}/{hash_}")
        return self.page

    def check(self) -> None:
        """Fail on any error of the console, any violated policy and any request elsewhere."""
        left = [one for one in self.faults if not any(part in one for part in self.forgiven)]
        assert left == [], left
        assert self.foreign == []

    def find_axe_faults(self) -> list[str]:
        """Return serious and critical findings of axe, one line each."""
        # Through the debugger: the page's own policy would refuse the script.
        self.page.evaluate(_axe())
        found = self.page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{one['id']}: {node['target']} {node.get('failureSummary', '')}"
            for one in found["violations"]
            if one["impact"] in ("serious", "critical")
            for node in one["nodes"]
        ]


@functools.cache
def _axe() -> str:
    return _AXE.read_text(encoding="utf-8")
