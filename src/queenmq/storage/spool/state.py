"""The state of the spool that its processes share, in a mapped file.

Written only under the append lock. There are two slots: a change is written into the one not in
use, and then one store of eight bytes puts it in use. A process killed anywhere therefore leaves
the state before or the state after, never half of one. Reading takes no lock and no system call.

It is a cache: the first process to open the spool makes it again from the files.
"""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from pathlib import Path

from queenmq.errors import SpoolFailed
from queenmq.storage.spool.position import Phase, Place, Position
from queenmq.storage.spool.private_files import open_private, write_at

_FILE_BYTES = 4096
#: Word 0: name and version of the layout. Word 1: number of the last change; its last bit is the
#: slot in use.
_LAYOUT = int.from_bytes(b"QNSTATE1", "little")
_LAYOUT_WORD = 0
_CHANGE_WORD = 1
_SLOT_WORDS = 16
_PENDING = 0
_PHASE = 2


@dataclass(frozen=True)
class State:
    """One moment of the spool.

    `pending` is 0 if, and only if, no bytes lie between cursor and end.
    """

    end: Place
    cursor: Position
    pending: int
    pending_bytes: int
    phase: Phase
    aside_end: Place
    aside_records: int
    aside_bytes: int

    def _words(self) -> list[int]:
        return [
            self.pending,
            self.pending_bytes,
            self.phase,
            *self.end,
            *self.cursor.place,
            self.cursor.records_total,
            self.cursor.bytes_total,
            *self.aside_end,
            self.aside_records,
            self.aside_bytes,
        ]

    @classmethod
    def _of(cls, words: list[int]) -> State:
        return cls(
            pending=words[0],
            pending_bytes=words[1],
            phase=Phase(words[2]),
            end=Place(words[3], words[4]),
            cursor=Position(Place(words[5], words[6]), words[7], words[8]),
            aside_end=Place(words[9], words[10]),
            aside_records=words[11],
            aside_bytes=words[12],
        )


class SharedState:
    """The state as this process sees it: the newest there is."""

    def __init__(self, path: Path, *, fresh: State | None) -> None:
        """Map the file; with `fresh`, put that into it first: no other process has it mapped."""
        descriptor = open_private(path, os.O_RDWR | (os.O_CREAT if fresh else 0))
        try:
            if fresh:
                # Written, not only made longer: storing into a page without a block on a full
                # disk would kill the process. In place, because a full disk allows only that.
                write_at(descriptor, bytes(_FILE_BYTES), 0)
                os.fdatasync(descriptor)
            self._map = mmap.mmap(descriptor, _FILE_BYTES)
        except ValueError as error:
            raise _unusable(path) from error
        finally:
            os.close(descriptor)
        # Whole words in the machine's order: each is read and written in one piece.
        self._words = memoryview(self._map).cast("Q")
        if fresh:
            self.store(fresh)
            self._words[_LAYOUT_WORD] = _LAYOUT
        elif self._words[_LAYOUT_WORD] != _LAYOUT:
            self.close()
            raise _unusable(path)

    @property
    def pending(self) -> int:
        words = self._words
        return words[_slot(words[_CHANGE_WORD]) + _PENDING]

    @property
    def phase(self) -> Phase:
        words = self._words
        return Phase(words[_slot(words[_CHANGE_WORD]) + _PHASE])

    def load(self) -> State:
        """Return one moment, whole: a slot is written again only after the next one is in use."""
        words = self._words
        while True:
            change = words[_CHANGE_WORD]
            slot = _slot(change)
            copy = words[slot : slot + _SLOT_WORDS].tolist()
            if words[_CHANGE_WORD] == change:
                return State._of(copy)

    def store(self, state: State) -> None:
        """Replace the state. The caller holds the append lock."""
        change = self._words[_CHANGE_WORD] + 1
        for word, value in enumerate(state._words(), start=_slot(change)):
            self._words[word] = value
        self._words[_CHANGE_WORD] = change

    def close(self) -> None:
        self._words.release()
        self._map.close()


def _slot(change: int) -> int:
    """Return the first word of the slot that a change is in."""
    return _SLOT_WORDS * (1 + (change & 1))


def _unusable(path: Path) -> SpoolFailed:
    return SpoolFailed(
        f"{path} was made by a broker of another version that still runs; stop that one first"
    )
