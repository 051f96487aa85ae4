"""How many cores a side of an experiment may use: itself, its children, and the database."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection
from pathlib import Path

from benchmarks.broker import BenchmarkError, server_processes


def some_cores(count: int) -> frozenset[int]:
    """So many of the cores that this process may use."""
    usable = sorted(os.sched_getaffinity(0))
    if count > len(usable):
        raise BenchmarkError(f"this machine has {len(usable)} cores to measure on, not {count}")
    return frozenset(usable[:count])


def stay_on(cores: Collection[int]) -> Callable[[], None]:
    """For a process that is about to start; its children and threads stay there as well."""
    return lambda: os.sched_setaffinity(0, cores)


def move_server(data_dir: Path, cores: Collection[int]) -> None:
    """Have a PostgreSQL server use these cores: those who connect from now on, too."""
    for pid in server_processes(data_dir):
        # One that has ended meanwhile is of no matter.
        with contextlib.suppress(ProcessLookupError):
            os.sched_setaffinity(pid, cores)
