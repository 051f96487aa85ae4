"""Builds the pop path, and the leases that it hands back."""

from __future__ import annotations

from dataclasses import dataclass

from queenmq.engine.ack.leases import LeaseService
from queenmq.engine.pop.metrics import PopMetrics
from queenmq.engine.pop.service import PopService
from queenmq.engine.pop.subscriptions import Subscriptions
from queenmq.server.wiring.ground import Ground
from queenmq.server.wiring.limits import pop_limits


@dataclass(frozen=True, kw_only=True)
class Popping:
    """The pop path."""

    leases: LeaseService
    subscriptions: Subscriptions
    pop: PopService


def make_popping(ground: Ground) -> Popping:
    """Build it."""
    settings, pace = ground.settings, ground.paces.pop
    leases = LeaseService(
        ground.messages,
        lock_timeout_ms=settings.push_lock_timeout_ms,
        wait_ms=settings.push_wait_ms,
        registry=ground.registry,
    )
    pop = PopService(
        ground.messages,
        leases,
        ground.catalogue,
        PopMetrics(ground.registry, slots=pace.most, read_slots=lambda: pace.limit),
        pop_limits(settings),
        news=ground.news,
        pace=pace,
    )
    return Popping(leases=leases, subscriptions=Subscriptions(ground.messages), pop=pop)
