"""The options of a load, checked before Spark starts. Pure."""

from __future__ import annotations

import os.path
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from queenmq.errors import InvalidRequest
from queenmq.spark.sink.options import NAME_LENGTH_MAX, name_problem

FORMATS = ("parquet", "json", "csv")
#: By the end of a file's name; compressed files have one more.
_ENDINGS = {
    ".parquet": "parquet",
    ".json": "json",
    ".jsonl": "json",
    ".ndjson": "json",
    ".csv": "csv",
    ".tsv": "csv",
}
_COMPRESSED = (".gz", ".bz2", ".zst", ".snappy", ".lz4")


@dataclass(frozen=True)
class LoadOptions:
    """One load."""

    url: str
    inputs: tuple[str, ...]
    format: str
    queue: str
    #: The name of a partition for all rows, unless a column has it.
    partition: str | None
    partition_column: str | None
    transaction_id_column: str | None
    #: None: the whole row.
    payload_column: str | None
    sort_columns: tuple[str, ...]
    delimiter: str
    on_error: str
    dead_letter_queue: str | None
    batch_rows: int
    #: Keeps a load apart from one of the same rows under another name.
    name: str
    #: The file with the keys of encrypted queues.
    key_file: str | None = None

    def __post_init__(self) -> None:
        if not self.inputs:
            raise InvalidRequest("nothing to load: name files, folders or patterns")
        check_name("--queue", self.queue)
        for option, value in (
            ("--partition", self.partition),
            ("--dead-letter-queue", self.dead_letter_queue),
        ):
            if value is not None:
                check_name(option, value)
        if self.partition is not None and self.partition_column is not None:
            raise InvalidRequest("--partition and --partition-column exclude each other; give one")
        if self.dead_letter_queue is not None and self.on_error != "deadletter":
            raise InvalidRequest("--dead-letter-queue needs --on-error deadletter")
        if len(self.delimiter) != 1:
            raise InvalidRequest(f"--delimiter must be one character, not {self.delimiter!r}")
        self._check_columns()

    def _check_columns(self) -> None:
        named = [
            ("--partition-column", self.partition_column),
            ("--transaction-id-column", self.transaction_id_column),
            ("--payload-column", self.payload_column),
            *(("--sort-column", name) for name in self.sort_columns),
        ]
        for option, name in named:
            if name == "":
                raise InvalidRequest(f"{option} is empty; give the name of a column")
            if name and self.format == "json" and "'" in name:
                raise InvalidRequest(
                    f"{option} {name!r} has a quote in it, which fields of JSON lines may not;"
                    " rename the field"
                )

    @property
    def sink(self) -> dict[str, str]:
        """Return options of the writer."""
        options = {"url": self.url, "queue": self.queue, "onError": self.on_error}
        if self.dead_letter_queue is not None:
            options["deadLetterQueue"] = self.dead_letter_queue
        if self.key_file is not None:
            options["encryptionKeys"] = self.key_file
        return options


def find_format(inputs: Sequence[str], given: str | None) -> str:
    """Return the format of the files, from their names unless it was given."""
    if given is not None:
        return given
    found = {_ENDINGS.get(_find_extension(text)) for text in inputs}
    if len(found) != 1 or None in found:
        raise InvalidRequest(
            f"what {', '.join(inputs)} holds is not clear from its name;"
            f" give --format {', '.join(FORMATS)}"
        )
    return str(found.pop())


def _find_extension(text: str) -> str:
    path = urlsplit(text).path if "://" in text else text
    stem, ending = os.path.splitext(path.rstrip("/").lower())
    return os.path.splitext(stem)[1] if ending in _COMPRESSED else ending


def check_name(option: str, value: str) -> None:
    """Refuse names that the sink would refuse."""
    problem = name_problem(value)
    if problem:
        raise InvalidRequest(f"{option} {problem}; give it 1 to {NAME_LENGTH_MAX} characters")
