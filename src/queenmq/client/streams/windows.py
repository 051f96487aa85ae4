"""Windows: which ones an event belongs to. Pure, but for the user's function of the event time.

Tags and keys of state are those of the official SDK, so that a stream may change its client and
keep its state.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, ClassVar, NamedTuple

from queenmq.client.streams.functions import await_result

_SEPARATOR = "\x1f"
_EVERY_MS = {
    "second": 1_000,
    "minute": 60_000,
    "hour": 3_600_000,
    "day": 86_400_000,
    "week": 7 * 86_400_000,
}
#: 1970 began on a Thursday; weeks begin on Mondays.
_WEEK_OFFSET_MS = 4 * 86_400_000


class Window(NamedTuple):
    """A span of time, as milliseconds since 1970; the end is not part of it."""

    start: int
    end: int

    @property
    def key(self) -> str:
        return to_iso(self.start)


class WindowStep:
    """The base of all windows."""

    kind: ClassVar[str] = "window"
    name: ClassVar[str]

    def __init__(
        self,
        tag: str,
        shape: dict[str, Any],
        *,
        grace_period: float = 0,
        idle_flush_ms: int,
        event_time: Callable[[Any], Any] | None = None,
        allowed_lateness: float = 0,
        on_late: str | None = None,
    ) -> None:
        if event_time is not None and not callable(event_time):
            raise TypeError(f"event_time takes a function of the message, not {event_time!r}")
        if on_late not in (None, "drop", "include"):
            raise ValueError(f"on_late {on_late!r} is unknown; use 'drop' or 'include'")
        for field, given in (
            ("grace_period", grace_period),
            ("allowed_lateness", allowed_lateness),
        ):
            if given < 0:
                raise ValueError(f"{field} {given!r} must be a number of seconds, 0 or more")
        self.tag = tag
        self.grace_ms = int(grace_period * 1000)
        self.idle_flush_ms = max(0, int(idle_flush_ms))
        self.event_time = event_time
        self.lateness_ms = int(allowed_lateness * 1000)
        self.drops_late = on_late != "include"
        self.config: dict[str, Any] = {
            "kind": f"window-{self.name}",
            **shape,
            "gracePeriod": grace_period,
            "idleFlushMs": self.idle_flush_ms,
            "eventTime": event_time is not None,
            "allowedLateness": allowed_lateness,
            "onLate": on_late or "drop",
        }

    async def time_of(self, message: Any) -> int:
        """Return when a message happened, or was pushed, in milliseconds since 1970."""
        given = message.get("createdAt")
        if self.event_time is not None:
            given = await await_result(self.event_time(message))
        time = to_ms(given)
        if time is None:
            raise ValueError(
                f"the time {given!r} of a message cannot be used; event_time returns milliseconds,"
                " an ISO 8601 time or a datetime"
            )
        return time

    def windows_at(self, time: int) -> list[Window]:
        """Return the windows that a time belongs to, the latest first."""
        raise NotImplementedError

    def state_key(self, window_key: str, user_key: str) -> str:
        """Return the key under which a window's value is kept."""
        return _SEPARATOR.join((self.tag, window_key, user_key))

    def read_key(self, state_key: str) -> tuple[str, str] | None:
        """Return window and user key of a key of state, or None if it is none of this step."""
        parts = state_key.split(_SEPARATOR, 2)
        return (parts[1], parts[2]) if len(parts) == 3 and parts[0] == self.tag else None


class Tumbling(WindowStep):
    """Windows of one length, one after the other."""

    name = "tumbling"

    def __init__(self, seconds: float, *, idle_flush_ms: int = 5_000, **how: Any) -> None:
        self._size_ms = _positive("window_tumbling", "seconds", seconds)
        super().__init__(
            f"tumb:{seconds}", {"seconds": seconds}, idle_flush_ms=idle_flush_ms, **how
        )

    def windows_at(self, time: int) -> list[Window]:
        start = time - time % self._size_ms
        return [Window(start, start + self._size_ms)]


class Sliding(WindowStep):
    """Windows of one length that overlap: one begins every `slide` seconds."""

    name = "sliding"

    def __init__(
        self, size: float, slide: float, *, idle_flush_ms: int = 5_000, **how: Any
    ) -> None:
        self._size_ms = _positive("window_sliding", "size", size)
        self._slide_ms = _positive("window_sliding", "slide", slide)
        if self._size_ms % self._slide_ms:
            raise ValueError(f"window_sliding: size {size} must be a multiple of slide {slide}")
        super().__init__(
            f"slide:{size}:{slide}",
            {"size": size, "slide": slide},
            idle_flush_ms=idle_flush_ms,
            **how,
        )

    def windows_at(self, time: int) -> list[Window]:
        latest = time - time % self._slide_ms
        starts = range(latest, time - self._size_ms, -self._slide_ms)
        return [Window(start, start + self._size_ms) for start in starts]


class Cron(WindowStep):
    """Windows by the clock, in UTC: each second, minute, hour, day, or week from Monday."""

    name = "cron"

    def __init__(self, every: str, *, idle_flush_ms: int = 30_000, **how: Any) -> None:
        if every not in _EVERY_MS:
            raise ValueError(f"window_cron: every {every!r} is unknown; use {'|'.join(_EVERY_MS)}")
        self._size_ms = _EVERY_MS[every]
        self._offset_ms = _WEEK_OFFSET_MS if every == "week" else 0
        super().__init__(f"cron:{every}", {"every": every}, idle_flush_ms=idle_flush_ms, **how)

    def windows_at(self, time: int) -> list[Window]:
        start = time - (time - self._offset_ms) % self._size_ms
        return [Window(start, start + self._size_ms)]


class Session(WindowStep):
    """Windows of activity: one ends when its key is quiet for longer than the gap."""

    name = "session"

    def __init__(self, gap: float, *, idle_flush_ms: int = 1_000, **how: Any) -> None:
        self.gap_ms = _positive("window_session", "gap", gap)
        super().__init__(f"sess:{gap}", {"gap": gap}, idle_flush_ms=idle_flush_ms, **how)

    def open_key(self, user_key: str) -> str:
        """Return the key under which the open session of a user key is kept."""
        return self.state_key("open", user_key)


def to_ms(time: Any) -> int | None:
    """Return a time as milliseconds since 1970, or None if it is none."""
    if isinstance(time, bool):
        return None
    if isinstance(time, int | float):
        return int(time)
    if isinstance(time, str):
        try:
            time = datetime.fromisoformat(time.strip())
        except ValueError:
            return None
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
    return int(time.timestamp() * 1000) if isinstance(time, datetime) else None


def to_iso(ms: int) -> str:
    """Return a time as text, in UTC with milliseconds."""
    text = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")


def _positive(step: str, field: str, seconds: Any) -> int:
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    if not is_number or seconds * 1000 < 1:
        raise ValueError(f"{step}: {field} {seconds!r} must be a number of seconds above 0")
    return int(seconds * 1000)
