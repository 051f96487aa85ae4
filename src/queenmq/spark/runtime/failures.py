"""What Spark tells of a failure, in one sentence and as the kind of error that it is.

The kind decides the exit code of a job. Only what may go away by itself is StorageUnavailable.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from queenmq.errors import InvalidRequest, NotFound, QueenError, StorageUnavailable

#: Our own errors of tasks come as text.
_OURS = re.compile(r"^\s*(?:[\w.$]*Exception: )?queenmq\.[\w.]+: (.+)$", re.MULTILINE)
_OUR_KIND = re.compile(r"^\s*(?:[\w.$]*Exception: )?queenmq\.(?:[\w]+\.)*(\w+): .+$", re.MULTILINE)
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.MULTILINE)
_CLASS = re.compile(r"^(?:: )?[\w.$]+(?:Exception|Error): ")

_KINDS: dict[str, type[QueenError]] = {
    kind.__name__: kind for kind in (InvalidRequest, NotFound, StorageUnavailable)
}


@contextlib.contextmanager
def spark_failures(what: str, *, is_asked_for: bool = True) -> Iterator[None]:
    """Make one of our errors of a failure of Spark: `what`, and why.

    `is_asked_for` False: Spark works on files of ours, so what it misses nobody named.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except QueenError:
        raise
    except (PySparkException, Py4JError, OSError) as error:
        kind = _kind(error, is_asked_for=is_asked_for)
        raise kind(f"{what}: {reason(str(error))}") from error


def _kind(error: BaseException, *, is_asked_for: bool) -> type[QueenError]:
    """The kind of our error in the text, else that of Spark's own."""
    from pyspark.errors import AnalysisException, ParseException

    ours = _OUR_KIND.findall(str(error))
    if ours:
        return _KINDS.get(ours[-1], QueenError)
    if is_asked_for and isinstance(error, AnalysisException | ParseException):
        # What Spark could not make sense of was given on the command line.
        return InvalidRequest
    # Executors, disks and connections may be back.
    return StorageUnavailable


def reason(text: str) -> str:
    """The line of a long text that says why: ours, else the last cause, else the first line."""
    for pattern in (_OURS, _CAUSE):
        found = pattern.findall(text)
        if found:
            return str(found[-1]).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = next((line for line in lines if _CLASS.match(line)), lines[0] if lines else "no reason")
    return _CLASS.sub("", told)


def first_sentence(error: BaseException) -> str:
    """What an error of Spark says first, without its codes and plans; ours, if it is one."""
    ours = _OURS.findall(str(error))
    if ours:
        return str(ours[-1]).strip()
    text = str(error).strip().partition("\n")[0]
    text = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", text)
    return re.split(r"\s*SQLSTATE:|;\s*line \d+ pos", text)[0].rstrip(" .;")
