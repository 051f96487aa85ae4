"""Laws of the spool: against a plain list, through restarts, dead processes and torn files."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import given, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from queenmq.storage.spool import Spool
from queenmq.storage.spool.cursor import SLOT_BYTES, CursorFile
from queenmq.storage.spool.drain import Drain
from queenmq.storage.spool.files import SpoolFiles
from queenmq.storage.spool.framing import Ending, encode, scan
from tests.support.folders import make_folder
from tests.support.spools import segment_files

bodies_lists = st.lists(st.binary(max_size=40), max_size=6)
#: Small enough that a few records fill a segment.
SEGMENT_BYTES = 100
BYTES_MAX = 100_000


@given(bodies=bodies_lists, cut=st.integers(0, 300), tail=st.binary(max_size=20))
def test_scanning_finds_the_records_before_a_cut_and_no_others(
    bodies: list[bytes], cut: int, tail: bytes
) -> None:
    data = b"".join(map(encode, bodies))
    cut = min(cut, len(data))
    found = scan(data[:cut])
    assert found.bodies == bodies[: len(found.bodies)]
    assert found.valid_bytes == len(b"".join(map(encode, found.bodies))) <= cut
    assert (found.ending is Ending.CLEAN) == (found.valid_bytes == cut)
    assert scan(data + tail).bodies[: len(bodies)] == bodies


@given(
    bodies=st.lists(st.binary(max_size=40), min_size=1, max_size=8),
    groups=st.integers(1, 3),
    damage=st.data(),
)
@settings(max_examples=40)
def test_damage_takes_only_the_rest_of_its_segment(
    bodies: list[bytes], groups: int, damage: st.DataObject
) -> None:
    path = make_folder()
    try:
        _write(path, bodies, groups)
        segments = segment_files(path)
        chosen = damage.draw(st.integers(0, len(segments) - 1), label="segment")
        content = segments[chosen].read_bytes()
        at = damage.draw(st.integers(0, len(content) - 1), label="offset")
        parts = [scan(segment.read_bytes()) for segment in segments]
        if damage.draw(st.booleans(), label="is cut"):
            segments[chosen].write_bytes(content[:at])
        else:
            changed = content[at] ^ damage.draw(st.integers(1, 255), label="change")
            segments[chosen].write_bytes(content[:at] + bytes([changed]) + content[at + 1 :])
        kept = sum(end <= at for end in parts[chosen].ends)
        expected = [part.bodies for part in parts]
        expected[chosen] = expected[chosen][:kept]
        flat = [body for part in expected for body in part]
        assert _drained(path) == [*flat, b"new"]
        # What was drained stays drained, and the damage is behind us.
        assert _drained(path) == [b"new"]
    finally:
        shutil.rmtree(path)


def _write(path: Path, bodies: list[bytes], group: int) -> None:
    files = SpoolFiles(path, bytes_max=BYTES_MAX, segment_bytes=SEGMENT_BYTES)
    for start in range(0, len(bodies), group):
        assert not any(files.append(bodies[start : start + group]))
    files.close()


def _drained(path: Path) -> list[bytes]:
    """Open, append one more record, and drain."""
    files = SpoolFiles(path, bytes_max=BYTES_MAX, segment_bytes=SEGMENT_BYTES)
    try:
        assert files.append([b"new"]) == [None]
        drain = Drain(files)
        assert drain.try_lead()
        bodies: list[bytes] = []
        while files.state.pending:
            batch = drain.read(records_max=2, bytes_max=1000)
            bodies += batch.bodies
            drain.advance(batch.end)
        return bodies
    finally:
        files.close()


class SpoolMachine(RuleBasedStateMachine):
    """Two users of one spool, the first of which drains, against a list of what is pending."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.path = make_folder()
        self.users: list[Spool] = []
        self.pending: list[bytes] = []
        #: What comes back when the last cursor is lost.
        self.last_drained: list[bytes] = []
        self.aside = 0

    @initialize()
    def begin(self) -> None:
        self._open()

    def _open(self) -> None:
        for _ in range(2):
            spool = Spool(self.path, bytes_max=BYTES_MAX, segment_bytes=SEGMENT_BYTES)
            self.runner.run(spool.open())
            self.users.append(spool)

    def _close(self) -> None:
        for spool in self.users:
            self.runner.run(spool.close())
        self.users.clear()

    @rule(user=st.integers(0, 1), bodies=bodies_lists)
    def append(self, user: int, bodies: list[bytes]) -> None:
        async def run() -> None:
            await asyncio.gather(*map(self.users[user].append, bodies))

        self.runner.run(run())
        self.pending += bodies

    @rule(records_max=st.integers(1, 5), share=st.integers(0, 5))
    def drain(self, records_max: int, share: int) -> None:
        async def run() -> None:
            spool = self.users[0]
            assert await spool.try_lead()
            batch = await spool.read(records_max=records_max, bytes_max=60)
            assert batch.bodies == self.pending[: len(batch.bodies)]
            assert bool(batch.bodies) == bool(self.pending)
            done = min(share, len(batch.bodies))
            if done:
                await spool.advance(batch.positions[done - 1])
                self.last_drained = self.pending[:done]
                del self.pending[:done]

        self.runner.run(run())

    @rule(ghost=st.binary(max_size=30), is_whole=st.booleans(), kept=st.integers(1, 40))
    def another_process_dies_in_an_append(self, ghost: bytes, is_whole: bool, kept: int) -> None:
        """While the spool is in use, what it wrote is not counted and goes away."""
        data = encode(ghost) if is_whole else encode(ghost)[:kept]
        segments = segment_files(self.path)
        if segments:
            with segments[-1].open("ab") as file:
                file.write(data)
            self.append(1, [b"behind a ghost"])

    @rule()
    def restart(self) -> None:
        self._close()
        self._open()

    @precondition(lambda self: segment_files(self.path))
    @rule(torn=st.binary(max_size=30), kept=st.integers(1, 37))
    def restart_after_a_torn_write(self, torn: bytes, kept: int) -> None:
        data = encode(torn)
        self._close()
        with segment_files(self.path)[-1].open("ab") as file:
            file.write(data[: min(kept, len(data) - 1)])
        self.aside += 1
        self._open()

    @rule(content=st.binary(max_size=100))
    def restart_without_the_state(self, content: bytes) -> None:
        self._close()
        (self.path / "state").write_bytes(content)
        self._open()

    @precondition(lambda self: self.last_drained)
    @rule(at=st.integers(0, 39))
    def restart_after_a_torn_cursor(self, at: int) -> None:
        """The cursor before is used; what its segments still hold is drained again."""
        self._close()
        cursor = CursorFile(self.path / "cursor")
        slot = cursor._newest()[0] % 2 * SLOT_BYTES
        cursor.close()
        content = bytearray((self.path / "cursor").read_bytes())
        content[slot + at] ^= 1
        (self.path / "cursor").write_bytes(content)
        self._open()
        again = self.users[0].pending - len(self.pending)
        assert 0 <= again <= len(self.last_drained)
        self.pending = self.last_drained[len(self.last_drained) - again :] + self.pending
        self.last_drained = []

    @invariant()
    def the_counters_are_right(self) -> None:
        for spool in self.users:
            assert spool.pending == len(self.pending)
            assert spool.pending_bytes == sum(len(body) + 8 for body in self.pending)
            assert spool.stats().aside_records == self.aside

    def teardown(self) -> None:
        self._close()
        self.runner.close()
        shutil.rmtree(self.path)


SpoolMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestSpoolMachine = SpoolMachine.TestCase
