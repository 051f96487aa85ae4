"""Requests and answers about access itself: API tokens, sessions, the audit log."""

from __future__ import annotations

from typing import Any

from queenmq.wire.shape import Answer, Pagination, Request


class TokenRequest(Request):
    """A token to create. Without queues or verbs, only the role limits it."""

    name: str
    role: str = "read-only"
    queues: list[str] | None = None
    verbs: list[str] | None = None
    subject: str | None = None
    expires_in_days: int | None = None


class Token(Answer):
    """A token as lists show it: all but its secret."""

    id: str
    kind: str
    name: str
    shown: str
    subject: str | None
    role: str
    queues: list[str] | None
    verbs: list[str] | None
    state: str
    created_at: str | None
    created_by: str | None
    expires_at: str | None
    last_used_at: str | None
    revoked_at: str | None


class NewToken(Token, kw_only=True):
    """A new token, with its secret."""

    token: str


class TokenList(Answer):
    """A page of tokens, newest first."""

    tokens: list[Token]
    pagination: Pagination


class TokenRevoked(Answer):
    """A token that is no longer accepted."""

    revoked: bool
    id: str
    name: str


class LoginRequest(Request):
    """A token to log in with. The Authorization header may carry it instead."""

    token: str | None = None


class Me(Answer):
    """The caller and its rights."""

    subject: str | None
    kind: str
    role: str | None
    queues: list[str] | None
    verbs: list[str] | None
    expires_at: str | None
    csrf_token: str | None


class LoggedOut(Answer):
    """The session has ended."""

    success: bool


class AuditEntry(Answer):
    """One administrative action."""

    id: int
    at: str | None
    who: str | None
    how: str
    role: str | None
    action: str
    target: str | None
    details: Any
    address: str | None
    status: int


class AuditLog(Answer):
    """A page of actions, newest first."""

    entries: list[AuditEntry]
    pagination: Pagination
