"""What an experiment is: a comparison whose result is a ratio or a bound, told against a target.

A module of `experiments/` has a line `ABOUT` and a coroutine `run(context)` that returns rows. All
that one experiment compares is measured on one database in one run, the sides taking turns, because
the machine may be busy with other things: a ratio of neighbours in time stays true when both sides
slow down together.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from benchmarks import experiments
from benchmarks.broker import Broker, running_broker
from benchmarks.database import BenchDatabase


@dataclass(frozen=True, kw_only=True)
class Row:
    """One line of the table. Without a target it is there for understanding the others."""

    what: str
    shape: str
    measured: str
    target: str = ""
    is_reached: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Context:
    """What an experiment is run with."""

    name: str
    #: How often each side has its turn.
    rounds: int
    #: Broker processes.
    workers: int

    def say(self, text: str) -> None:
        """Tell whoever waits how far it is."""
        print(f"{self.name}: {text}", flush=True)

    def broker(self, database: BenchDatabase, **settings: str) -> AbstractContextManager[Broker]:
        """A broker on a database of the experiment's own; settings as QUEEN_NAME="value"."""
        return running_broker(workers=self.workers, database=database, settings=settings)


class Module(Protocol):
    """What a module of `experiments/` has."""

    ABOUT: str

    async def run(self, context: Context) -> list[Row]: ...


@dataclass(frozen=True, kw_only=True)
class Findings:
    """One experiment as it went."""

    name: str
    about: str
    rows: Sequence[Row] = field(default_factory=list)
    #: Why there are no rows.
    error: str = ""


def names() -> list[str]:
    """All experiments, by name."""
    modules = pkgutil.iter_modules(experiments.__path__)
    return sorted(module.name.replace("_", "-") for module in modules)


def load(name: str) -> Module:
    """The experiment of that name."""
    return importlib.import_module(f"{experiments.__name__}.{name.replace('-', '_')}")
