"""Only small text files in known places are committed, free of leftovers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from tests.tidy.repo import (
    ROOT,
    all_files,
    assert_none,
    is_vendored,
    is_within,
    own_text_files,
    read_bytes,
)

FILE_BYTES_MAX = 200 * 1024
#: Of other authors' files, which are kept as they came.
VENDORED_BYTES_MAX = 700 * 1024
PICTURE_BYTES_MAX = 64 * 1024
#: Folders and endings that only tools write.
GENERATED_PARTS = {"__pycache__", "build", "dist", "node_modules", "spark-warehouse"}
GENERATED_SUFFIXES = (".pyc", ".pyo", ".so", ".whl", ".egg-info", "_cache", ".log", ".DS_Store")
MARKDOWN_HOMES = (
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "docs/",
    "examples/",
    "benchmarks/results/",
)

# Patterns are spelt so that they do not match their own line.
LEFTOVER = re.compile(r"\b(?:TO" r"DO|FIX" r"ME|XX" r"X|HA" r"CK)\b")
MERGE_MARKER = re.compile(r"^(?:<{7} |={7}$|>{7} )")
MACHINE_PATH = re.compile(r"(?<![\w.~-])/(?:home|root|work|Users)/[\w.]|[A-Z]:\\Users\\")
REGISTRY_HOST = re.compile(
    r"\b(?:pypi\.org|pythonhosted\.org|npmjs\.(?:org|com)|docker\.io|gh" r"cr\.io|qu" r"ay\.io)\b"
)


def test_no_file_is_large() -> None:
    sizes = {name: (ROOT / name).stat().st_size for name in all_files()}
    assert_none(
        (
            f"{name}: {size}"
            for name, size in sizes.items()
            if size > (VENDORED_BYTES_MAX if is_vendored(name) else FILE_BYTES_MAX)
        ),
        rule=f"files stop at {FILE_BYTES_MAX} bytes",
    )


def test_no_file_is_binary() -> None:
    assert_none(
        (name for name in all_files() if _is_binary(name) and not _is_picture(name)),
        rule="files are UTF-8 text, but for small pictures of the docs",
    )


def test_no_cache_or_build_output() -> None:
    assert_none(
        (
            name
            for name in all_files()
            for part in PurePosixPath(name).parts
            if part in GENERATED_PARTS or part.endswith(GENERATED_SUFFIXES)
        ),
        rule="what a tool wrote is not committed",
    )


def test_markdown_is_in_its_places() -> None:
    assert_none(
        (n for n in all_files() if n.lower().endswith(".md") and not is_within(n, MARKDOWN_HOMES)),
        rule=f"Markdown belongs in {', '.join(MARKDOWN_HOMES)}",
    )


def test_no_leftover_markers() -> None:
    assert_none(_matches(LEFTOVER), rule="plans do not live in the tree")


def test_no_merge_markers() -> None:
    assert_none(_matches(MERGE_MARKER), rule="a merge was left half done")


def test_no_path_of_one_machine() -> None:
    assert_none(_matches(MACHINE_PATH), rule="paths are relative or come from settings")


def test_no_registry_host() -> None:
    assert_none(_matches(REGISTRY_HOST), rule="where packages come from is the installer's choice")


def test_lines_and_files_end_cleanly() -> None:
    offences = list(_matches(re.compile(r"[ \t\r]+$")))
    offences += [name for name, text in own_text_files() if text and not text.endswith("\n")]
    assert_none(offences, rule="no blanks at the end of a line, a newline at the end of a file")


def _is_picture(name: str) -> bool:
    is_small = (ROOT / name).stat().st_size <= PICTURE_BYTES_MAX
    return name.startswith("docs/img/") and name.endswith(".png") and is_small


def _is_binary(name: str) -> bool:
    content = read_bytes(name)
    try:
        content.decode()
    except UnicodeDecodeError:
        return True
    return b"\0" in content


def _matches(pattern: re.Pattern[str]) -> Iterator[str]:
    for name, text in own_text_files():
        for number, line in enumerate(text.split("\n"), start=1):
            if pattern.search(line):
                yield f"{name}:{number}: {line.strip()[:100]}"
