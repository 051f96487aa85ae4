"""GET /, /dashboard, /ui and the files below: the page that shows all of this in a browser."""

from __future__ import annotations

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from queenmq.errors import NotFound
from queenmq.server.dashboard.assets import Asset, Dashboard, load_dashboard
from queenmq.server.edge.exchange import Exchange
from queenmq.server.routing.spec import route

#: Nothing but our own files runs, nothing is sent elsewhere, and no text becomes markup or script.
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_PERMISSIONS = "camera=(), microphone=(), geolocation=(), payment=(), usb=()"
#: The URL of a file names its contents, so it never changes.
_FOR_GOOD = "public, max-age=31536000, immutable"


class DashboardRoutes:
    """The files are public, as they hold no data. What the page shows comes from the API."""

    @route("GET", "/", str, media="text/html")
    async def page(self, request: Request) -> Response:
        """Answer the dashboard's page."""
        dashboard = await _load()
        answer = _answer(request, dashboard.page, caching="no-cache")
        answer.headers["content-security-policy"] = _POLICY
        answer.headers["permissions-policy"] = _PERMISSIONS
        return answer

    @route("GET", "/dashboard", None, status=307)
    @route("GET", "/ui", None, status=307)
    async def lead_to_page(self, request: Request) -> Response:
        """Redirect to the dashboard's page."""
        # Relative, because a proxy may serve the broker below a path.
        return Response(status_code=307, headers={"location": "./"})

    @route("GET", "/dashboard/{version}/{path:name}", str, media="text/javascript")
    async def file(self, request: Request) -> Response:
        """Answer a file of the dashboard: a module, a style sheet or the icon."""
        dashboard = await _load()
        version, path = request.path_params["version"], request.path_params["path"]
        asset = dashboard.files.get(path) if version == dashboard.version else None
        if asset is None:
            raise NotFound(f"The dashboard has no file {path[:200]!r}. Reload the page.")
        answer = _answer(request, asset, caching=_FOR_GOOD)
        answer.headers["x-content-type-options"] = "nosniff"
        answer.headers["cross-origin-resource-policy"] = "same-origin"
        return answer


async def _load() -> Dashboard:
    # In a thread: the first call reads and compresses everything.
    if load_dashboard.cache_info().currsize:
        return load_dashboard()
    return await asyncio.to_thread(load_dashboard)


def _answer(request: Request, asset: Asset, *, caching: str) -> Response:
    """Answer the asset, compressed where the browser takes that, or 304 where it has it."""
    headers = {"etag": asset.etag, "cache-control": caching, "vary": "Accept-Encoding"}
    known = request.headers.get("if-none-match", "")
    if asset.etag in (one.strip().removeprefix("W/") for one in known.split(",")):
        return Response(status_code=304, headers=headers)
    exchange: Exchange = request.scope["exchange"]
    body = asset.body
    if exchange.head.accepts_gzip:
        body = asset.compressed
        headers["content-encoding"] = "gzip"
    return Response(body, headers=headers, media_type=asset.media)
