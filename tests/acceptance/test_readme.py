"""The README runs from top to bottom, command by command."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.folders import make_folder
from tests.support.readme import blocks, cloned, comparable

#: A dozen commands of half a second, on a machine that has other things to do.
_ALL_S = 240.0


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not pytest's own directory: its path is too long for a socket and closed to other users.
    path = make_folder()
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@pytest.mark.timeout(300)
def test_every_block_runs_in_order_and_prints_what_the_readme_shows(folder: Path) -> None:
    everything = blocks()
    (starter,) = [block for block in everything if block.mark == "in the background"]
    chosen = [block for block in everything if block.is_run and not block.mark]
    with cloned(folder, starter) as clone:
        printed = clone.run(chosen, timeout_s=_ALL_S)
    for block, after in itertools.pairwise(everything):
        if block in chosen and after.language in ("text", "json"):
            assert comparable(printed[block.number]) == comparable(after.text), after.text


def test_every_block_is_run_or_says_why_not() -> None:
    marks = {block.mark.partition(",")[0] for block in blocks()}
    assert marks == {"", "in the background", "make jobs", "not run"}
    assert {block.language for block in blocks()} == {"sh", "python", "sql", "text", "json"}
