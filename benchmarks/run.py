"""Measures scenarios one after the other, each on a fresh broker, and prints a table.

`make bench` runs all; `make bench ARGS='push-10 pop-10 --seconds 5'` some. The floor, a bare
`GET /health/live`, is always measured too, so that results can be read as ratios.
"""

from __future__ import annotations

import argparse
import shlex
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import report, scenario, wrk
from benchmarks.broker import BenchmarkError, Broker, running_broker
from benchmarks.preload import preload
from benchmarks.scenario import FLOOR, HERE, Scenario

#: A pop that empties its queue starts again on another one with twice as much, this often.
_TRIES_MAX = 3


def measure(one: Scenario, options: argparse.Namespace) -> report.Measurement:
    """Warm caches, plans and pools on queues that are not measured, then let wrk run."""
    with running_broker(workers=options.workers) as broker:
        warm = _run_stocked(broker, one, "warm", one.rate or 0, seconds=options.warm_up)
        rate = warm.outcome.messages_per_s * options.reserve
        return _run_stocked(broker, one, "bench", rate, seconds=options.seconds)


def _run_stocked(
    broker: Broker, one: Scenario, queue: str, rate: float, *, seconds: int
) -> report.Measurement:
    """One run on a queue of its own that holds enough for this many messages a second."""
    for number in range(1, _TRIES_MAX + 1):
        name = f"{queue}-{number}"
        if one.rate is not None:
            # At least two batches per partition: the end of a queue is not what is measured.
            _stock(broker, one, name, max(rate * seconds, 2 * one.batch * one.partitions))
        before = broker.usage()
        print(f"{one.name}: running for {seconds} s", flush=True)
        outcome = wrk.run(broker.url, one.script, one.arguments(name), seconds=seconds)
        result = report.Measurement(
            scenario=one, outcome=outcome, before=before, after=broker.usage()
        )
        if not outcome.dry or number == _TRIES_MAX:
            return result
        rate *= 2
        print(f"{one.name}: the queue ran dry; once more with twice as much", flush=True)
    raise AssertionError("the last try returns")


def _stock(broker: Broker, one: Scenario, queue: str, messages: float) -> None:
    pushed = preload(broker.address, queue=queue, partitions=one.partitions, messages=int(messages))
    print(f"{one.name}: {pushed:,} messages in queue {queue}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "scenarios", nargs="*", metavar="scenario", help=", ".join(scenario.names())
    )
    parser.add_argument("--seconds", type=int, default=10, help="measured time of each scenario")
    parser.add_argument("--warm-up", type=int, default=3, help="seconds before that")
    parser.add_argument("--workers", type=int, default=1, help="broker processes")
    parser.add_argument(
        "--reserve", type=float, default=1.5, help="stock of a pop, as a multiple of its need"
    )
    parser.add_argument("--save", metavar="NAME", help="also write results/NAME.md")
    options = parser.parse_args()
    unknown = set(options.scenarios) - set(scenario.names())
    if unknown:
        parser.error(f"no scenario {', '.join(sorted(unknown))}; there are {scenario.names()}")
    return options


def _main() -> int:
    options = _options()
    wrk.find()
    machine = report.facts()
    chosen = options.scenarios or scenario.names()
    names = [FLOOR, *(name for name in chosen if name != FLOOR)]
    measurements = [measure(scenario.load(name), options) for name in names]
    print("\n".join(["", *machine, "", report.table(measurements)]))
    if options.save:
        path = HERE / "results" / f"{options.save}.md"
        path.parent.mkdir(exist_ok=True)
        command = f"make bench ARGS={shlex.quote(shlex.join(sys.argv[1:]))}"
        path.write_text(report.page(options.save, machine, command, measurements))
        print(f"\nsaved as {path.relative_to(HERE.parent)}")
    return 0 if all(one.is_valid for one in measurements) else 1


if __name__ == "__main__":
    # A polite end stops the broker as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(_main())
    except BenchmarkError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
