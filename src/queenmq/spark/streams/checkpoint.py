"""The folder in which a stream keeps its position: Spark's records, and ours beside them.

Uses Spark's file systems, so that it works wherever Spark can keep a checkpoint.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from queenmq.errors import InvalidRequest
from queenmq.spark.source.offsets import batch_bounds

_DEFINITION = "queen/definition.json"
_NOTE = "queen/note.json"


@dataclass(frozen=True)
class Batch:
    """The range of a batch, and the watermark that decided which messages were late."""

    start: int
    end: int
    watermark_ms: int


@dataclass(frozen=True)
class Note:
    """Up to which batch the messages that were not used have been looked for, and how many there
    were for each reason."""

    batch: int = -1
    counts: dict[str, int] | None = None


class Checkpoint:
    """One folder."""

    def __init__(self, spark: Any, folder: str) -> None:
        self.folder = folder
        #: Spark has no file systems in Python.
        self._jvm = spark._jvm
        self._root = self._jvm.org.apache.hadoop.fs.Path(folder)
        self._files = self._root.getFileSystem(spark._jsc.hadoopConfiguration())

    def query_id(self) -> str:
        """Return the id that Spark gave the stream when it was first started."""
        return str(json.loads(self._read("metadata") or "{}").get("id", ""))

    def last_batch(self) -> int:
        """Return the last completed batch, or -1."""
        return max(self._numbers("commits"), default=-1)

    def batch(self, number: int) -> Batch | None:
        """Return Spark's record of a batch. None if there is none, or Spark has removed it."""
        end = self._offsets(number)
        # The end of the first batch says itself where that began.
        before = self._offsets(number - 1) if number > 0 else ({}, {"xid": "0", "initial": True})
        if end is None or before is None:
            return None
        first, last = batch_bounds(before[1], end[1])
        # Rows are late by the watermark of the batch before: its own ends windows only after it.
        return Batch(first.xid, last.xid, before[0].get("batchWatermarkMs", 0))

    def check_definition(self, meaning: dict[str, Any], file: str) -> None:
        """Refuse a definition that is not the one the checkpoint was made for."""
        text = self._read(_DEFINITION)
        if text is None:
            if self.last_batch() >= 0 or self._numbers("offsets"):
                raise InvalidRequest(
                    f"{file}: checkpoint {self.folder} is that of another query; name a new folder"
                )
            return
        changed = sorted(_differences(json.loads(text), meaning))
        if changed:
            raise InvalidRequest(
                f"{file}: {', '.join(changed)} changed since checkpoint {self.folder} was made, and"
                " what is kept there does not fit any more; undo that, or give the stream a new"
                " name and checkpoint"
            )

    def keep_definition(self, meaning: dict[str, Any]) -> None:
        """Remember what the checkpoint is for."""
        self._write(_DEFINITION, json.dumps(meaning))

    def note(self) -> Note:
        """Return the last note."""
        text = self._read(_NOTE)
        return Note() if text is None else Note(**json.loads(text))

    def keep_note(self, note: Note) -> None:
        """Note it."""
        self._write(_NOTE, json.dumps({"batch": note.batch, "counts": note.counts}))

    def _offsets(self, number: int) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return metadata and position of a batch."""
        text = self._read(f"offsets/{number}")
        if text is None:
            return None
        lines = text.splitlines()
        return json.loads(lines[1]), json.loads(lines[2])

    def _numbers(self, folder: str) -> list[int]:
        path = self._path(folder)
        if not self._files.exists(path):
            return []
        names = [status.getPath().getName() for status in self._files.listStatus(path)]
        return [int(name) for name in names if name.isdigit()]

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self._root, name)

    def _read(self, name: str) -> str | None:
        # A write that broke off between its last two steps has left the new one.
        for candidate in (name, f"{name}.new"):
            path = self._path(candidate)
            if self._files.exists(path):
                stream = self._files.open(path)
                try:
                    return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
                finally:
                    stream.close()
        return None

    def _write(self, name: str, text: str) -> None:
        new, path = self._path(f"{name}.new"), self._path(name)
        stream = self._files.create(new, True)
        try:
            stream.write(text.encode())
        finally:
            stream.close()
        self._files.delete(path, False)
        self._files.rename(new, path)


def _differences(old: Any, new: Any, place: str = "") -> list[str]:
    """Return where two values differ, as `window.size`."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = {*old, *new}
        return [
            found
            for name in names
            for found in _differences(old.get(name), new.get(name), f"{place}.{name}".lstrip("."))
        ]
    return [] if old == new else [place]
