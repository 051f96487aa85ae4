"""Every module says what it is for and stands in a layer; every dependency is pinned."""

from __future__ import annotations

import ast
import re
import tomllib
from typing import Any

from tests.tidy.repo import ROOT, assert_none, parse, read_bytes, select_files

SRC = "src/queenmq/"
#: Outside the layers: the package's face, its runner, and pages without Python.
LAYERLESS = {"__init__", "__main__", "dashboard"}
#: Beside the package: what Spark finds by its name.
REGISTRATION = "src/pyspark_queen/__init__.py"


def _pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_every_module_has_a_docstring() -> None:
    assert_none(
        (
            name
            for name in select_files(suffix=".py")
            if read_bytes(name).strip() and not ast.get_docstring(parse(name))
        ),
        rule="a module says what it owns and what it must not do",
    )


def test_every_module_stands_in_a_layer() -> None:
    contracts = _pyproject()["tool"]["importlinter"]["contracts"]
    layers = " ".join(layer for contract in contracts for layer in contract.get("layers", []))
    known = LAYERLESS | set(re.findall(r"queenmq\.(\w+)", layers))
    assert_none(
        (
            name
            for name in select_files(under="src/", suffix=".py")
            if name != REGISTRATION
            and (
                not name.startswith(SRC)
                or name.removeprefix(SRC).partition("/")[0].removesuffix(".py") not in known
            )
        ),
        rule="name the module in a layers contract of pyproject.toml",
    )


def test_every_package_has_an_init() -> None:
    files = set(select_files(under=SRC, suffix=".py"))
    packages = {name.rpartition("/")[0] for name in files}
    assert_none(
        (package for package in packages if f"{package}/__init__.py" not in files),
        rule="a folder with modules is a package",
    )


def test_constraints_pin_every_dependency() -> None:
    project = _pyproject()["project"]
    extras = project["optional-dependencies"]
    core = [*project["dependencies"], *extras["server"], *extras["dev"]]
    pinned = _pins("constraints.txt")
    assert_none((n for n in map(_name, core) if n not in pinned), rule="run make constraints")
    pinned |= _pins("constraints-spark.txt")
    spark = {_name(one) for one in [*extras["spark-cluster"], *extras["spark"]]}
    spark -= {project["name"]}
    assert_none((n for n in sorted(spark) if n not in pinned), rule="run make constraints")


def _name(requirement: str) -> str:
    match = re.match(r"[\w.-]+", requirement)
    assert match, requirement
    return re.sub(r"[-_.]+", "-", match.group()).lower()


def _pins(file: str) -> set[str]:
    lines = [line for line in (ROOT / file).read_text().splitlines() if not line.startswith("#")]
    loose = [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.!+]+", line)]
    assert_none(loose, rule=f"{file} holds exact pins only")
    return {_name(line) for line in lines}
