"""The keys that verify JWTs: configured ones, and those of a key set at a URL."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
import urllib.request
from collections.abc import Sequence
from typing import Any

from queenmq.auth.jwt_rules import Key
from queenmq.clock import now_ms
from queenmq.server.redirects import RefuseRedirects

logger = logging.getLogger(__name__)

#: A token with an unknown key triggers a new fetch of the key set, at most this often.
_PAUSE_MS = 10_000
_DOCUMENT_BYTES_MAX = 1024 * 1024


class KeySource:
    """Configured keys and a fetched key set. A failed fetch leaves the keys unchanged."""

    def __init__(
        self,
        fixed: Sequence[Key],
        *,
        url: str | None = None,
        algorithms: Sequence[str] = (),
        timeout_s: float = 5.0,
        refresh_s: float = 3_600.0,
    ) -> None:
        self._fixed = list(fixed)
        self._url = url
        self._algorithms = algorithms
        self._timeout_s = timeout_s
        self._refresh_ms = refresh_s * 1000
        self._fetched: list[Key] = []
        self._fetched_ms = float("-inf")
        self._lock = asyncio.Lock()

    @property
    def keys(self) -> list[Key]:
        """Return all keys."""
        return self._fixed + self._fetched

    async def renew_if_old(self) -> None:
        """Fetch the key set if it is too old."""
        if self._url is not None and now_ms() - self._fetched_ms >= self._refresh_ms:
            await self._fetch(now_ms())

    async def renew_for_unknown(self) -> bool:
        """Fetch the key set because a token names a key that it lacks. Return whether it did."""
        asked = now_ms()
        if self._url is None or asked - self._fetched_ms < _PAUSE_MS:
            return False
        await self._fetch(asked)
        return True

    async def _fetch(self, asked_ms: float) -> None:
        async with self._lock:
            if self._fetched_ms >= asked_ms:
                # Another request has fetched it meanwhile.
                return
            from queenmq.auth.jwt_check import read_key_set

            assert self._url is not None
            loop = asyncio.get_running_loop()
            try:
                document = await loop.run_in_executor(
                    None, _read_document, self._url, self._timeout_s
                )
                self._fetched = read_key_set(document, self._algorithms)
            except (OSError, ValueError, http.client.HTTPException) as error:
                facts = {"event": "jwks_failed", "reason": str(error)}
                logger.warning("Could not fetch the key set of jwt_jwks_url.", extra=facts)
            finally:
                self._fetched_ms = now_ms()


def _read_document(url: str, timeout_s: float) -> dict[str, Any]:
    # The settings allow only http and https.
    request = urllib.request.Request(url, headers={"Accept": "application/json"})  # noqa: S310
    opener = urllib.request.build_opener(RefuseRedirects)
    with opener.open(request, timeout=timeout_s) as answer:
        content = answer.read(_DOCUMENT_BYTES_MAX + 1)
    if len(content) > _DOCUMENT_BYTES_MAX:
        raise ValueError(f"the document has more than {_DOCUMENT_BYTES_MAX} bytes")
    document = json.loads(content)
    if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
        raise ValueError("the document has no list of keys")
    return document
