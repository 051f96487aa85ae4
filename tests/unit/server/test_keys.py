"""Key sets behind a URL: fetched, kept when a fetch fails, and fetched again for a new key."""

from __future__ import annotations

import json
import threading
from collections.abc import Collection, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519

from queenmq.auth.identity import Kind, Role
from queenmq.server.auth import keys as keys_module
from queenmq.server.auth.credentials import Credential
from queenmq.server.auth.gate import Gate
from queenmq.server.auth.keys import KeySource


class Provider:
    """An identity provider that can change its keys and fail."""

    def __init__(self) -> None:
        self.keys: dict[str, Any] = {}
        self.status = 200
        self.fetches = 0
        self.moved_to: str | None = None
        provider = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                provider.fetches += 1
                self.send_response(provider.status)
                if provider.moved_to is not None:
                    self.send_header("Location", provider.moved_to)
                self.end_headers()
                self.wfile.write(provider.document())

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/jwks"

    def add(self, kid: str) -> None:
        self.keys[kid] = ed25519.Ed25519PrivateKey.generate()

    def document(self) -> bytes:
        to_jwk = jwt.get_algorithm_by_name("EdDSA").to_jwk
        listed = [
            {**to_jwk(key.public_key(), as_dict=True), "kid": kid} for kid, key in self.keys.items()
        ]
        return json.dumps({"keys": listed}).encode()

    def token(self, kid: str, key: Any = None) -> Credential:
        claims = {"sub": kid, "role": "admin", "exp": 4_000_000_000}
        return Credential(
            jwt.encode(claims, key or self.keys[kid], algorithm="EdDSA", headers={"kid": kid})
        )

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def provider() -> Iterator[Provider]:
    one = Provider()
    yield one
    one.close()


class NoTokens:
    async def find(self, token_hash: bytes) -> None:
        return None

    async def still_good(self, ids: Collection[str]) -> set[str]:
        return set()

    async def note_use(self, ids: Collection[str]) -> None:
        """Note nothing."""


def _gate(provider: Provider) -> Gate:
    source = KeySource((), url=provider.url, algorithms=["EdDSA"])
    return Gate(NoTokens(), is_on=True, keys=source)


async def test_keys_are_fetched_once_and_again_when_they_rotate(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(keys_module, "now_ms", lambda: now[0])
    provider.add("old")
    gate = _gate(provider)
    for _ in range(3):
        assert (await gate.identify_credential(provider.token("old"))).role is Role.ADMIN
    assert provider.fetches == 1
    old = provider.token("old")
    provider.add("new")
    # A flood of unknown keys must not become a flood of fetches.
    for _ in range(5):
        assert (await gate.identify_credential(provider.token("new"))).kind is Kind.STRANGER
    assert provider.fetches == 1
    now[0] = 11_000.0
    assert (await gate.identify_credential(provider.token("new"))).role is Role.ADMIN
    assert provider.fetches == 2
    del provider.keys["old"]
    now[0] = 4_000_000.0
    assert (await gate.identify_credential(old)).kind is Kind.STRANGER
    assert provider.fetches == 3


async def test_a_provider_that_fails_leaves_the_keys_as_they_are(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr(keys_module, "now_ms", lambda: now[0])
    provider.add("key")
    gate = _gate(provider)
    assert (await gate.identify_credential(provider.token("key"))).role is Role.ADMIN
    for status, document in ((500, None), (200, b"nonsense"), (200, b"[]"), (200, b"{}")):
        now[0] += 4_000_000.0
        provider.status = status
        if document is not None:
            answer = document
            monkeypatch.setattr(provider, "document", lambda answer=answer: answer)
        assert (await gate.identify_credential(provider.token("key"))).role is Role.ADMIN


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_is_not_followed(
    provider: Provider, caplog: pytest.LogCaptureFixture, status: int
) -> None:
    other = Provider()
    try:
        other.add("key")
        provider.status, provider.moved_to = status, f"{other.url}?secret=planted"
        assert (await _gate(provider).identify_credential(other.token("key"))).kind is Kind.STRANGER
    finally:
        other.close()
    assert (provider.fetches, other.fetches) == (1, 0)
    (record,) = [one for one in caplog.records if getattr(one, "event", "") == "jwks_failed"]
    reason = record.__dict__["reason"]
    assert f"{status}" in reason and "configure the final address" in reason
    assert "planted" not in reason


async def test_a_key_of_the_same_name_by_somebody_else_is_refused(provider: Provider) -> None:
    provider.add("key")
    forged = provider.token("key", ed25519.Ed25519PrivateKey.generate())
    assert (await _gate(provider).identify_credential(forged)).kind is Kind.STRANGER
