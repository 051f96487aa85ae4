"""Calls about tokens, the audit log and the caller itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Unpack

from queenmq import wire
from queenmq.client.admin.caller import Caller
from queenmq.client.admin.queries import AuditQuery, TokenQuery
from queenmq.client.calls import quote_name


class AccessCalls(Caller):
    """Makes, lists and revokes tokens, and reads the audit log."""

    async def create_token(
        self,
        name: str,
        *,
        role: str = "read-only",
        queues: Sequence[str] | None = None,
        verbs: Sequence[str] | None = None,
        expires_in_days: int | None = None,
        subject: str | None = None,
    ) -> wire.NewToken:
        """Create an API token. Only this answer contains the `token`.

        Args:
            name: A name for people to tell tokens apart.
            role: `read-only`, `read-write` or `admin`.
            queues: Patterns of the queues that it is limited to.
            verbs: Those of `push`, `pop` and `admin` that it is limited to.
            expires_in_days: When it expires.
            subject: The producer of its messages; by default the name.
        """
        body = {
            "name": name,
            "role": role,
            "queues": queues,
            "verbs": verbs,
            "expiresInDays": expires_in_days,
            "subject": subject,
        }
        return await self._post(wire.NewToken, "/api/v1/tokens", body)

    async def list_tokens(self, **query: Unpack[TokenQuery]) -> wire.TokenList:
        """List API tokens, newest first.

        Args:
            query: `sessions`, `limit`, `offset`.
        """
        return await self._get(wire.TokenList, "/api/v1/tokens", query)

    async def revoke_token(self, token_id: str) -> wire.TokenRevoked:
        """Revoke a token at once.

        Args:
            token_id: Its id, as the list shows it.
        """
        return await self._delete(wire.TokenRevoked, f"/api/v1/tokens/{quote_name(token_id)}")

    async def get_audit(self, **query: Unpack[AuditQuery]) -> wire.AuditLog:
        """List administrative actions, newest first.

        Args:
            query: `who`, `action`, `from_`, `to`, `limit`, `offset`.
        """
        return await self._get(wire.AuditLog, "/api/v1/audit", query)

    async def get_me(self) -> wire.Me:
        """Return the identity and the rights of this client."""
        return await self._get(wire.Me, "/api/me")
