"""The documentation says what the code does: settings, routes, SQL, modules, links, commands."""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer

from queenmq import errors, settings, wire
from queenmq.cli import main
from queenmq.cli.server import serve
from queenmq.engine.pop import machine as pop_machine
from queenmq.server import app
from queenmq.server.answers import error_responses
from queenmq.server.edge import answers as edge_answers
from queenmq.server.edge import machine
from queenmq.server.routing.openapi import build_document
from queenmq.settings import Settings
from tests.support.routes import find_specs
from tests.tidy.repo import ROOT, assert_none, parse, read_bytes, select_files

SRC = "src/queenmq/"
FUNCTIONS = SRC + "storage/sql/functions/"

PAGES = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md"]
PAGES += [
    name for folder in ("docs/", "examples/") for name in select_files(under=folder, suffix=".md")
]

CODE_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.M | re.S)
HEADING = re.compile(r"^#+ (.+)$", re.M)
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
#: Words that hide who acts. Name the broker, the client, another session, an operator.
VAGUE = re.compile(r"\b(?:somebody|someone|whoever|anybody|everybody)\b", re.I)


def read(name: str) -> str:
    return read_bytes(name).decode()


def rows(text: str) -> Iterator[list[str]]:
    """Yield the cells of each table row, headers and rulers included."""
    for line in text.splitlines():
        if line.startswith("| "):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def differences(documented: set[str], actual: set[str]) -> list[str]:
    """Return in words what only one side has."""
    missing = [f"{name} is not documented" for name in actual - documented]
    return missing + [f"{name} does not exist" for name in documented - actual]


# Settings.


def shown_default(value: object) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    return f"`{value}`" if value != "" else '`""`'


def setting_rows() -> dict[str, list[str]]:
    found = (cells for cells in rows(read("docs/settings.md")) if len(cells) == 5)
    return {cells[0].strip("`"): cells for cells in found if cells[0].startswith("`")}


def test_every_setting_has_its_row_and_no_other() -> None:
    fields = {field.name for field in msgspec.structs.fields(Settings)}
    assert_none(differences(set(setting_rows()), fields), rule="docs/settings.md lists Settings")


@pytest.mark.parametrize("field", msgspec.structs.fields(Settings), ids=lambda field: field.name)
def test_the_row_of_a_setting_is_right(field: Any) -> None:
    flags = inspect.signature(serve.serve).parameters
    flag = f"`--{field.name.replace('_', '-')}`" if field.name in flags else ""
    variable = f"`{settings.PREFIX}{field.name.upper()}`"
    cells = setting_rows()[field.name]
    assert cells[1:4] == [flag, variable, shown_default(field.default)]
    assert cells[4].endswith(".")


# Logs.


def test_every_event_of_the_log_is_documented() -> None:
    pages = {"client": "docs/client.md", "spark": "docs/spark.md"}
    offences, seen = [], 0
    for file in select_files(under=SRC, suffix=".py"):
        page = pages.get(file.removeprefix(SRC).split("/")[0], "docs/operations.md")
        for event in re.findall(r'"event": "(\w+)"', read(file)):
            seen += 1
            if f"`{event}`" not in read(page):
                offences.append(f"{page}: {event}")
    assert seen > 50
    assert_none(offences, rule="every event has a row")


# The HTTP API.


def api_headings() -> set[str]:
    return set(re.findall(r"^### ([A-Z]+ /\S*)$", read("docs/api.md"), re.M))


def nameless(routes: set[str]) -> set[str]:
    return {re.sub(r"\{[^}]*\}", "{}", name) for name in routes}


def test_every_route_is_on_the_api_page_and_no_other() -> None:
    served = {f"{spec.method} {spec.public_path}" for spec in find_specs()}
    assert len(served) == len(find_specs()) > 60
    assert_none(
        differences(nameless(api_headings()), nameless(served)),
        rule="docs/api.md lists the routes",
    )
    for name in api_headings():
        path = re.sub(r"[{}]", "", name.partition(" ")[2]).encode()
        assert app._is_pop(path) is name.startswith("GET /api/v1/pop"), name


def api_sections() -> dict[str, str]:
    """Return the section of each route, by its heading without names of parameters."""
    parts = re.split(r"^### ([A-Z]+ /\S*)\n", read("docs/api.md"), flags=re.M)
    sections = dict(zip(parts[1::2], parts[2::2], strict=True))
    return {re.sub(r"\{[^}]*\}", "{}", name): text for name, text in sections.items()}


def words_of(text: str) -> set[str]:
    """Words in code spans, and the keys of the JSON that is shown."""
    words = {word for code in CODE.findall(text) for word in re.findall(r"\w+", code)}
    return words | set(re.findall(r'"(\w+)":', text))


def test_every_field_of_the_wire_is_on_the_api_page() -> None:
    words = words_of(read("docs/api.md"))
    document = build_document(find_specs(), version="0")
    schemas = document["components"]["schemas"]
    assert len(schemas) > 100
    assert_none(
        (
            f"{schema}.{name}"
            for schema, content in schemas.items()
            for name in content.get("properties", {})
            if name not in words
        ),
        rule="docs/api.md names every field",
    )


def test_every_query_parameter_is_in_the_section_of_its_route() -> None:
    sections = api_sections()
    offences = []
    for spec in find_specs():
        (name,) = nameless({f"{spec.method} {spec.public_path}"})
        known = words_of(sections[name])
        if name.startswith("GET /api/v1/pop"):
            # Said once for all pops.
            known |= words_of(sections["GET /api/v1/pop/queue/{}"])
        offences += [f"{name}: {one}" for one in spec.query if one not in known]
    assert_none(offences, rule="docs/api.md names every query parameter")


def test_every_struct_of_the_wire_is_part_of_the_api() -> None:
    schemas = build_document(find_specs(), version="0")["components"]["schemas"]
    structs = {
        name
        for name, value in vars(wire).items()
        if isinstance(value, type) and issubclass(value, msgspec.Struct)
    }
    # Bases, and what the client reads push results into.
    structs -= {"Answer", "Request", "PushResult"}
    assert_none(differences(set(schemas), structs), rule="every Struct belongs to a route")


def test_every_error_code_is_on_the_api_page_with_its_status() -> None:
    codes = {(row.code, str(row.status)) for row in error_responses.ERRORS}
    codes |= {(code, str(status)) for status, code in edge_answers.CODES.items()}
    codes |= {
        (error_responses.NO_SUCH_ROUTE, "404"),
        (error_responses.METHOD_NOT_ALLOWED, "405"),
        (error_responses.DEFECT.code, "500"),
        ("stopping", "503"),
    }
    written = {
        (code, cells[0])
        for cells in rows(read("docs/api.md"))
        if re.fullmatch(r"\d{3}", cells[0])
        for code in CODE.findall(cells[1])
    }
    assert_none(
        differences({f"{c} {s}" for c, s in written}, {f"{c} {s}" for c, s in codes}),
        rule="docs/api.md lists every code beside its status",
    )


def test_every_queue_option_has_its_default() -> None:
    written = {cells[0]: cells[1] for cells in rows(read("docs/api.md")) if len(cells) == 3}
    fields = msgspec.structs.fields(wire.QueueOptions)
    assert_none(
        (
            f"{field.encode_name}: {written.get(f'`{field.encode_name}`')}"
            for field in fields
            if (written.get(f"`{field.encode_name}`") or "").strip("`")
            != msgspec.json.encode(field.default).decode()
        ),
        rule="docs/api.md has the default of every queue option",
    )


# SQL.


def sql_sections() -> dict[str, str]:
    """The text below each third-level heading of the page."""
    parts = re.split(r"^### (.+)\n", read("docs/sql-functions.md"), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def sql_files() -> dict[str, str]:
    names = select_files(under=FUNCTIONS, suffix=".sql")
    return {name.rpartition("/")[2].removesuffix(".sql"): read(name) for name in names}


def test_every_sql_function_is_documented_and_no_other() -> None:
    assert_none(
        differences(set(sql_sections()), set(sql_files())),
        rule="docs/sql-functions.md has one section per function file",
    )


@pytest.mark.parametrize("name", sql_files())
def test_every_argument_of_a_sql_function_is_documented(name: str) -> None:
    signature = re.search(
        rf"CREATE OR REPLACE FUNCTION queen\.{name}\((.*?)\)\n", sql_files()[name], re.S
    )
    assert signature, f"{name}.sql does not create queen.{name}"
    words = [argument.split() for argument in signature.group(1).split(",") if argument]
    arguments = {word[1] if word[0] == "OUT" else word[0] for word in words}
    missing = arguments - set(CODE.findall(sql_sections()[name]))
    assert_none(missing, rule=f"docs/sql-functions.md names the arguments of {name}")


def test_every_sqlstate_of_ours_is_documented_and_raised() -> None:
    constants = {
        value: name
        for name, value in vars(errors).items()
        if isinstance(value, str) and re.fullmatch(r"QN\d{3}", value)
    }
    assert constants
    documented = {
        cells[0].strip("`"): cells[1].strip("`")
        for cells in rows(read("docs/sql-functions.md"))
        if re.fullmatch(r"`QN\d{3}`", cells[0])
    }
    assert documented == constants
    mentioned = set(re.findall(r"QN\d{3}", " ".join(map(read, PAGES))))
    assert_none(mentioned - set(constants), rule="a code in the docs is in errors.py")
    raised = set(re.findall(r"ERRCODE = '(QN\d{3})'", "\n".join(sql_files().values())))
    assert_none(differences(set(constants), raised), rule="errors.py lists what the SQL raises")


# Modules.


def test_the_tree_lists_the_modules_on_disk() -> None:
    blocks = [text for _, text in CODE_BLOCK.findall(read("docs/modules.md"))]
    (tree,) = [text for text in blocks if re.search(r"^\w+/\w+\.py {2,}\S", text, re.M)]
    lines = [line.split(maxsplit=1) for line in tree.splitlines()]
    assert_none((" ".join(line) for line in lines if len(line) != 2), rule="a path and its purpose")
    listed = [path for path, _ in lines]
    assert len(listed) == len(set(listed)), "a module stands there twice"
    on_disk = {name.removeprefix(SRC) for name in select_files(under=SRC, suffix=".py")}
    modules = {name for name in on_disk if not name.endswith("__init__.py")}
    assert_none(differences(set(listed), modules), rule="docs/modules.md lists src/queenmq")


def defined_names() -> set[str]:
    """Functions as `name`, methods as `Class.method`, of all modules and SQL files."""
    names = set(sql_files())
    for file in select_files(under=SRC, suffix=".py"):
        for node in parse(file).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                names.add(node.name)
            elif isinstance(node, ast.ClassDef):
                names |= {f"{node.name}.{part.name}" for part in node.body if _is_function(part)}
    return names


def _is_function(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)


def test_the_walk_names_files_and_functions_that_exist() -> None:
    spans = CODE.findall(read("docs/message-walk.md"))
    paths = [span for span in spans if re.fullmatch(r"[\w/]+\.(?:py|sql)", span)]
    functions = [span.removesuffix("()") for span in spans if span.endswith("()")]
    assert len(paths) > 20 and len(functions) > 20
    assert_none((p for p in paths if not (ROOT / SRC / p).is_file()), rule="the file exists")
    assert_none(set(functions) - defined_names(), rule="the function exists")


def test_source_files_named_on_other_pages_exist() -> None:
    known = set(select_files())
    offences = []
    for page in PAGES:
        for span in CODE.findall(read(page)):
            # A folder of ours comes first; CONTRIBUTING also names files yet to be written.
            is_path = re.fullmatch(r"(?:src/queenmq/)?(?:\w+/)+\w+\.(?:py|sql)", span)
            if is_path and not {span, SRC + span} & known and page != "CONTRIBUTING.md":
                offences.append(f"{page}: {span}")
    assert_none(offences, rule="a path in the docs leads somewhere")


# Links and commands.


def anchors(page: str) -> set[str]:
    """The fragments of a page's headings, made as code hosts do."""
    text = CODE_BLOCK.sub("", read(page))
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    return {heading.replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_somewhere(page: str) -> None:
    offences = []
    for link in LINK.findall(CODE_BLOCK.sub("", read(page))):
        if re.match(r"\w+:", link):
            continue
        path, _, fragment = link.partition("#")
        target = (ROOT / page).parent / path if path else ROOT / page
        if not target.exists():
            offences.append(link)
        elif fragment and fragment not in anchors(str(target.resolve().relative_to(ROOT))):
            offences.append(link)
    assert_none(offences, rule=f"links of {page} lead somewhere")


def shell_commands(program: str) -> Iterator[tuple[str, list[str]]]:
    """Yield page and words after each use of a program in shell blocks and code spans."""
    for page in PAGES:
        text = read(page)
        code = [block for kind, block in CODE_BLOCK.findall(text) if kind == "sh"]
        for line in [*"\n".join(code).splitlines(), *CODE.findall(CODE_BLOCK.sub("", text))]:
            for match in re.finditer(rf"(?:^|[\s(/]){program} (?=[\w-])([^)\"#]*)", line):
                yield page, shlex.split(match.group(1).replace("'", ""))


def test_every_queen_command_exists_with_its_flags() -> None:
    offences, seen = [], 0
    queen = typer.main.get_command(main.make_app())
    for page, words in shell_commands("queen"):
        seen += 1
        command: Any = queen
        while words and hasattr(command, "commands"):
            word = words.pop(0)
            command = command.commands.get(word)
            if command is None:
                offences.append(f"{page}: queen {word}")
                break
        else:
            known = {option for parameter in command.params for option in parameter.opts}
            given = {word.partition("=")[0] for word in words if word.startswith("--")}
            offences += [f"{page}: queen {command.name} {flag}" for flag in given - known]
    assert seen > 5
    assert_none(offences, rule="a command in the docs exists")


def test_every_make_target_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", read("Makefile"), re.M))
    named = {(page, words[0]) for page, words in shell_commands("make")}
    assert len(named) > 5
    assert_none((f"{p}: make {t}" for p, t in named if t not in targets), rule="the target exists")


def test_pages_name_who_acts() -> None:
    # The tree of modules repeats what their docstrings say.
    pages = [page for page in PAGES if page != "docs/modules.md"]
    assert_none(
        (
            f"{page}:{number}: {found.group()}"
            for page in pages
            for number, line in enumerate(read(page).splitlines(), start=1)
            for found in VAGUE.finditer(line)
        ),
        rule="a sentence names who acts",
    )


@pytest.mark.parametrize("page", [page for page in PAGES if Path(page).parts[0] == "docs"])
def test_pages_are_reached_from_the_readme(page: str) -> None:
    text = read("README.md")
    assert f"({page})" in text or f"({Path(page).parent}/)" in text


def test_the_diagrams_of_states_are_those_of_their_tables() -> None:
    drawn = re.findall(r"```mermaid\n(.*?)\n```", read("docs/architecture.md"), re.S)
    assert drawn == [pop_machine.diagram(), machine.draw()]
