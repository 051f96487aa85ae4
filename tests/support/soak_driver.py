"""A stream from queue to queue on a small cluster, as a process of its own, to be killed.

    python -m tests.support.soak_driver <database url> <checkpoint> <on or once>

Executors are processes, tasks that take long are speculated, and `once` ends when everything that
was there is written.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

CLUSTER = "local-cluster[2,1,1024]"
SOURCE, TARGET = "soak", "soaked"
_EXECUTOR = "CoarseGrainedExecutorBackend"


class SoakDriver:
    """A driver with its executors, as a process group of its own."""

    def __init__(self, url: str, checkpoint: Path, *, is_once: bool = False) -> None:
        self._log = (checkpoint.parent / "driver.log").open("a+")
        how = "once" if is_once else "on"
        self.process = subprocess.Popen(
            [sys.executable, "-m", __name__, url, str(checkpoint), how],
            stdout=self._log,
            stderr=self._log,
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        )

    def is_done(self) -> bool:
        return self.process.poll() is not None

    def executors(self) -> list[int]:
        """The processes of the executors that run now."""
        found = []
        for folder in Path("/proc").iterdir():
            if not folder.name.isdigit():
                continue
            try:
                is_ours = os.getpgid(int(folder.name)) == self.process.pid
                if is_ours and _EXECUTOR in (folder / "cmdline").read_text():
                    found.append(int(folder.name))
            except OSError:
                # It has just ended.
                continue
        return sorted(found)

    def kill_executor(self, number: int) -> bool:
        """End one of the executors; whether there was one."""
        running = self.executors()
        if running:
            os.kill(running[number % len(running)], signal.SIGKILL)
        return bool(running)

    def kill(self) -> None:
        """End all of it at once; safe to call after its end."""
        if not self.is_done():
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()

    def last_words(self) -> str:
        self._log.seek(0)
        return self._log.read()[-3000:]


def main(url: str, checkpoint: str, how: str) -> None:
    import queenmq.spark

    config = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        # A failing executor is no fault of the tasks that it ran.
        "spark.task.maxFailures": "8",
        "spark.sql.shuffle.partitions": "4",
    }
    spark = queenmq.spark.session("soak", master=CLUSTER, quick=True, config=config)
    spark.sparkContext.setLogLevel("ERROR")
    rows = (
        spark.readStream.format("queen")
        .options(url=url, queue=SOURCE, startingOffsets="earliest", maxMessagesPerTrigger="20000")
        .load()
        .select("partition", "seq", "payload")
    )
    writer = (
        queenmq.spark.by_partition(rows)
        .writeStream.format("queen")
        .options(url=url, queue=TARGET, sortWithin="seq", checkpointLocation=checkpoint)
    )
    if how == "once":
        writer = writer.trigger(availableNow=True)
    writer.start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
