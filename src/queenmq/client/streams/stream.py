"""Owns `Stream`: a chain of steps over a queue, to be run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from queenmq.client.streams.chain import Chain, config_hash, make_chain
from queenmq.client.streams.folding import Aggregate, Reduce
from queenmq.client.streams.functions import UserFunction
from queenmq.client.streams.gates import Gate
from queenmq.client.streams.runner import RunKeywords, Runner
from queenmq.client.streams.steps import Filter, FlatMap, Foreach, KeyBy, Map, Sink, queue_name
from queenmq.client.streams.windows import Cron, Session, Sliding, Tumbling

if TYPE_CHECKING:
    from queenmq.client.client import Queen
    from queenmq.client.queue import Queue

#: Names of the JavaScript SDK that the official Python SDK takes as well.
_ALIASES = {
    "gracePeriod": "grace_period",
    "idleFlushMs": "idle_flush_ms",
    "eventTime": "event_time",
    "allowedLateness": "allowed_lateness",
    "onLate": "on_late",
}


class WindowKeywords(TypedDict, total=False):
    """Keyword arguments of all windows. Times are seconds, but for `idle_flush_ms`."""

    #: How long a window stays open after its end.
    grace_period: float
    #: How often to close windows that ended while no message came; 0: never.
    idle_flush_ms: int
    #: Gives the time of a message; without it that is when it was pushed.
    event_time: Callable[[Any], Any]
    #: How far the clock of event time stays behind the latest message.
    allowed_lateness: float
    #: How to treat a message that is later than that: "drop" (the default) or "include".
    on_late: str


class Stream:
    """A chain of steps. Each method returns a new stream with one more; `run` starts it.

    The names are those of the official SDK. Functions may be async.
    """

    def __init__(
        self, source: Any, steps: tuple[Any, ...] = (), queen: Queen | None = None
    ) -> None:
        self._source = source
        self._steps = steps
        self._queen = queen if queen is not None else getattr(source, "_queen", None)

    @classmethod
    def from_(cls, queue: Queue | str, **_options: Any) -> Stream:
        """Begin with a queue: `Stream.from_(queen.queue("orders"))`."""
        return cls(queue)

    from_queue = from_

    # Without state.

    def map(self, fn: UserFunction) -> Stream:
        """Replace the value. Before a window `fn` gets the message, after it the value."""
        return self._with(Map(fn))

    def filter(self, predicate: UserFunction) -> Stream:
        """Keep what the predicate is true for."""
        return self._with(Filter(predicate))

    def flat_map(self, fn: UserFunction) -> Stream:
        """Replace the value by those of a list."""
        return self._with(FlatMap(fn))

    def key_by(self, fn: Callable[[Any], Any]) -> Stream:
        """Keep state by this key of a message, within its partition."""
        return self._with(KeyBy(fn))

    # Windows.

    def window_tumbling(self, seconds: float, **how: Unpack[WindowKeywords]) -> Stream:
        """Cut time into windows of one length."""
        return self._with(Tumbling(seconds, **_rename_options(how)))

    def window_sliding(self, size: float, slide: float, **how: Unpack[WindowKeywords]) -> Stream:
        """Cut time into windows of `size` seconds that begin every `slide` seconds."""
        return self._with(Sliding(size, slide, **_rename_options(how)))

    def window_session(self, gap: float, **how: Unpack[WindowKeywords]) -> Stream:
        """Group messages of a key that are at most `gap` seconds apart."""
        return self._with(Session(gap, **_rename_options(how)))

    def window_cron(self, every: str, **how: Unpack[WindowKeywords]) -> Stream:
        """Cut time by the clock: every second, minute, hour, day or week."""
        return self._with(Cron(every, **_rename_options(how)))

    def reduce(self, fn: Callable[[Any, Any], Any], initial: Any = None) -> Stream:
        """Fold the values of a window: `fn(total, value)`."""
        return self._with(Reduce(fn, initial))

    def aggregate(self, extractors: Mapping[str, Callable[[Any], Any]]) -> Stream:
        """Count and sum values of a window by name; also `min`, `max` and `avg`."""
        return self._with(Aggregate(extractors))

    def gate(self, fn: Callable[..., Any]) -> Stream:
        """Pass messages on, or keep them for later: `fn(value, context)` returns a bool."""
        return self._with(Gate(fn))

    # The end.

    def to(self, queue: Queue | str, partition: str | Callable[[Any], Any] | None = None) -> Stream:
        """Push to a queue, exactly once; to the partition of the source unless another is given."""
        return self._with(Sink(queue, partition))

    def foreach(self, fn: UserFunction) -> Stream:
        """Call a function, at least once for each value."""
        return self._with(Foreach(fn))

    flatMap = flat_map
    keyBy = key_by
    windowTumbling = window_tumbling
    windowSliding = window_sliding
    windowSession = window_session
    windowCron = window_cron

    @property
    def config_hash(self) -> str:
        """Return the hash of the chain; a query refuses to go on with another one."""
        return config_hash(self._steps)

    def chain(self) -> Chain:
        """Return the steps as they are run; ValueError if they do not fit together."""
        return make_chain(self._steps)

    async def run(
        self, query_id: str, url: str | None = None, **how: Unpack[RunKeywords]
    ) -> Runner:
        """Register the stream as the query of this name, and start it.

        Runs until `stop()` of what this returns. Start it in as many processes as you like: they
        share the partitions. `url` is not needed: the stream uses the client of its source.
        """
        if not query_id:
            raise ValueError("run needs a query_id, the name under which state is kept")
        if self._queen is None:
            raise ValueError("the stream has no client; begin it with queen.stream('orders')")
        runner = Runner(
            self._queen, queue_name(self._source), self.chain(), query_id, self.config_hash, how
        )
        await runner.start()
        return runner

    def _with(self, step: Any) -> Stream:
        return Stream(self._source, (*self._steps, step), self._queen)


def _rename_options(how: Mapping[str, Any]) -> dict[str, Any]:
    return {_ALIASES.get(name, name): value for name, value in how.items()}
