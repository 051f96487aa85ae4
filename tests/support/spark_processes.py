"""Drivers of Spark as process groups, whose executors can be killed one by one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

#: Two executors of a core each. Spark has it for its own tests: a driver, a master and workers.
CLUSTER = "local-cluster[2,1,1024]"
#: Tasks are run twice whenever one takes a little longer than the others.
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.5",
    # A failing executor is no fault of the tasks that it ran.
    "spark.task.maxFailures": "8",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.showConsoleProgress": "false",
}
_EXECUTOR = "CoarseGrainedExecutorBackend"


class SparkProcess:
    """A driver with its executors, as a process group of its own with a log."""

    def __init__(self, command: list[str], log: Path) -> None:
        self._log = log.open("a+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", *command],
            stdout=self._log,
            stderr=self._log,
            cwd=Path(__file__).parents[2],
            start_new_session=True,
        )

    def is_done(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        """End all of it at once; safe to call after its end."""
        if not self.is_done():
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()

    def last_words(self) -> str:
        self._log.seek(0)
        return self._log.read()[-3000:]

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
