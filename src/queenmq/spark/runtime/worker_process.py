"""The Python processes in which Spark runs our tasks, one task after the other."""

from __future__ import annotations

import functools
import gc

from pyspark import TaskContext


def calm_garbage_collector() -> None:
    """To be called by every task: Spark collects garbage after each, and walks over all that was
    ever imported, which takes a quarter of the time that a task of ours has for itself. From the
    first one on, that is left alone."""
    if TaskContext.get() is not None:
        _freeze()


@functools.cache
def _freeze() -> None:
    gc.freeze()
