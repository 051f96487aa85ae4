"""Brokers that take turns on the same work: requests a second, and CPU per request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from benchmarks import scenario, wrk
from benchmarks.broker import BenchmarkError, Broker
from benchmarks.experiment import Context, Row
from benchmarks.figures import median, ratios, with_spread
from benchmarks.preload import preload

#: Of one turn.
SECONDS = 4
#: Messages ready for the first turn of pops, as a part of what their scenario is stocked for.
_STOCK = 0.6
#: A turn of pops that empties its queue is taken again, with twice as much, this often at most.
_TRIES_MAX = 3
#: The partition that acks name. No client has leased it, so they are refused.
_PARTITION = "00000000-0000-4000-8000-000000000001"


@dataclass
class Side:
    """One of the brokers, and what was measured of it, turn by turn and by kind of request."""

    broker: Broker
    per_s: dict[str, list[float]] = field(default_factory=dict)
    cpu_us: dict[str, list[float]] = field(default_factory=dict)
    #: How many messages a turn of this kind finds in its queue.
    stocks: dict[str, int] = field(default_factory=dict)

    def take_turn(self, kind: str, queue: str, *, headers: Sequence[str] = ()) -> None:
        """Send requests of a kind: the name of a scenario, or ack-1."""
        for number in range(1, _TRIES_MAX + 1):
            if self._try_turn(kind, f"{queue}-{number}", headers):
                return
            self.stocks[kind] *= 2
        raise BenchmarkError(f"{kind}: {_TRIES_MAX} queues were emptied before the end of a turn")

    def _try_turn(self, kind: str, queue: str, headers: Sequence[str]) -> bool:
        """Take a turn on this queue, and return whether it lasted to the end."""
        stock = None
        if kind == "ack-1":
            script, arguments = "ack", [f"partition={_PARTITION}"]
        else:
            one = scenario.load(kind)
            script, arguments = one.script, one.arguments(queue)
            if one.rate is not None:
                wanted = self.stocks.setdefault(kind, int(one.rate * SECONDS * _STOCK))
                stock = self._fill(queue, one.partitions, wanted)
        before = self.broker.usage().broker_cpu_s
        seen = wrk.run(self.broker.url, script, arguments, seconds=SECONDS, headers=headers)
        used_s = self.broker.usage().broker_cpu_s - before
        if seen.failed or seen.broken:
            raise BenchmarkError(f"{kind}: {seen.failed} failed, {seen.broken} broken")
        if stock is not None and seen.messages >= stock:
            return False
        self.per_s.setdefault(kind, []).append(seen.requests_per_s)
        self.cpu_us.setdefault(kind, []).append(used_s / seen.requests * 1e6)
        return True

    def _fill(self, queue: str, partitions: int, messages: int) -> int:
        address = self.broker.address
        return preload(address, queue=queue, partitions=partitions, messages=messages)


def take_turns(
    context: Context, sides: Mapping[str, Side], kinds: Sequence[str], *, headers: Sequence[str]
) -> None:
    """Give each side its turns. The first round warms up and is left out."""
    for number in range(context.rounds + 1):
        # Each is first in every second round: what one leaves to do hits the other.
        order = list(sides.items())
        for name, side in order if number % 2 else reversed(order):
            for kind in kinds:
                side.take_turn(kind, f"{name}-{kind}-{number}", headers=headers)
        context.say(f"{number} of {context.rounds} rounds")
    for side in sides.values():
        for found in (*side.per_s.values(), *side.cpu_us.values()):
            del found[0]


def compare(what: str, base: str, sides: Mapping[str, Side], *, target: float) -> list[Row]:
    """Return the rate of one side against that of the other, with the CPU of both."""
    rows = []
    this, other = sides[what], sides[base]
    for kind, found in this.per_s.items():
        shape = f"{wrk.CONNECTIONS} connections, {len(found)} alternating rounds"
        share = ratios(found, other.per_s[kind])
        more = ratios(this.cpu_us[kind], other.cpu_us[kind])
        rates = f"{median(other.per_s[kind]):,.0f}/s {base}, {median(found):,.0f}/s {what}"
        costs = f"{median(other.cpu_us[kind]):.1f} us {base}, {median(this.cpu_us[kind]):.1f} us"
        rows += [
            Row(
                what=f"{kind}: rate",
                shape=shape,
                measured=f"{with_spread(share, 'x', digits=3)}; {rates}",
                target=f">= {target}x",
                is_reached=median(share) >= target,
            ),
            Row(
                what=f"{kind}: CPU of the broker",
                shape=shape,
                measured=f"{with_spread(more, 'x', digits=3)}; {costs} {what}",
            ),
        ]
    return rows
