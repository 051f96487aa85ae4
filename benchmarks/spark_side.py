"""Spark as a side of an experiment: sessions in processes of their own, and the JDBC driver."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.broker import BenchmarkError
from benchmarks.cores import stay_on
from benchmarks.scenario import HERE

#: Of a piece of work; a session that takes longer hangs.
_ANSWER_S = 600
_STOP_S = 60
_JARS = "org/postgresql/postgresql/*/postgresql-*.jar"
#: What to say where a side is missing.
NO_JAR = "no PostgreSQL driver for JDBC: name its jar by QUEEN_JDBC_JAR"


@dataclass(frozen=True)
class Done:
    """A piece of work."""

    seconds: float
    rows: int


class SparkSide:
    """One session."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self._process = process
        self._log = log

    async def work(self, name: str, **arguments: Any) -> Done:
        """Have one piece of work done; the methods of `spark_worker.Worker` say which there are."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"work": name, **arguments}).encode() + b"\n")
        answer = await self.answer()
        if "error" in answer:
            raise BenchmarkError(f"{name} failed with {answer['error']}")
        return Done(answer["seconds"], answer["rows"])

    async def answer(self) -> dict[str, Any]:
        """The next line."""
        assert self._process.stdout is not None
        async with asyncio.timeout(_ANSWER_S):
            line = await self._process.stdout.readline()
        if not line:
            raise BenchmarkError(f"Spark has ended: {self._log.read_text()[-2000:]}")
        found: dict[str, Any] = json.loads(line)
        return found

    async def stop(self) -> None:
        """It ends with its input, and its JVM with it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(_STOP_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


@contextlib.asynccontextmanager
async def running_spark(
    master: str, jar: Path | None = None, *, cores: Collection[int] = ()
) -> AsyncIterator[SparkSide]:
    """A session, ready for work, on these cores or on all."""
    with tempfile.TemporaryDirectory(prefix="queen-bench-") as home:
        log = Path(home) / "spark.log"
        command = [
            sys.executable,
            "-m",
            "benchmarks.spark_worker",
            master,
            *([str(jar)] if jar else []),
        ]
        with log.open("w") as errors:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                cwd=HERE.parent,
                # Ctrl-C is for run.py, which then stops it in order.
                start_new_session=True,
                preexec_fn=stay_on(cores) if cores else None,
            )
        side = SparkSide(process, log)
        try:
            await side.answer()
            yield side
        finally:
            await side.stop()


def find_jar() -> Path | None:
    """The PostgreSQL driver for JDBC: the one that is named, else one that Maven has fetched."""
    named = os.environ.get("QUEEN_JDBC_JAR")
    if named:
        if not Path(named).is_file():
            raise BenchmarkError(f"QUEEN_JDBC_JAR names {named}, which is not there")
        return Path(named)
    return max((Path.home() / ".m2" / "repository").glob(_JARS), default=None)
