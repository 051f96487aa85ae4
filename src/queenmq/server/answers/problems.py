"""Lists the problems of a broker that still serves. Pure.

/health is public, so the sentences contain no names. The log has them.
"""

from __future__ import annotations

from collections.abc import Sequence

from queenmq.engine.lifecycle import Health, ServiceStatus
from queenmq.storage.spool import SpoolStats


def find_problems(
    codes: Sequence[str],
    spool: SpoolStats,
    services: Sequence[ServiceStatus],
    *,
    undecided: int,
) -> list[str]:
    """Return sentences about problems for a person. `codes` are the SQLSTATEs of faults."""
    problems = []
    if codes:
        problems.append(
            f"the database has a fault (SQLSTATE {', '.join(codes)});"
            " the server log says what to fix"
        )
    if spool.is_stuck:
        problems.append(
            f"{spool.pending_records} push requests of an outage wait on disk until the"
            " database is fixed; new pushes get 503"
        )
    if spool.aside_records:
        problems.append(
            f"{spool.aside_records} push requests are set aside on this broker;"
            " see queen ops aside, then run queen ops retry --all"
        )
    if undecided:
        problems.append(
            f"{undecided} operations have failed; see queen ops list --status failed,"
            " then run queen ops retry --all"
        )
    for name, health in services:
        if health is Health.DEAD:
            problems.append(
                f"the background service {name} has ended; restart the broker, and see the server"
                " log for the reason"
            )
        elif health is Health.FAILING:
            problems.append(
                f"the background service {name} fails for an unexpected reason and retries;"
                " the server log has it"
            )
    return problems
