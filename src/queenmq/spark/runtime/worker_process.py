"""The Python processes in which Spark runs our tasks, one task after the other."""

from __future__ import annotations

import functools
import gc

from pyspark import TaskContext


def calm_garbage_collector() -> None:
    """Freeze imported objects. Spark collects garbage after each task and would visit all of them,
    which takes a quarter of the time of a small task.
    """
    if TaskContext.get() is not None:
        _freeze()


@functools.cache
def _freeze() -> None:
    gc.freeze()
