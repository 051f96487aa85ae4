"""Owns what every token may know about paused pushes and pops: the broker's public health."""

from __future__ import annotations

import msgspec

from queenmq import wire
from queenmq.cli.session import Session

_MAINTENANCE = "maintenance"


class Switches(msgspec.Struct, frozen=True, rename="camel"):
    """Both switches, and the pushes on the broker's disk. None: not known."""

    maintenance_mode: bool | None = None
    pop_maintenance_mode: bool | None = None
    buffered_messages: int | None = None


def read_maintenance(session: Session) -> wire.MaintenanceState | Switches:
    """Return all that administrators may know, and to others what is public."""
    state = session.read_if_allowed(session.queen.admin.get_maintenance_mode)
    return state if state is not None else read_switches(session)


def read_switches(session: Session) -> Switches:
    """Return what the health of the broker says, as far as it is well."""
    from queenmq.client.errors import ServerBusy

    try:
        health = session.queen.admin.health()
    except ServerBusy:
        return Switches()
    push, pop = health.capabilities["push"], health.capabilities["pop"]
    return Switches(
        # Another trouble hides the switch.
        push.reason == _MAINTENANCE if push.status == "stored" or push.reason else None,
        pop.reason == _MAINTENANCE if pop.status in ("served", "paused") else None,
        health.spool.pending,
    )
