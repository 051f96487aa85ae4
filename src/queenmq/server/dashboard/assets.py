"""The dashboard's files: read once, hashed and compressed, with the page that loads them."""

from __future__ import annotations

import base64
import functools
import gzip
import hashlib
from collections.abc import Iterator, Mapping
from importlib import resources
from importlib.resources.abc import Traversable
from typing import NamedTuple

#: Served files, by extension. Type declarations and licences are not served.
_MEDIA = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_SHELL = "index.html"
#: Loaded by the page itself. Modules load each other.
_ENTRY, _SCRIPTS = "main.js", ("vendor/uplot.js",)
_STYLES = (
    "styles/tokens.css",
    "styles/base.css",
    "styles/layout.css",
    "styles/components.css",
    "styles/pictures.css",
    "styles/queue.css",
    "vendor/uplot.css",
)


class Asset(NamedTuple):
    """One file as it is sent."""

    body: bytes
    compressed: bytes
    media: str
    etag: str
    #: The integrity hash that a browser checks.
    integrity: str


class Dashboard(NamedTuple):
    """All files by their path, the page, and the name of this set of files."""

    page: Asset
    files: Mapping[str, Asset]
    #: Part of every file's URL, so that browsers can cache files forever.
    version: str


@functools.cache
def load_dashboard() -> Dashboard:
    """Read every file. Takes some tens of milliseconds the first time."""
    home = resources.files("queenmq") / "dashboard"
    found = dict(_walk(home, ""))
    files = {
        path: _make(body, _MEDIA[suffix])
        for path, body in sorted(found.items())
        if (suffix := "." + path.rpartition(".")[2]) in _MEDIA
    }
    digests = "".join(f"{path} {asset.integrity}\n" for path, asset in files.items())
    version = hashlib.sha256(digests.encode()).hexdigest()[:16]
    page = _fill(found[_SHELL].decode(), files, version)
    return Dashboard(_make(page.encode(), "text/html; charset=utf-8"), files, version)


def _walk(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _walk(entry, f"{prefix}{entry.name}/")
        else:
            yield prefix + entry.name, entry.read_bytes()


def _make(body: bytes, media: str) -> Asset:
    digest = hashlib.sha384(body).digest()
    return Asset(
        body=body,
        compressed=gzip.compress(body, 9, mtime=0),
        media=media,
        etag=f'"{digest.hex()[:32]}"',
        integrity=f"sha384-{base64.b64encode(digest).decode()}",
    )


def _fill(shell: str, files: Mapping[str, Asset], version: str) -> str:
    """Return the page with a tag for each file that it loads.

    Every module is listed with its digest. So a browser fetches all of them at once, and runs none
    that was changed on the way.
    """
    base = f"dashboard/{version}/"

    def tag(text: str, path: str) -> str:
        return text.format(url=base + path, integrity=files[path].integrity)

    sheet = '<link rel="stylesheet" href="{url}" integrity="{integrity}">'
    preload = '<link rel="modulepreload" href="{url}" integrity="{integrity}">'
    script = '<script defer src="{url}" integrity="{integrity}"></script>'
    entry = '<script type="module" src="{url}" integrity="{integrity}"></script>'
    modules = [
        path for path in files if path.endswith(".js") and path != _ENTRY and path not in _SCRIPTS
    ]
    tags = [
        f'<link rel="icon" href="{base}icon.svg" type="image/svg+xml">',
        *(tag(sheet, path) for path in _STYLES),
        *(tag(script, path) for path in _SCRIPTS),
        *(tag(preload, path) for path in modules),
        tag(entry, _ENTRY),
    ]
    return shell.replace("<!-- assets -->", "\n    ".join(tags))
