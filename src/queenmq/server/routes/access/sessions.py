"""Logging in with a browser: a token becomes a session cookie.

The cookie is HttpOnly and SameSite=Strict, and over https Secure and bound to the host. Requests
that change something need the X-Queen-CSRF header as well, whose value the login and GET /api/me
give to pages of this site.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.auth.decision import REQUIRED
from queenmq.auth.identity import ANONYMOUS, Identity, Kind
from queenmq.auth.tokens import SHOWN, csrf_of, hash_token, make_token
from queenmq.clock import utc_now
from queenmq.errors import Forbidden, Unauthenticated
from queenmq.ids import parse_uuid
from queenmq.server.answers.responses import json_answer, read_request
from queenmq.server.auth.callers import identity_of
from queenmq.server.auth.credentials import Credential, cookie_name
from queenmq.server.auth.gate import Gate
from queenmq.server.edge.exchange import Exchange
from queenmq.server.requests.times import iso_or_none
from queenmq.server.routing.spec import route
from queenmq.storage.stores.access.tokens import NewToken, TokenStore

#: The end of the year 9999, the last that a time can show.
_LAST_S = 253_402_300_799


class SessionRoutes:
    """Sessions are rows beside the API tokens, so every broker knows them and they can be ended."""

    def __init__(self, store: TokenStore, gate: Gate, *, session_s: int) -> None:
        self._store = store
        self._gate = gate
        self._session_s = session_s

    @route("POST", "/api/login", wire.Me, request=wire.LoginRequest, needs_body=False)
    async def login(self, request: Request) -> Response:
        """Exchange a token for a session cookie."""
        if not self._gate.is_on:
            return json_answer(_me(ANONYMOUS, None))
        identity = await self._identify(request)
        expires_at = _end(identity, utc_now() + timedelta(seconds=self._session_s))
        secret = make_token(Kind.SESSION)
        assert identity.role is not None
        grants = identity.grants
        await self._store.create(
            NewToken(
                kind=Kind.SESSION.value,
                name=f"session of {identity.subject or 'a token without a subject'}",
                token_hash=hash_token(secret),
                shown=secret[:SHOWN],
                subject=identity.subject,
                role=identity.role.label,
                queues=None if grants.queues is None else grants.queues.texts,
                verbs=None if grants.verbs is None else [verb.value for verb in grants.verbs],
                created_by=identity.subject,
                expires_at=expires_at,
                parent_id=_uuid(identity.token_id),
            )
        )
        # The audit log names who logged in.
        exchange: Exchange = request.scope["exchange"]
        exchange.identity = identity
        answer = json_answer(_me(identity, csrf_of(secret)))
        seconds = int((expires_at - utc_now()).total_seconds())
        answer.headers["set-cookie"] = self._cookie(request, secret, max(seconds, 0))
        return answer

    @route("POST", "/api/logout", wire.LoggedOut)
    async def logout(self, request: Request) -> Response:
        """End the session."""
        identity = identity_of(request)
        token_id = _uuid(identity.token_id)
        if identity.kind is Kind.SESSION and token_id is not None:
            await self._store.revoke(token_id)
            self._gate.forget(str(token_id))
        answer = json_answer(wire.LoggedOut(True))
        answer.headers["set-cookie"] = self._cookie(request, "", 0)
        return answer

    @route("GET", "/api/me", wire.Me)
    async def me(self, request: Request) -> Response:
        """Say who the caller is and what they may do."""
        identity = identity_of(request)
        return json_answer(_me(identity, identity.csrf))

    async def _identify(self, request: Request) -> Identity:
        body = await read_request(request, wire.LoginRequest, default=wire.LoginRequest())
        exchange: Exchange = request.scope["exchange"]
        credential = Credential(body.token) if body.token else self._find(exchange)
        if credential is None or credential.is_cookie:
            raise Unauthenticated(f"{REQUIRED}: send a token to log in with")
        identity = await self._gate.identify_credential(credential)
        if identity.kind is Kind.STRANGER:
            raise Unauthenticated(identity.reason)
        if identity.role is None:
            raise Forbidden("Insufficient permissions: the token names no role.")
        return identity

    def _find(self, exchange: Exchange) -> Credential | None:
        return self._gate.find_credential(exchange.head, exchange.address)

    def _cookie(self, request: Request, value: str, seconds: int) -> str:
        exchange: Exchange = request.scope["exchange"]
        is_https = self._gate.is_https(exchange.head, exchange.address)
        name, secure = cookie_name(is_https=is_https), "; Secure" if is_https else ""
        return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


def _end(identity: Identity, latest: datetime) -> datetime:
    """Return when a session ends: not after the token it was obtained with."""
    if identity.expires_s >= latest.timestamp():
        return latest
    return datetime.fromtimestamp(identity.expires_s, UTC)


def _uuid(text: str | None) -> UUID | None:
    return None if text is None else parse_uuid(text)


def _me(identity: Identity, csrf: str | None) -> wire.Me:
    grants = identity.grants
    end = identity.expires_s
    return wire.Me(
        subject=identity.subject,
        kind=identity.kind.value,
        role=None if identity.role is None else identity.role.label,
        queues=None if grants.queues is None else list(grants.queues.texts),
        verbs=None if grants.verbs is None else sorted(verb.value for verb in grants.verbs),
        expires_at=None
        if end == float("inf")
        else iso_or_none(datetime.fromtimestamp(min(end, _LAST_S), UTC)),
        csrf_token=csrf,
    )
