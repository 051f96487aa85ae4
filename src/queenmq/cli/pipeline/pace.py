"""Pure: how fast a job is, and how long it will take."""

from __future__ import annotations

#: Before that, a rate is noise.
_LEAST_S = 1.0


class Pace:
    """The pace of each kind that a job counts. Batches alternate, so each kind is timed whole."""

    def __init__(self) -> None:
        #: When a thing began, and how much of it was done by then.
        self._begun: dict[str, tuple[float, int]] = {}

    def note(self, what: str, done: int | None, total: int | None, *, now_s: float) -> str:
        """Return `300,000 of 1,000,000, 45,000/s, 16 s left`, as far as it is known."""
        if done is None:
            # A job that waits, or begins something else, is not slow.
            self._begun.clear()
            return ""
        began_s, first = self._begun.setdefault(what, (now_s, done))
        parts = [f"{done:,}" if total is None else f"{done:,} of {total:,}"]
        elapsed = now_s - began_s
        rate = (done - first) / elapsed if elapsed >= _LEAST_S else 0.0
        if rate > 0:
            parts.append(f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.1f}/s")
            if total is not None and total > done:
                parts.append(f"{_length((total - done) / rate)} left")
        return ", ".join(parts)


def _length(seconds: float) -> str:
    whole = max(1, round(seconds))
    minutes, rest = divmod(whole, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
