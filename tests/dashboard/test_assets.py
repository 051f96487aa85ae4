"""The dashboard's files: small, served safely, and asking nobody else for anything."""

from __future__ import annotations

import re
from pathlib import Path

import httpx

from queenmq.server.dashboard.assets import load_dashboard
from tests.support.broker import SOON_S, BrokerProcess
from tests.support.dashboard_types import HOME, render_types

ROOT = Path(__file__).parents[2] / "src/queenmq/dashboard"
MODULE_LINES_MAX = 300
COMPRESSED_BYTES_MAX = 300_000
#: Names of XML namespaces, which nothing fetches, and the page of a library in its own comment.
NAMES = re.compile(r"http://www\.w3\.org/\d{4}/[\w/]+|https://github\.com/leeoniya/uPlot")


def test_all_files_together_are_small() -> None:
    dashboard = load_dashboard()
    total = sum(len(one.compressed) for one in [dashboard.page, *dashboard.files.values()])
    assert total < COMPRESSED_BYTES_MAX


def test_no_file_names_another_host() -> None:
    for path, asset in load_dashboard().files.items():
        text = NAMES.sub("", asset.body.decode())
        assert not re.search(r"(?:https?:|wss?:)?//[\w-]+\.\w", text), path


def test_no_file_turns_text_into_code_or_markup() -> None:
    for path, asset in load_dashboard().files.items():
        if path.startswith("vendor/"):
            continue
        text = asset.body.decode()
        assert not re.search(
            r"innerHTML|dangerouslySet|insertAdjacentHTML|\beval\(|new Function", text
        ), path
    shell = (ROOT / "index.html").read_text()
    assert not re.search(r"<style|<script|\son\w+=|\sstyle=", shell)


def test_modules_stay_small() -> None:
    lines = {
        str(p): p.read_text().count("\n") for p in ROOT.rglob("*.js") if "vendor" not in p.parts
    }
    assert {path: size for path, size in lines.items() if size > MODULE_LINES_MAX} == {}


def test_types_of_answers_are_those_of_the_document() -> None:
    assert HOME.read_text() == render_types(), "run python -m tests.support.dashboard_types"


def test_every_library_has_its_licence() -> None:
    licences = (ROOT / "vendor/LICENSES.txt").read_text()
    for path in (ROOT / "vendor").glob("*"):
        if path.suffix in (".js", ".css"):
            assert path.name in licences


def test_files_are_served_safely_and_kept(broker: BrokerProcess) -> None:
    with httpx.Client(base_url=broker.url, timeout=SOON_S, verify=False) as http:
        page = http.get("/")
        assert page.status_code == 200 and page.headers["content-encoding"] == "gzip"
        parts = page.headers["content-security-policy"].split("; ")
        policy = dict(part.split(" ", 1) for part in parts)
        assert policy["default-src"] == "'none'" and policy["frame-ancestors"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["require-trusted-types-for"] == "'script'"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["cache-control"] == "no-cache"
        assert "set-cookie" not in page.headers
        # Everything that the page loads is there, with the digest that the page names.
        tags = re.findall(r'(?:href|src)="([^"]+)"(?: integrity="([^"]+)")?', page.text)
        assert len(tags) > 20
        for path, integrity in tags:
            file = http.get(f"/{path}")
            assert file.status_code == 200, path
            assert "immutable" in file.headers["cache-control"]
            assert integrity or path.endswith("icon.svg")
            name = path.split("/", 2)[2]
            asset = load_dashboard().files[name]
            assert file.content == asset.body and integrity in ("", asset.integrity)
        again = http.get("/", headers={"if-none-match": page.headers["etag"]})
        assert again.status_code == 304 and again.content == b""
        plain = http.get("/", headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers and plain.text == page.text
        assert http.head("/").status_code == 200
        for guess in ("/dashboard", "/ui"):
            led = http.get(guess)
            assert led.status_code == 307 and led.next_request is not None
            assert led.next_request.url.path == "/"
        for bad in ("/dashboard/x/main.js", f"/{path.rsplit('/', 1)[0]}/../../settings.py"):
            assert http.get(bad).status_code == 404
        assert http.get("/dashboard/x/%2e%2e/%2e%2e/settings.py").status_code == 404
        assert http.post("/").status_code == 405
