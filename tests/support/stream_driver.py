"""A declared stream as a process of its own, to be killed.

    python -m tests.support.stream_driver <file> <database url> <once or on> <ready file>

writes the last file when Spark is ready, and begins at the first line on its standard input: so the
next one can be made ready while the last one is still at work.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

from tests.support.waiting import wait_until_async

_START_S = 180


class Driver:
    """A driver with its JVM and workers, as a process group of its own."""

    def __init__(self, file: Path, url: str, *, is_once: bool = False) -> None:
        self._log = (file.parent / "driver.log").open("a+")
        self._ready = file.parent / f"ready-{uuid4().hex}"
        how = "once" if is_once else "on"
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(file), url, how, str(self._ready)],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            text=True,
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        )

    async def begin(self) -> None:
        """Wait for Spark, and start the stream."""
        await wait_until_async(
            lambda: self._ready.exists() or self.is_done(),
            timeout_s=_START_S,
            what="Spark to be ready",
        )
        assert not self.is_done(), self.last_words()
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """End all of it at once; safe to call after its end."""
        if self._log.closed:
            return
        if not self.is_done():
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._log.close()

    def is_done(self) -> bool:
        return self.process.poll() is not None

    def last_words(self) -> str:
        self._log.seek(0)
        return self._log.read()[-3000:]


def main(file: str, url: str, how: str, ready: str) -> None:
    import queenmq.spark
    from queenmq.spark.jobs.job import Silent
    from queenmq.spark.jobs.stream import StreamJob
    from queenmq.spark.streams.definition import load_definition

    spark = queenmq.spark.session("driver", master="local[2]", quick=True)
    spark.sparkContext.setLogLevel("OFF")
    Path(ready).touch()
    sys.stdin.readline()
    job = StreamJob(load_definition(Path(file)), file, url, is_once=how == "once")
    job.run(spark, Silent())


if __name__ == "__main__":
    main(*sys.argv[1:])
