"""API tokens: create, list, revoke."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from queenmq import wire
from queenmq.auth.identity import ROLES, Identity, Kind, Verb
from queenmq.auth.patterns import check_patterns
from queenmq.auth.tokens import SHOWN, hash_token, make_token
from queenmq.clock import utc_now
from queenmq.errors import Forbidden, InvalidRequest, NotFound
from queenmq.server.answers.responses import json_answer, read_request
from queenmq.server.auth.callers import identity_of
from queenmq.server.auth.gate import Gate
from queenmq.server.requests.checks import check_name, check_text, check_uuid, quote
from queenmq.server.requests.pages import PAGE, parse_page
from queenmq.server.requests.queries import parse_boolean, parse_query
from queenmq.server.requests.times import iso_or_none
from queenmq.server.routing.spec import route
from queenmq.storage.stores.access.tokens import NewToken as TokenRow
from queenmq.storage.stores.access.tokens import TokenStore

_NAME_MAX = 255
_DAYS_MAX = 36_500


class TokenRoutes:
    """The secret of a token is in the answer to its creation and nowhere else."""

    def __init__(self, store: TokenStore, gate: Gate) -> None:
        self._store = store
        self._gate = gate

    @route("POST", "/api/v1/tokens", wire.NewToken, status=201, request=wire.TokenRequest)
    async def create(self, request: Request) -> Response:
        """Make a token and show it once."""
        body = await read_request(request, wire.TokenRequest)
        identity = identity_of(request)
        check_verbs_given(identity, body.verbs)
        secret = make_token(Kind.TOKEN)
        row = await self._store.create(make_row(body, secret, identity.subject))
        return json_answer(new_token_of(row, secret), 201)

    @route("GET", "/api/v1/tokens", wire.TokenList, query={"sessions": bool, **PAGE})
    async def list(self, request: Request) -> Response:
        """Return a page of tokens, newest first."""
        query = parse_query(request.scope["query_string"])
        page = parse_page(query)
        rows = await self._store.list(
            has_sessions=parse_boolean(query, "sessions"), limit=page.limit, offset=page.offset
        )
        return json_answer(wire.TokenList([token_of(row) for row in rows], page))

    @route("DELETE", "/api/v1/tokens/{token_id}", wire.TokenRevoked)
    async def revoke(self, request: Request) -> Response:
        """End a token. Other brokers notice within about a second."""
        token_id = check_uuid("tokenId", request.path_params["token_id"])
        name = await self._store.revoke(token_id)
        if name is None:
            raise NotFound(f"token {token_id} does not exist; see the list of tokens")
        self._gate.forget(str(token_id))
        return json_answer(wire.TokenRevoked(True, str(token_id), name))


def check_verbs_given(identity: Identity, verbs: Sequence[str] | None) -> None:
    """Raise Forbidden when a caller would give away verbs that it does not have itself."""
    own = identity.grants.verbs
    if own is None:
        return
    words = {verb.value for verb in own}
    if verbs is None or not set(verbs) <= words:
        raise Forbidden(
            f"Insufficient permissions: your own verbs are {', '.join(sorted(words))};"
            " name some of these as verbs of the new token."
        )


def make_row(body: wire.TokenRequest, secret: str, created_by: str | None) -> TokenRow:
    """Return the row of a new token, every value checked."""
    if body.role not in ROLES:
        raise InvalidRequest(f"role {quote(body.role)} is unknown; use one of {', '.join(ROLES)}")
    words = [verb.value for verb in Verb]
    for verb in body.verbs or ():
        if verb not in words:
            raise InvalidRequest(f"verb {quote(verb)} is unknown; use some of {', '.join(words)}")
    if body.verbs is not None and not body.verbs:
        raise InvalidRequest("verbs is empty; name at least one, or leave it out")
    try:
        queues = None if body.queues is None else check_patterns(body.queues).texts
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    days = body.expires_in_days
    if days is not None and not 0 < days <= _DAYS_MAX:
        raise InvalidRequest(f"expiresInDays {days} is out of range; use 1 to {_DAYS_MAX}")
    name = check_name("name", body.name, length_max=_NAME_MAX)
    subject = check_text("subject", body.subject) or name
    check_name("subject", subject, length_max=_NAME_MAX)
    return TokenRow(
        kind=Kind.TOKEN.value,
        name=name,
        token_hash=hash_token(secret),
        shown=secret[:SHOWN],
        subject=subject,
        role=body.role,
        queues=queues,
        verbs=body.verbs,
        created_by=created_by,
        expires_at=None if days is None else utc_now() + timedelta(days=days),
    )


def new_token_of(row: Mapping[str, Any], secret: str) -> wire.NewToken:
    """Return a token with its secret, for the one answer that shows it."""
    return wire.NewToken(**_fields_of(row), token=secret)


def token_of(row: Mapping[str, Any]) -> wire.Token:
    """Return a token as answers show it."""
    return wire.Token(**_fields_of(row))


def _fields_of(row: Mapping[str, Any]) -> dict[str, Any]:
    is_over = row["expires_at"] is not None and row["expires_at"] <= utc_now()
    state = "revoked" if row["revoked_at"] is not None else "expired" if is_over else "active"
    names = ("kind", "name", "shown", "subject", "role", "queues", "verbs", "created_by")
    times = ("created_at", "expires_at", "last_used_at", "revoked_at")
    return {
        "id": str(row["id"]),
        "state": state,
        **{name: row[name] for name in names},
        **{name: iso_or_none(row[name]) for name in times},
    }
