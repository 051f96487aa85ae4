"""Recognises the caller of every request.

A credential is verified once and remembered by its bytes until it expires, so nearly every request
costs one dictionary look-up. API tokens and sessions can be revoked, so once a second the gate asks
the database which of the remembered ones are still valid.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from queenmq.auth.claims import ClaimNames, read_claims
from queenmq.auth.decision import REQUIRED
from queenmq.auth.forwarding import ForwardRules, is_secure, read_user
from queenmq.auth.identity import ANONYMOUS, VISITOR, Identity, Kind, stranger
from queenmq.auth.jwt_rules import JwtRules, UnknownKey
from queenmq.auth.rights import RIGHTS
from queenmq.auth.tokens import StoredToken, csrf_of, hash_token, kind_of, read_stored
from queenmq.clock import now_ms, unix_ms
from queenmq.errors import Unauthenticated
from queenmq.server.auth.credentials import Credential, find_session, find_token
from queenmq.server.auth.keys import KeySource
from queenmq.server.edge.head import Head

#: Remembered credentials; about 1 KB each.
_KNOWN_MAX = 10_000
#: An unknown API token is not queried again before this time, so that guessing is cheap for us.
_UNKNOWN_MS = 2_000
_UNKNOWN_MAX = 10_000
#: Concurrent queries. A flood of wrong tokens must not take all database connections.
_LOOK_UPS_MAX = 4
#: How often the last use of a token is stored.
_NOTE_MS = 60_000
_UNKNOWN_TOKEN = "The token is unknown, revoked or expired. Get a new one."  # noqa: S105 - words
_PUBLIC = frozenset(
    key.partition(" ")[2].encode() for key, right in RIGHTS.items() if right.role is None
)


class TokenSource(Protocol):
    """The store of tokens."""

    async def find(self, token_hash: bytes) -> StoredToken | None: ...

    async def still_good(self, ids: Collection[str]) -> set[str]: ...

    async def note_use(self, ids: Collection[str]) -> None: ...


@dataclass(slots=True)
class _Known:
    """A remembered caller, and whether it was active since its use was last stored."""

    identity: Identity
    is_used: bool = True


class Gate:
    """Turns credentials into identities. If it is off, every caller is an administrator."""

    def __init__(
        self,
        tokens: TokenSource,
        *,
        is_on: bool,
        keys: KeySource | None = None,
        rules: JwtRules | None = None,
        names: ClaimNames | None = None,
        forward: ForwardRules | None = None,
        open_paths: frozenset[bytes] = frozenset(),
        is_tls: bool = False,
    ) -> None:
        self.is_on = is_on
        self.forward = forward or ForwardRules()
        self._tokens = tokens
        self._keys = keys or KeySource(())
        self._rules = rules or JwtRules()
        self._names = names or ClaimNames()
        self._open_paths = open_paths
        self._is_tls = is_tls
        self._known: dict[Credential, _Known] = {}
        self._unknown: dict[bytes, float] = {}
        self._noted: dict[str, float] = {}
        self._look_ups = asyncio.Semaphore(_LOOK_UPS_MAX)
        if is_on:
            # Loaded now, so that no request waits for it.
            importlib.import_module("queenmq.auth.jwt_check")

    def is_https(self, head: Head, address: str) -> bool:
        """Return whether the client uses https: with this broker, or with a trusted proxy."""
        return self._is_tls or is_secure(self.forward, head.headers, address)

    def find_credential(self, head: Head, address: str) -> Credential | None:
        """Return the credential of a request, if it has one."""
        return find_token(head) or find_session(head, is_https=self.is_https(head, address))

    def recall(self, head: Head, address: str) -> Identity | None:
        """Return the caller if that takes no I/O. None means: call `identify`."""
        if not self.is_on:
            return ANONYMOUS
        if head.path in self._open_paths:
            return VISITOR
        credential = self.find_credential(head, address)
        if credential is None or (credential.is_cookie and self._is_dead(credential)):
            return read_user(self.forward, head.headers, address) or stranger(REQUIRED)
        known = self._known.get(credential)
        if known is not None:
            if known.identity.expires_s > unix_ms() / 1000:
                known.is_used = True
                return known.identity
            del self._known[credential]
        # A health probe must not wait for the database, whatever token it has.
        return stranger(REQUIRED) if head.path in _PUBLIC else None

    async def identify(self, head: Head, address: str) -> Identity:
        """Return the caller of a request whose credential is new.

        A browser sends its cookie until that expires, even if the session ended long before. So an
        invalid cookie counts as none: a trusted proxy names the user without it.
        """
        credential = self.find_credential(head, address)
        assert credential is not None
        identity = await self.identify_credential(credential)
        if identity.kind is Kind.STRANGER and credential.is_cookie:
            return read_user(self.forward, head.headers, address) or identity
        return identity

    def _is_dead(self, credential: Credential) -> bool:
        """Return whether the token was queried a moment ago and does not exist."""
        if not self._unknown or kind_of(credential.token) is None:
            return False
        looked_ms = self._unknown.get(hash_token(credential.token), float("-inf"))
        return looked_ms > now_ms() - _UNKNOWN_MS

    async def identify_credential(self, credential: Credential) -> Identity:
        """Return the identity of a credential, or a stranger if it is invalid."""
        try:
            identity = await self._verify(credential)
        except Unauthenticated as error:
            return stranger(str(error))
        if (other := self._known.get(credential)) is not None:
            # Another request was first. Each credential has one identity, which can be revoked.
            return other.identity
        if len(self._known) >= _KNOWN_MAX:
            # Drop the oldest entry. If it is still in use, it is verified again.
            del self._known[next(iter(self._known))]
        self._known[credential] = _Known(identity)
        return identity

    async def _verify(self, credential: Credential) -> Identity:
        token, kind = credential.token, kind_of(credential.token)
        if credential.is_cookie != (kind is Kind.SESSION):
            # Browsers send a session as a cookie, and nothing else as one.
            raise Unauthenticated(_UNKNOWN_TOKEN)
        if kind is not None:
            return await self._find(token)
        from queenmq.auth.jwt_check import verify

        await self._keys.renew_if_old()
        now_s = unix_ms() / 1000
        try:
            claims, expires_s = verify(token, self._keys.keys, self._rules, now_s=now_s)
        except UnknownKey:
            if not await self._keys.renew_for_unknown():
                raise
            claims, expires_s = verify(token, self._keys.keys, self._rules, now_s=now_s)
        return read_claims(claims, self._names, expires_s=expires_s)

    async def _find(self, token: str) -> Identity:
        token_hash = hash_token(token)
        if self._unknown.get(token_hash, float("-inf")) > now_ms() - _UNKNOWN_MS:
            raise Unauthenticated(_UNKNOWN_TOKEN)
        async with self._look_ups:
            stored = await self._tokens.find(token_hash)
        if stored is None:
            if len(self._unknown) >= _UNKNOWN_MAX:
                self._unknown.clear()
            self._unknown[token_hash] = now_ms()
            raise Unauthenticated(_UNKNOWN_TOKEN)
        return read_stored(
            stored, csrf=csrf_of(token) if stored.kind == Kind.SESSION.value else None
        )

    async def refresh(self) -> None:
        """Forget tokens that were revoked, and store which ones were used."""
        ids = {
            one.identity.token_id
            for one in self._known.values()
            if one.identity.token_id is not None
        }
        if not ids:
            return
        for token_id in ids - await self._tokens.still_good(ids):
            self.forget(token_id)
        await self._note_use()

    async def _note_use(self) -> None:
        now = now_ms()
        used = []
        for one in self._known.values():
            token_id = one.identity.token_id
            if token_id is None or not one.is_used:
                continue
            if now - self._noted.get(token_id, float("-inf")) >= _NOTE_MS:
                one.is_used = False
                used.append(token_id)
        if used:
            await self._tokens.note_use(used)
            known = {one.identity.token_id for one in self._known.values()}
            self._noted = {key: ms for key, ms in self._noted.items() if key in known}
            self._noted.update(dict.fromkeys(used, now))

    def forget(self, token_id: str) -> None:
        """Forget a revoked token, and end its waiting requests."""
        for credential, one in list(self._known.items()):
            if one.identity.token_id == token_id:
                one.identity.revoke()
                del self._known[credential]
