"""Owns what users' tests need: a broker of their own, started and gone without a trace.

`from queenmq.testing import queen_broker` in a `conftest.py` makes the pytest fixture of that name;
`running_broker` is the same for any other use. Never imported by production code. Needs the extra
`server`; pytest only for the fixture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queenmq.testing.broker import Broker, running_broker

if TYPE_CHECKING:
    from queenmq.testing.fixtures import queen_broker as queen_broker

__all__ = ["Broker", "queen_broker", "running_broker"]


def __getattr__(name: str) -> object:
    """Import pytest only when the fixture is used."""
    if name == "queen_broker":
        from queenmq.testing.fixtures import queen_broker

        return queen_broker
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
