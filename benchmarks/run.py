"""Measures scenarios and experiments one after the other, each on a fresh broker, prints tables.

Scenarios say how fast; experiments compare and have a target. `make bench` runs all but those of
Spark, `make bench ARGS='spark'` those, `make bench ARGS='push-10 pop-10 latency --seconds 5'` some.
With scenarios the floor, a bare
`GET /health/live`, is always measured too, so that results can be read as ratios. A missed target
is said in the table; only a measurement that is invalid makes the run fail.
"""

from __future__ import annotations

import argparse
import asyncio
import shlex
import signal
import sys
import traceback
from pathlib import Path

import asyncpg

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import experiment, report, scenario, wrk
from benchmarks.broker import BenchmarkError, Broker, running_broker
from benchmarks.database import queries, running_database
from benchmarks.experiment import Context, Findings
from benchmarks.preload import preload
from benchmarks.scenario import FLOOR, HERE, Scenario
from benchmarks.work import STATEMENTS, DatabaseWork

#: Asks for all experiments whose names begin with it.
_SPARK = "spark"
#: Run only by name: they need servers of others.
_BY_NAME = ("flame", "peers")
#: A pop that empties its queue starts again on another one with twice as much, this often.
_TRIES_MAX = 3


async def measure(one: Scenario, options: argparse.Namespace) -> report.Measurement:
    """Warm caches, plans and pools on queues that are not measured, then let wrk run."""
    async with running_database(preload=STATEMENTS) as database:
        async with database.connection() as connection:
            await connection.execute(queries()["count_statements"])
            with running_broker(workers=options.workers, database=database) as broker:
                bench = Bench(broker, connection, one)
                warm = await bench.run("warm", one.rate or 0, seconds=options.warm_up)
                rate = warm.outcome.messages_per_s * options.reserve
                return await bench.run("bench", rate, seconds=options.seconds)


class Bench:
    """A scenario on a broker and its database."""

    def __init__(self, broker: Broker, connection: asyncpg.Connection, scenario: Scenario) -> None:
        self._broker = broker
        self._connection = connection
        self._scenario = scenario

    async def run(self, queue: str, rate: float, *, seconds: int) -> report.Measurement:
        """One run on a queue of its own that holds enough for this many messages a second."""
        one = self._scenario
        for number in range(1, _TRIES_MAX + 1):
            name = f"{queue}-{number}"
            if one.rate is not None:
                # At least two batches per partition: the end of a queue is not what is measured.
                _stock(self._broker, one, name, max(rate * seconds, 2 * one.batch * one.partitions))
            print(f"{one.name}: running for {seconds} s", flush=True)
            result = await self._run_once(name, seconds)
            if not result.outcome.dry or number == _TRIES_MAX:
                return result
            rate *= 2
            print(f"{one.name}: the queue ran dry; once more with twice as much", flush=True)
        raise AssertionError("the last try returns")

    async def _run_once(self, name: str, seconds: int) -> report.Measurement:
        one = self._scenario
        done = await DatabaseWork.read(self._connection)
        before = self._broker.usage()
        outcome = wrk.run(self._broker.url, one.script, one.arguments(name), seconds=seconds)
        after = self._broker.usage()
        work = (await DatabaseWork.read(self._connection)).since(done)
        return report.Measurement(
            scenario=one, outcome=outcome, before=before, after=after, work=work
        )


def _stock(broker: Broker, one: Scenario, queue: str, messages: float) -> None:
    pushed = preload(broker.address, queue=queue, partitions=one.partitions, messages=int(messages))
    print(f"{one.name}: {pushed:,} messages in queue {queue}", flush=True)


def investigate(name: str, options: argparse.Namespace) -> Findings:
    """Run one experiment. One that fails does not take the results of the others with it."""
    module = experiment.load(name)
    context = Context(name=name, rounds=options.rounds, workers=options.workers)
    context.say(module.ABOUT)
    try:
        rows = asyncio.run(module.run(context))
    except Exception as error:
        if not isinstance(error, BenchmarkError):
            traceback.print_exc()
        reason = f"{type(error).__name__}: {error}"
        context.say(f"failed with {reason}")
        return Findings(name=name, about=module.ABOUT, error=reason)
    return Findings(name=name, about=module.ABOUT, rows=rows)


def _options() -> argparse.Namespace:
    known = [*scenario.names(), *experiment.names()]
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=", ".join(known))
    parser.add_argument("--seconds", type=int, default=10, help="measured time of each scenario")
    parser.add_argument("--warm-up", type=int, default=3, help="seconds before that")
    parser.add_argument(
        "--rounds", type=int, default=5, help="how often the sides of an experiment take turns"
    )
    parser.add_argument("--workers", type=int, default=1, help="broker processes")
    parser.add_argument(
        "--reserve", type=float, default=1.5, help="stock of a pop, as a multiple of its need"
    )
    parser.add_argument("--save", metavar="NAME", help="also write results/NAME.md")
    options = parser.parse_args()
    unknown = set(options.names) - {*known, _SPARK}
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {known}")
    return options


def _chosen(names: list[str], wanted: list[str]) -> list[str]:
    """Those that were asked for; what needs more than a broker is run only by its name."""
    return [name for name in names if name in wanted or _group(name) in (wanted or [""])]


def _group(name: str) -> str:
    return _SPARK if name.startswith(f"{_SPARK}-") else name if name in _BY_NAME else ""


def _main() -> int:
    options = _options()
    machine = report.facts()
    scenarios = _chosen(scenario.names(), options.names)
    if scenarios:
        wrk.find()
        scenarios = [FLOOR, *(name for name in scenarios if name != FLOOR)]
    measurements = [asyncio.run(measure(scenario.load(name), options)) for name in scenarios]
    chosen = _chosen(experiment.names(), options.names)
    findings = [investigate(name, options) for name in chosen]
    results = report.Results(measurements, findings)
    print("\n".join(["", *machine, "", *results.tables()]))
    if options.save:
        path = HERE / "results" / f"{options.save}.md"
        path.parent.mkdir(exist_ok=True)
        command = f"make bench ARGS={shlex.quote(shlex.join(sys.argv[1:]))}"
        path.write_text(report.page(options.save, machine, command, results))
        print(f"\nsaved as {path.relative_to(HERE.parent)}")
    return 0 if results.are_valid else 1


if __name__ == "__main__":
    # A polite end stops the broker as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(_main())
    except BenchmarkError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(130)
