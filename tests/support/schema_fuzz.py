"""Schemathesis against a broker, by its OpenAPI document: `make fuzz` runs it."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.broker import running_broker


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", help="schemathesis, from an environment of its own")
    parser.add_argument("--examples", type=int, default=100, help="per operation")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as home,
        # Pops that are asked to wait do not hold a run up for minutes.
        running_broker(data_dir=Path(home) / "data", QUEEN_MAX_TIMEOUT_MS="50") as broker,
    ):
        command = [asked.program, "run", f"{broker.url}/openapi.json", "--phases", "fuzzing"]
        command += ["--checks", "not_a_server_error", "--max-examples", str(asked.examples)]
        command += ["--seed", str(asked.seed), "--request-timeout", "60", "--continue-on-failure"]
        sys.exit(subprocess.run(command, cwd=home).returncode)


if __name__ == "__main__":
    main()
