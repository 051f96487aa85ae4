"""The options of a replay, checked before Spark starts. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from queenmq.errors import InvalidRequest
from queenmq.spark.jobs.load.options import check_name
from queenmq.spark.lake.layout import Lake

#: Messages a second that a batch a second can reach; less often would not be steady.
RATE_MAX = 1_000_000


@dataclass(frozen=True)
class ReplayOptions:
    """One replay."""

    url: str
    lake: Lake
    #: Names; empty: all queues of the lake.
    queues: tuple[str, ...]
    #: Names; empty: all partitions.
    partitions: tuple[str, ...]
    since: datetime | None
    #: Not included.
    until: datetime | None
    #: A condition in Spark SQL over the columns of the lake.
    where: str | None
    #: None: the queue that a message came from.
    target_queue: str | None
    #: An expression in Spark SQL for the name of the partition; None: as it was.
    partition_expression: str | None
    has_fresh_ids: bool
    #: Messages a second; None: no limit.
    rate: float | None
    batch_rows: int
    #: Keeps a replay apart from one of the same messages under another name.
    name: str
    #: The file with the keys of encrypted messages and queues.
    key_file: str | None = None

    def __post_init__(self) -> None:
        for option, names in (("--queue", self.queues), ("--partition", self.partitions)):
            for name in names:
                check_name(option, name)
        if self.target_queue is not None:
            check_name("--target-queue", self.target_queue)
        for option, text in (
            ("--where", self.where),
            ("--partition-expression", self.partition_expression),
        ):
            if text is not None and not text.strip():
                raise InvalidRequest(f"{option} is empty; leave it out or give an expression")
        if self.since and self.until and self.since >= self.until:
            raise InvalidRequest(
                f"--since {self.since.isoformat()} is not before --until"
                f" {self.until.isoformat()}; nothing lies in between"
            )
        if self.rate is not None and not 0 < self.rate <= RATE_MAX:
            raise InvalidRequest(f"--rate must be above 0 and at most {RATE_MAX}, not {self.rate}")

    @property
    def size(self) -> int:
        """Return messages of one batch; with a rate those of about a second, so that they flow."""
        if self.rate is None:
            return self.batch_rows
        return max(1, min(self.batch_rows, round(self.rate)))

    @property
    def sink(self) -> dict[str, str]:
        """Return the options of the sink."""
        keys = {} if self.key_file is None else {"encryptionKeys": self.key_file}
        return {"url": self.url, **keys}

    @property
    def last_moment(self) -> datetime | None:
        """Return the latest time that is included."""
        return None if self.until is None else self.until - timedelta(microseconds=1)


def parse_moment(option: str, text: str | None) -> datetime | None:
    """Return a time with its zone."""
    if text is None:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise InvalidRequest(
            f"{option} {text!r} is not a time with its zone; write it as 2030-01-31T12:00:00Z"
        )
    return moment
