"""Pure: what the file of a declared stream may say, and whether it fits together.

Every error is one sentence with the file, the key, its value and what to do. What can only be known
with Spark at hand (types, expressions) is checked in `expressions`.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Annotated, Any

import msgspec

from queenmq.errors import InvalidRequest
from queenmq.spark.sink.options import name_problem
from queenmq.spark.streams.durations import parse_duration

#: Every transaction id starts with the name of its stream.
NAME_LENGTH_MAX = 100
#: Columns of the source. Fields must not hide them.
SOURCE_COLUMNS = (
    "queue",
    "namespace",
    "task",
    "partition",
    "partition_id",
    "seq",
    "message_id",
    "transaction_id",
    "trace_id",
    "payload",
    "created_at",
    "producer_sub",
    "is_encrypted",
)
#: What every result of a window has already.
RESULT_COLUMNS = ("window_start", "window_end", "key")
_FILE_BYTES_MAX = 1_000_000
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_PLACE = re.compile(r"(.*?)(?: - at `(?:key in )?\$\.?(.*)`)?")


class Source(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[source]`: which messages."""

    queue: str | list[str] | None = None
    pattern: str | None = None
    namespace: str | None = None
    task: str | None = None
    partitions: list[str] | None = None
    starting: str = "earliest"
    max_messages: Annotated[int, msgspec.Meta(ge=1, le=10_000_000)] = 100_000
    #: None means the name of the stream, empty means no group.
    group: str | None = None
    fail_on_data_loss: bool = True
    #: When to name a transaction that holds the stream up.
    open_transaction_warning: str = "60 seconds"
    #: How long to wait for a database that is away.
    retry: str = "60 seconds"
    #: Positions that were taken in this database hold, too.
    continues_database: str | None = None


class Window(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[window]`: which messages belong together."""

    type: str
    size: str | None = None
    slide: str | None = None
    gap: str | None = None
    time: str = "created_at"
    watermark: str = "1 minute"
    ahead: str = "1 hour"


class Sink(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[sink]`: where results go."""

    queue: str | None = None
    lake: str | None = None


class Late(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[late]`: where messages go that came too late for their window, or cannot be used."""

    queue: str | None = None
    lake: str | None = None


class Definition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole file."""

    name: str
    checkpoint: str
    source: Source
    sink: Sink
    trigger: str = "1 second"
    filter: str | None = None
    key: str | None = None
    fields: dict[str, str] = {}
    select: dict[str, str] = {}
    window: Window | None = None
    aggregations: dict[str, str] = {}
    late: Late = Late()

    def meaning(self) -> dict[str, Any]:
        """Return what a checkpoint was made for: all that must not change under it."""
        whole: dict[str, Any] = msgspec.to_builtins(self)
        for free in ("checkpoint", "trigger", "late"):
            whole.pop(free)
        scope = ("queue", "pattern", "namespace", "task", "partitions")
        whole["source"] = {name: whole["source"][name] for name in scope}
        return whole


def milliseconds(text: str | None) -> int:
    """Return a length of time of a definition that was checked."""
    found = parse_duration(text or "")
    assert found is not None
    return found


def load_definition(path: Path) -> Definition:
    """Read and check a file. Its paths are relative to its folder."""
    definition = parse_definition(_read(path), str(path))

    def place(text: str | None) -> str | None:
        return text if text is None or "://" in text else str((path.parent / text).absolute())

    return msgspec.structs.replace(
        definition,
        checkpoint=place(definition.checkpoint),
        sink=msgspec.structs.replace(definition.sink, lake=place(definition.sink.lake)),
        late=msgspec.structs.replace(definition.late, lake=place(definition.late.lake)),
    )


def parse_definition(text: str, file: str) -> Definition:
    """Check the text of a file."""
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"{file} is not TOML: {error}") from error
    try:
        definition = msgspec.convert(values, Definition)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{file}: {_sentence(str(error), values)}") from error
    _Checks(file).all_of(definition)
    return definition


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > _FILE_BYTES_MAX:
            raise InvalidRequest(f"{path} has more than {_FILE_BYTES_MAX} bytes; name another file")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidRequest(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"{path} is not UTF-8 text; save it as such") from error


def _sentence(text: str, values: dict[str, Any]) -> str:
    """Return what msgspec found, with the value that it is about."""
    found = _PLACE.fullmatch(text)
    what, place = (found[1], found[2] or "") if found else (text, "")
    value, kind = _at(values, place)
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", what)
    if unknown:
        name = f"{place}.{unknown[1]}".lstrip(".")
        known = ", ".join(kind.__struct_fields__) if kind else ""
        return f"{name} = {value[unknown[1]]!r} is not known; use some of {known}"
    missing = re.fullmatch(r"Object missing required field `(.*)`", what)
    if missing:
        return f"{f'{place}.{missing[1]}'.lstrip('.')} is missing; add it"
    return f"{place} is {value!r}: {what[0].lower()}{what[1:]}"


def _at(values: dict[str, Any], place: str) -> tuple[Any, Any]:
    """Return the value at `window.size`, and the kind of table that it is."""
    value: Any = values
    kind: Any = Definition
    for step in re.findall(r"[^.\[\]]+", place):
        if isinstance(value, list):
            value = value[int(step)]
        elif isinstance(value, dict):
            value = value.get(step)
        kind = _TABLES.get(step)
    return value, kind


#: The lengths that a window of each type has.
_LENGTHS = {"tumbling": ("size",), "sliding": ("size", "slide"), "session": ("gap",)}
_TABLES = {"source": Source, "window": Window, "sink": Sink, "late": Late}


class _Checks:
    """Checks that msgspec cannot make."""

    def __init__(self, file: str) -> None:
        self._file = file

    def all_of(self, it: Definition) -> None:
        self._name("name", it.name, NAME_LENGTH_MAX)
        self._not_empty("checkpoint", it.checkpoint)
        self._positive("trigger", it.trigger)
        self._source(it.source)
        self._target("sink", it.sink, is_needed=True)
        self._target("late", it.late, is_needed=False)
        for table in ("fields", "select", "aggregations"):
            self._columns(it, table)
        if it.window is None:
            self._plain(it)
        else:
            self._window(it.window)
            self._parse_window(it)

    def refuse(self, what: str) -> None:
        raise InvalidRequest(f"{self._file}: {what}")

    def _source(self, source: Source) -> None:
        chosen = [n for n in ("queue", "pattern", "namespace", "task") if getattr(source, n)]
        if not chosen:
            self.refuse("source names nothing; add queue, pattern, namespace or task to it")
        if len(chosen) > 1 and chosen != ["namespace", "task"]:
            self.refuse(f"source.{chosen[0]} and source.{chosen[1]} exclude each other; keep one")
        names = [source.queue] if isinstance(source.queue, str) else source.queue or []
        for name in names:
            self._name("source.queue", name)
        for name in source.partitions or []:
            self._name("source.partitions", name)
        self._duration("source.open_transaction_warning", source.open_transaction_warning)
        self._duration("source.retry", source.retry)
        if source.group:
            self._name("source.group", source.group)

    def _target(self, table: str, target: Sink | Late, *, is_needed: bool) -> None:
        given = [name for name in ("queue", "lake") if getattr(target, name) is not None]
        if len(given) > 1:
            self.refuse(f"{table}.queue and {table}.lake exclude each other; keep one")
        if not given and is_needed:
            self.refuse(f"{table} names nothing; add queue or lake to it")
        if target.queue is not None:
            self._name(f"{table}.queue", target.queue)
        if target.lake is not None:
            self._not_empty(f"{table}.lake", target.lake)

    def _columns(self, it: Definition, table: str) -> None:
        taken = {
            "fields": SOURCE_COLUMNS,
            "select": (),
            "aggregations": RESULT_COLUMNS,
        }[table]
        for name, text in getattr(it, table).items():
            if not _NAME.fullmatch(name):
                self.refuse(
                    f"{table}.{name!r} is not a valid name; use letters, digits and underscores"
                )
            if name.lower() in taken or name.startswith("_"):
                self.refuse(f"{table}.{name} is the name of a column of Queen; use another")
            self._not_empty(f"{table}.{name}", text)

    def _plain(self, it: Definition) -> None:
        if it.aggregations:
            first = next(iter(it.aggregations))
            self.refuse(f"aggregations.{first} needs a window; add [window], or use [select]")

    def _parse_window(self, it: Definition) -> None:
        if not it.aggregations:
            self.refuse('window needs [aggregations]; add one, as in messages = "count(*)"')
        if it.select:
            first = next(iter(it.select))
            self.refuse(f"select.{first} is for streams without a window; use [aggregations]")

    def _window(self, window: Window) -> None:
        if window.type not in _LENGTHS:
            self.refuse(f"window.type is {window.type!r}; use {', '.join(_LENGTHS)}")
        for name in ("size", "slide", "gap"):
            value = getattr(window, name)
            is_wanted = name in _LENGTHS[window.type]
            if is_wanted and value is None:
                self.refuse(f"window.{name} is missing; a {window.type} window needs it")
            if not is_wanted and value is not None:
                fits = " and ".join(_LENGTHS[window.type])
                self.refuse(
                    f"window.{name} is {value!r}; a {window.type} window has only {fits}: remove it"
                )
            if value is not None:
                self._positive(f"window.{name}", value)
        if window.type == "sliding" and milliseconds(window.slide) > milliseconds(window.size):
            self.refuse(
                f"window.slide is {window.slide!r}, more than window.size: messages between two"
                " windows would be lost; make it smaller"
            )
        self._duration("window.watermark", window.watermark)
        self._duration("window.ahead", window.ahead)
        self._not_empty("window.time", window.time)

    def _name(self, key: str, value: str, longest: int = 255) -> None:
        problem = name_problem(value)
        if not problem and len(value) > longest:
            problem = f"has {len(value)} characters, more than {longest}"
        if problem:
            self.refuse(f"{key} {value!r} {problem}; give it 1 to {longest} characters")

    def _not_empty(self, key: str, value: str) -> None:
        if not value.strip():
            self.refuse(f"{key} is empty; leave it out or give it")

    def _duration(self, key: str, value: str) -> int:
        found = parse_duration(value)
        if found is None:
            self.refuse(
                f"{key} is {value!r}, which is not a duration of up to a year;"
                ' write it like "10 minutes"'
            )
        return found or 0

    def _positive(self, key: str, value: str) -> None:
        if self._duration(key, value) == 0:
            self.refuse(f"{key} is {value!r}; use more than 0")
