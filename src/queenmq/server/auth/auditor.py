"""Records what administrators do, in the database and in the log."""

from __future__ import annotations

import logging
from typing import Protocol
from urllib.parse import unquote

from queenmq.auth.forwarding import client_address
from queenmq.auth.rights import Right
from queenmq.clock import now_ms
from queenmq.errors import QueenError
from queenmq.server.auth.gate import Gate
from queenmq.server.edge.exchange import Exchange
from queenmq.storage.stores.access.audit import AuditEntry

logger = logging.getLogger(__name__)

#: Time between two lines about refused attempts.
_PAUSE_MS = 1_000
_TARGET_MAX = 1_000
_DETAILS_MAX = 2_000


class Log(Protocol):
    """The store of entries."""

    async def add(self, entry: AuditEntry) -> None: ...


class Auditor:
    """Records entries. An entry that cannot be stored is still in the log."""

    def __init__(self, store: Log, gate: Gate) -> None:
        self._store = store
        self._gate = gate
        self._refused_ms = float("-inf")
        self._unlogged = 0

    async def note(self, exchange: Exchange, right: Right, status: int) -> None:
        """Record an action and its outcome."""
        entry = self._entry(exchange, right, status)
        facts = {"event": "audit", **entry._asdict()}
        logger.info("audit", extra=facts)
        try:
            await self._store.add(entry)
        except QueenError as error:
            facts = {"event": "audit_failed", "reason": str(error)}
            logger.warning("Could not store an entry of the audit log.", extra=facts)

    def log_refusal(self, exchange: Exchange, right: Right, status: int) -> None:
        """Log a refused attempt, at most one line a second. The table only has actions."""
        self._unlogged += 1
        if now_ms() - self._refused_ms < _PAUSE_MS:
            return
        self._refused_ms = now_ms()
        count, self._unlogged = self._unlogged, 0
        entry = self._entry(exchange, right, status)._replace(details=None)
        facts = {"event": "audit_refused", "count": count, **entry._asdict()}
        logger.warning("refused", extra=facts)

    def _entry(self, exchange: Exchange, right: Right, status: int) -> AuditEntry:
        identity, head = exchange.identity, exchange.head
        target = unquote(head.path.decode("latin-1"))
        if head.query:
            target += "?" + head.query.decode("latin-1")
        details = None
        if right.is_body_logged and exchange.body:
            details = _text(
                exchange.body[: _DETAILS_MAX * 4].decode(errors="replace"), _DETAILS_MAX
            )
        return AuditEntry(
            identity.subject,
            identity.kind.value,
            None if identity.role is None else identity.role.label,
            right.action or "",
            _text(target, _TARGET_MAX),
            details,
            client_address(self._gate.forward, head.headers, exchange.address),
            status,
        )


def _text(value: str, length_max: int) -> str:
    """Return the text without characters that a column cannot store."""
    return value.replace("\x00", "\\0")[:length_max]
