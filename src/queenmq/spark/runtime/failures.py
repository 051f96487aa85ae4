"""Turns a failure of Spark into one sentence and the right kind of error.

The kind decides the exit code of a job. Only failures that may pass by themselves are
StorageUnavailable.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from queenmq.errors import InvalidRequest, NotFound, QueenError, StorageUnavailable
from queenmq.spark.lake.stores.urls import STORES

#: Our own errors of tasks come as text.
_OURS = re.compile(r"^\s*(?:[\w.$]*Exception: )?queenmq\.[\w.]+: (.+)$", re.MULTILINE)
_OUR_KIND = re.compile(r"^\s*(?:[\w.$]*Exception: )?queenmq\.(?:[\w]+\.)*(\w+): .+$", re.MULTILINE)
_CAUSE = re.compile(r"^Caused by: [\w.$]+: (.+)$", re.MULTILINE)
_CLASS = re.compile(r"^(?:: )?[\w.$]+(?:Exception|Error): ")

#: What Hadoop says where the code of a file system is missing.
_NO_CLASS = re.compile(r"Class (org\.apache\.hadoop\.fs\.[\w.]+) not found")
_NO_SCHEME = re.compile(r'No FileSystem for scheme "?(\w+)')
_SCHEMES = {
    "org.apache.hadoop.fs.s3a.S3AFileSystem": "s3a",
    "org.apache.hadoop.fs.gs.GoogleHadoopFileSystem": "gs",
    "org.apache.hadoop.fs.azurebfs.AzureBlobFileSystem": "abfs",
    "org.apache.hadoop.fs.azurebfs.SecureAzureBlobFileSystem": "abfss",
}

_KINDS: dict[str, type[QueenError]] = {
    kind.__name__: kind for kind in (InvalidRequest, NotFound, StorageUnavailable)
}


@contextlib.contextmanager
def spark_failures(what: str, *, is_asked_for: bool = True) -> Iterator[None]:
    """Turn a failure of Spark into one of our errors: `what`, and why.

    `is_asked_for` False: Spark works on files of ours, so the user did not name what it misses.
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
    """Return the kind of our error in the text, else that of Spark's own."""
    from pyspark.errors import AnalysisException, ParseException

    ours = _OUR_KIND.findall(str(error))
    if ours:
        return _KINDS.get(ours[-1], QueenError)
    if explain_missing_jar(str(error)):
        return InvalidRequest
    if is_asked_for and isinstance(error, AnalysisException | ParseException):
        # What Spark could not make sense of was given on the command line.
        return InvalidRequest
    # Executors, disks and connections may be back.
    return StorageUnavailable


def reason(text: str) -> str:
    """Return the reason in a long text: our error, else the last cause, else the first line."""
    if jar := explain_missing_jar(text):
        return jar
    for pattern in (_OURS, _CAUSE):
        found = pattern.findall(text)
        if found:
            return str(found[-1]).strip()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    reason = next(
        (line for line in lines if _CLASS.match(line)), lines[0] if lines else "no reason"
    )
    return _CLASS.sub("", reason)


def explain_missing_jar(text: str) -> str | None:
    """Return advice if Spark has no code for a file system, or None for other errors."""
    known = _NO_CLASS.search(text)
    unknown = _NO_SCHEME.search(text)
    scheme = _SCHEMES.get(known.group(1)) if known else unknown and unknown.group(1)
    if not scheme:
        return None
    store = STORES.get(scheme)
    jar = f"the jar {store.jar}" if store else "a jar for it"
    return (
        f"Spark cannot open {scheme}:// without {jar}, which Queen does not bring along; add it"
        " with --conf spark.jars or spark.jars.packages, or use a cluster that has it"
    )


def first_sentence(error: BaseException) -> str:
    """Return the first sentence of a Spark error, without codes and plans, or our own error if it
    is one.
    """
    ours = _OURS.findall(str(error))
    if ours:
        return str(ours[-1]).strip()
    if jar := explain_missing_jar(str(error)):
        return jar
    text = str(error).strip().partition("\n")[0]
    text = re.sub(r"^\[[A-Z0-9_.]+\]\s*", "", text)
    return re.split(r"\s*SQLSTATE:|;\s*line \d+ pos", text)[0].rstrip(" .;")
