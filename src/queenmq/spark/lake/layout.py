"""Pure: where things lie in a lake, and the columns of its messages."""

from __future__ import annotations

import json
import os.path
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime
from urllib.parse import unquote, urlsplit
from uuid import UUID

from queenmq.errors import InvalidRequest

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
#: In the files, but not in the Delta schema: delta-rs cannot read a variant that is shredded, and
#: would refuse whole rows for it. So it is left to Spark, and everybody else reads the rest.
VARIANT = "payload_variant"
PARTITIONED_BY = ("queue", "day")
#: The schema of the files, for Spark.
SPARK_SCHEMA = ", ".join(f"`{name}` {kind}" for name, kind in (*COLUMNS, (VARIANT, "variant")))
#: Patterns to Spark, and in the path of a table they stop delta-rs, some only when it writes.
_REFUSED = frozenset("*?{}[]^|%\\")
#: The columns by which Spark names the folders of files; they mean nothing to readers.
FOLDERS = ("q", "d")


@dataclass(frozen=True)
class Lake:
    """A place: an absolute path of this machine, or the URL of a file system."""

    location: str

    @classmethod
    def at(cls, text: str) -> Lake:
        """As users write it."""
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
            return cls(text.rstrip("/"))
        return cls(os.path.abspath(os.path.expanduser(text)))

    @property
    def is_local(self) -> bool:
        """Whether it is a folder of this machine, or one that is mounted."""
        return "://" not in self.location

    @property
    def messages(self) -> str:
        """The table of messages, as delta-rs takes it."""
        return f"{self.location}/messages"

    @property
    def manifest(self) -> str:
        """The table of what was archived and verified."""
        return f"{self.location}/manifest"

    def for_spark(self, path: str) -> str:
        """A path below the table of messages; with a scheme, whatever Spark's own default is."""
        return f"{'file:' if self.is_local else ''}{self.messages}/{path}"


@dataclass(frozen=True)
class DataFile:
    """A Parquet file of the table: one queue, one day."""

    #: Below the table, as it is called on disk.
    path: str
    bytes: int
    queue: str
    day: date
    messages: int
    first_xid: int
    last_xid: int
    first_seq: int
    last_seq: int
    first_time: datetime
    last_time: datetime
    modified_ms: int = 0

    @property
    def partition_values(self) -> dict[str, str | None]:
        """In the form of Delta's log."""
        return {"queue": self.queue, "day": self.day.isoformat()}

    @property
    def stats(self) -> str:
        """What lets readers pass over the file."""
        return json.dumps(
            {
                "numRecords": self.messages,
                "minValues": {
                    "xid": self.first_xid,
                    "seq": self.first_seq,
                    "created_at": _time(self.first_time),
                },
                "maxValues": {
                    "xid": self.last_xid,
                    "seq": self.last_seq,
                    "created_at": _time(self.last_time),
                },
                "nullCount": {"xid": 0, "seq": 0, "created_at": 0},
            }
        )


def _time(value: datetime) -> str:
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def app_id(queue_id: UUID) -> str:
    """Under this name the log keeps the transaction up to which a queue was archived.

    A queue that is deleted and made again has another id, and begins anew.
    """
    return f"queen-archive/{queue_id}"


def path_in_table(uri: str, folder: str) -> str:
    """Where a file of a folder lies below the table, from the URI by which Spark knows it."""
    _, found, rest = uri.partition(f"/{folder}/")
    if not found:
        raise ValueError(f"{uri} is not in {folder}")
    return f"{folder}/{unquote(rest)}"


def pruned(
    files: Iterable[DataFile],
    *,
    queues: Iterable[str] | None = None,
    since: date | None = None,
    until: date | None = None,
    start: int = 0,
    end: int | None = None,
) -> list[DataFile]:
    """The files that may hold messages of these queues, days (both included) and transactions."""
    names = None if queues is None else set(queues)
    return [
        file
        for file in files
        if (names is None or file.queue in names)
        and (since is None or file.day >= since)
        and (until is None or file.day <= until)
        and file.last_xid >= start
        and (end is None or file.first_xid < end)
    ]
