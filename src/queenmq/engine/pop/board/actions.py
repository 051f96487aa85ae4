"""The actions of the board. The shells around it carry them out and report back as events."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from queenmq.engine.pop.board.decision import Assignment
from queenmq.engine.pop.board.look_up import LookUp
from queenmq.engine.pop.board.pool import Pool
from queenmq.engine.pop.intention import Intention, PopAnswer
from queenmq.engine.requests import PartitionKey, PopGrant
from queenmq.errors import QueenError


class Answer(NamedTuple):
    """Answer a pop. Each pop whose caller is still there gets exactly one answer."""

    intention: Intention
    result: PopAnswer | QueenError


class Lease(NamedTuple):
    """Lease and fetch for these pops in one call. Ends in `leased` or `lease_failed`."""

    assignments: list[Assignment]


class Fetch(NamedTuple):
    """Read a batch that is too large to share a call. Ends in `fetched` or `fetch_failed`.

    The pool belongs to the board. Readers hand it back untouched.
    """

    intention: Intention
    pool: Pool
    granted: list[PopGrant]
    leased: list[PopGrant]


class HandBack(NamedTuple):
    """End leases that no pop waits for. Ends in `handed_back` on success."""

    pool: Pool
    grants: Sequence[PopGrant]


class StartLookUp(NamedTuple):
    """Ask the questions of a look-up. Ends in `looked_up` or `look_up_failed`."""

    look_up: LookUp


class Forget(NamedTuple):
    """Forget the id of a partition, which may have been deleted."""

    key: PartitionKey


class Announce(NamedTuple):
    """Tell other brokers that leases of a queue have ended; `*` stands for all queues."""

    queue: str


class WakeAt(NamedTuple):
    """Report `due` no later than this time."""

    at_ms: float


Action = Answer | Lease | Fetch | HandBack | StartLookUp | Forget | Announce | WakeAt
