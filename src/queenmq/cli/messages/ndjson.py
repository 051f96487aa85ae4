"""Owns reading lines of JSON from a file or a pipe, in batches and bounded memory.

What has arrived is given out at once, so a slow pipe is not held up by a batch that is not full.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec

from queenmq.cli.exits import UsageProblem
from queenmq.cli.messages.verbatim import Verbatim
from queenmq.client.http.payloads import cut_out

#: Bytes asked for at once, and of one batch.
_PIECE_BYTES = 1 << 18
#: Lines of one batch.
LINES_MAX = 500
#: The largest payload that a server takes by default.
LINE_BYTES_MAX = 32 * 1024 * 1024


class Line(NamedTuple):
    """A line that holds something: its number from 1, and its bytes."""

    number: int
    content: bytes

    @classmethod
    def of(cls, number: int, content: bytes, *, is_message: bool = False) -> Line:
        """Return a line of JSON. Raises msgspec.DecodeError for anything else.

        It does not check the values, because the server accepts numbers that Python cannot hold. It
        does not read the payload of a popped message either.
        """
        content.decode()
        checked = cut_out(content)[0] if is_message else content
        try:
            _GRAMMAR.decode(checked)
        except RecursionError:
            raise msgspec.DecodeError("nested too deeply; stay below 900 levels") from None
        return cls(number, content)

    @property
    def value(self) -> Any:
        """Return what the line means; payloads of messages stay as they are written."""
        try:
            return Verbatim().loads(self.content)
        except msgspec.DecodeError as error:
            raise UsageProblem(f"line {self.number} cannot be read ({error})") from None


#: Looks at the grammar alone.
_GRAMMAR = msgspec.json.Decoder(msgspec.Raw)


@contextlib.contextmanager
def open_input(file: str | None) -> Iterator[BinaryIO]:
    """Yield the file, or standard input for none or `-`."""
    if file in (None, "-"):
        if sys.stdin.isatty():
            print("reading lines of JSON from standard input; end with Ctrl-D", file=sys.stderr)
        yield sys.stdin.buffer
        return
    try:
        stream = Path(str(file)).open("rb")
    except OSError as error:
        raise UsageProblem(f"file {file} cannot be read: {error.strerror}") from None
    with stream:
        yield stream


def batches(
    stream: BinaryIO,
    *,
    is_text: bool = False,
    is_message: bool = False,
    on_bytes: Callable[[int], None] = lambda count: None,
) -> Iterator[list[Line]]:
    """Yield lines in batches; those before a bad line come before the error about it."""
    batch: list[Line] = []
    for pieces in _arrivals(stream, on_bytes):
        for number, content in pieces:
            try:
                line = _parse(number, content, is_text=is_text, is_message=is_message)
            except UsageProblem:
                if batch:
                    yield batch
                raise
            if line is not None:
                batch.append(line)
            if len(batch) >= LINES_MAX:
                yield batch
                batch = []
        if batch:
            yield batch
            batch = []


def _arrivals(
    stream: BinaryIO, on_bytes: Callable[[int], None]
) -> Iterator[Iterator[tuple[int, bytes]]]:
    """Yield whole lines with their numbers, as many at once as there are."""
    number, rest = 1, bytearray()
    read = getattr(stream, "read1", stream.read)
    while piece := read(_PIECE_BYTES):
        on_bytes(len(piece))
        if b"\n" not in piece:
            rest += piece
            if len(rest) > LINE_BYTES_MAX:
                raise UsageProblem(f"line {number} is longer than {LINE_BYTES_MAX} bytes")
            continue
        *lines, last = bytes(rest + piece).split(b"\n")
        yield enumerate(lines, start=number)
        number, rest = number + len(lines), bytearray(last)
    if rest:
        yield iter([(number, bytes(rest))])


def _parse(number: int, content: bytes, *, is_text: bool, is_message: bool) -> Line | None:
    content = content.rstrip(b"\r") if is_text else content.strip()
    if not content:
        return None
    try:
        if is_text:
            return Line(number, msgspec.json.encode(content.decode()))
        return Line.of(number, content, is_message=is_message)
    except UnicodeDecodeError:
        raise UsageProblem(f"line {number} is not UTF-8") from None
    except msgspec.DecodeError as error:
        raise UsageProblem(f"line {number} is not JSON ({error})") from None
