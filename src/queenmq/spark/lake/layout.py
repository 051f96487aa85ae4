"""The layout of a lake and the columns of its messages. Pure."""

from __future__ import annotations

import os.path
import re
import string
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from urllib.parse import quote, unquote, urlsplit
from uuid import UUID

from queenmq.errors import InvalidRequest, StorageRejected
from queenmq.spark.lake.stores import urls

#: Name and type, in the words of both Delta and Spark.
COLUMNS = (
    ("queue", "string"),
    ("namespace", "string"),
    ("task", "string"),
    ("partition", "string"),
    ("partition_id", "string"),
    ("seq", "long"),
    ("message_id", "string"),
    ("transaction_id", "string"),
    ("trace_id", "string"),
    ("payload", "string"),
    ("created_at", "timestamp"),
    ("producer_sub", "string"),
    ("is_encrypted", "boolean"),
    ("xid", "long"),
    ("day", "date"),
)
#: In the files, but not in the Delta schema: delta-rs cannot read a shredded variant, and would
#: refuse whole rows for it. So only Spark reads it, and other readers read the rest.
VARIANT = "payload_variant"
PARTITIONED_BY = ("queue", "day")
#: The columns that are in the files; the log has the others.
FILE_COLUMNS = tuple(column for column in COLUMNS if column[0] not in PARTITIONED_BY)
#: A file is cut there; more than memory likes to sort is never needed.
FILE_ROWS = 1_000_000
#: Patterns to Spark, and in the path of a table they stop delta-rs, some only when it writes.
_REFUSED = frozenset("*?{}[]^|%\\")
#: What Java leaves as it is in the path of a URI.
_UNQUOTED = frozenset(string.ascii_letters + string.digits + "-_.!~*'():@&=+$,;")
#: Files of ours lie in folders of this name; files of other writers have no variant.
_OWN = re.compile(r"data-[0-9a-f]{32}/")
#: Likewise, of release 0.1.0: their folders are named by other columns, and what the log says of
#: the columns is not complete, so other readers may pass over rows.
_FIRST_LAYOUT = re.compile(_OWN.pattern + "q=")


@dataclass(frozen=True)
class Lake:
    """A place: an absolute path of this machine, or the URL of a file system."""

    location: str

    @classmethod
    def at(cls, text: str) -> Lake:
        """Parse a lake as users write it."""
        if not text.strip():
            raise InvalidRequest("the lake is empty; give a folder, or a URL such as s3://bucket/x")
        refused = sorted(set(text) & _REFUSED)
        if refused:
            raise InvalidRequest(
                f"the lake {text!r} has {' '.join(refused)} in its path, which means something else"
                " to Spark or delta-rs; choose another one"
            )
        parts = urlsplit(text)
        if parts.scheme == "file":
            text = parts.path
        elif "://" in text:
            return cls(urls.normalize_url(text))
        return cls(os.path.abspath(os.path.expanduser(text)))

    @property
    def is_local(self) -> bool:
        """Return whether it is a folder of this machine, or one that is mounted."""
        return "://" not in self.location

    @property
    def messages(self) -> str:
        """Return the table of messages, as delta-rs takes it."""
        return f"{self.location}/messages"

    @property
    def manifest(self) -> str:
        """Return the path of the manifest."""
        return f"{self.location}/manifest"

    def for_spark(self, path: str) -> str:
        """Return a path below the table of messages; with a scheme, whatever Spark's own default
        is.
        """
        # The location has none of them, but other writers may name folders as they like.
        literal = re.sub(r"([*?{}\[\]\\])", r"\\\1", path)
        home = f"file:{self.messages}" if self.is_local else urls.to_spark_url(self.messages)
        return f"{home}/{literal}"


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of the table: one queue, one day.

    Another writer may leave out statistics of the rows. They are None then, which means unknown.
    """

    #: Below the table, as it is called on disk.
    path: str
    bytes: int
    queue: str
    day: date
    messages: int | None = None
    first_xid: int | None = None
    last_xid: int | None = None
    first_seq: int | None = None
    last_seq: int | None = None
    first_time: datetime | None = None
    last_time: datetime | None = None
    modified_ms: int = 0
    #: What the log says of the columns, for a file that is added.
    stats: str | None = None

    @property
    def partition_values(self) -> dict[str, str | None]:
        """Return the partition values in the form of Delta's log."""
        return {"queue": self.queue, "day": self.day.isoformat()}

    @property
    def has_variant(self) -> bool:
        """Return whether the file has the payloads as variants, too: only ours do."""
        return _OWN.match(self.path) is not None

    @property
    def is_of_first_layout(self) -> bool:
        """Return whether release 0.1.0 wrote it."""
        return _FIRST_LAYOUT.match(self.path) is not None

    def may_have(
        self, low: int | datetime | None, before: int | datetime | None, column: str
    ) -> bool:
        """Return whether values from `low` up to, but without `before` may be in a column."""
        first, last = getattr(self, f"first_{column}"), getattr(self, f"last_{column}")
        return (low is None or last is None or last >= low) and (
            before is None or first is None or first < before
        )


def app_id(queue_id: UUID) -> str:
    """Return the name under which the log keeps how far a queue was archived.

    A queue that is deleted and created again has another id and starts over.
    """
    return f"queen-archive/{queue_id}"


def path_in_table(uri: str, folder: str) -> str:
    """Return the path of a file below the table, from the URI that Spark uses."""
    _, found, rest = uri.partition(f"/{folder}/")
    if not found:
        raise ValueError(f"{uri} is not in {folder}")
    return f"{folder}/{unquote(rest)}"


def file_keys(lake: Lake, files: Sequence[DataFile]) -> tuple[int, dict[str, DataFile]]:
    """Return how many of the last parts of the URI by which Spark knows a file tell it apart; the
    files by these parts.

    Not all of it: the beginning depends on the file system.
    """
    depth = max(file.path.count("/") for file in files) + 1
    keys = {file_key(lake, file.path, depth): file for file in files}
    if len(keys) < len(files):
        raise StorageRejected(
            f"the lake at {lake.location} has files that cannot be told apart, which another writer"
            " has named; run `queen pipeline lake optimize --z-order`"
        )
    return depth, keys


def file_key(lake: Lake, path: str, depth: int) -> str:
    """Return the last parts of the URI by which Spark knows a file below the table."""
    parts = f"{lake.messages}/{path}".split("/")[-depth:]
    return "/".join("".join(map(_quote, part)) for part in parts)


def _quote(character: str) -> str:
    """Return a character as Java writes it in a URI."""
    if character in _UNQUOTED:
        return character
    if ord(character) >= 128 and unicodedata.category(character) not in ("Cc", "Zs", "Zl", "Zp"):
        return character
    return quote(character, safe="")


def prune_files(
    files: Iterable[DataFile],
    *,
    queues: Iterable[str] | None = None,
    since: date | None = None,
    until: date | None = None,
    start: int = 0,
    end: int | None = None,
) -> list[DataFile]:
    """Return the files that may hold messages of these queues, days (both included) and
    transactions.
    """
    names = None if queues is None else set(queues)
    return [
        file
        for file in files
        if (names is None or file.queue in names)
        and (since is None or file.day >= since)
        and (until is None or file.day <= until)
        and file.may_have(start, end, "xid")
    ]
