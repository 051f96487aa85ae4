"""Files of declared streams: what they may say, and the sentence for what they may not."""

from __future__ import annotations

from pathlib import Path

import pytest

from queenmq.errors import InvalidRequest
from queenmq.spark.streams.definition import Definition, load_definition, parse_definition

EXAMPLES = Path(__file__).parents[3] / "examples" / "streams"
GOOD = {
    "": 'name = "n"\ncheckpoint = "c"',
    "source": 'queue = "orders"',
    "window": 'type = "tumbling"\nsize = "1 minute"',
    "aggregations": 'messages = "count(*)"',
    "sink": 'queue = "counts"',
}


def text(**changes: str) -> str:
    """A file that is right but for these tables."""
    top = changes.pop("top", GOOD[""])
    tables = {name: body for name, body in GOOD.items() if name} | changes
    return "\n".join([top, *(f"[{name}]\n{body}" for name, body in tables.items() if body)])


def parse(**changes: str) -> Definition:
    return parse_definition(text(**changes), "f.toml")


def test_defaults_are_filled_in() -> None:
    found = parse()
    assert found.window is not None
    assert (found.window.time, found.window.watermark) == ("created_at", "1 minute")
    assert (found.source.starting, found.source.max_messages) == ("earliest", 100_000)


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.toml")))
def test_the_examples_are_right(name: str) -> None:
    found = load_definition(EXAMPLES / name)
    assert Path(found.checkpoint) == EXAMPLES.absolute() / "checkpoints" / name[:-5]


REFUSED = {
    "f.toml is not TOML: ": {"top": "name ="},
    "f.toml: name is missing; add it": {"top": 'checkpoint = "c"'},
    "f.toml: name 'nnn": {"top": f'name = "{"n" * 101}"\ncheckpoint = "c"'},
    "f.toml: checkpoint is empty; leave it out or give it": {"top": 'name = "n"\ncheckpoint = ""'},
    "f.toml: trigger is 'soon', which is not a duration of up to a year; write it like": {
        "top": GOOD[""] + '\ntrigger = "soon"'
    },
    "f.toml: source.queue is 7: expected": {"source": "queue = 7"},
    "f.toml: source.colour = 'red' is not known; use some of queue, pattern": {
        "source": 'queue = "q"\ncolour = "red"'
    },
    "f.toml: source names nothing; add queue, pattern, namespace or task": {"source": "queue = []"},
    "f.toml: source.queue and source.pattern exclude each other; keep one": {
        "source": 'queue = "q"\npattern = "q.*"'
    },
    "f.toml: source.max_messages is 0: expected `int` >= 1": {
        "source": 'queue = "q"\nmax_messages = 0'
    },
    "f.toml: window.type is 'hopping'; use tumbling, sliding, session": {
        "window": 'type = "hopping"'
    },
    "f.toml: window.size is missing; a tumbling window needs it": {"window": 'type = "tumbling"'},
    "f.toml: window.gap is '1 h'; a tumbling window has only size: remove it": {
        "window": 'type = "tumbling"\nsize = "1 h"\ngap = "1 h"'
    },
    "f.toml: window.slide is '2 h', more than window.size": {
        "window": 'type = "sliding"\nsize = "1 h"\nslide = "2 h"'
    },
    "f.toml: window.size is '0 s'; use more than 0": {"window": 'type = "tumbling"\nsize = "0 s"'},
    "f.toml: window needs [aggregations]": {"aggregations": ""},
    "f.toml: aggregations.messages needs a window; add [window], or use [select]": {"window": ""},
    "f.toml: select.a is for streams without a window; use [aggregations]": {"select": 'a = "b"'},
    "f.toml: aggregations.key is the name of a column of Queen; use another": {
        "aggregations": 'key = "count(*)"'
    },
    "f.toml: fields.Payload is the name of a column of Queen; use another": {
        "fields": 'Payload = "string"'
    },
    "f.toml: fields.'a b' is not a valid name; use letters, digits and underscores": {
        "fields": '"a b" = "string"'
    },
    "f.toml: sink names nothing; add queue or lake to it": {"sink": "# none"},
    "f.toml: late.queue and late.lake exclude each other; keep one": {
        "late": 'queue = "q"\nlake = "l"'
    },
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_what_is_wrong_is_said_in_a_sentence(sentence: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        parse(**REFUSED[sentence])
    assert str(caught.value).startswith(sentence)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match=r"none.toml cannot be read: No such file"):
        load_definition(tmp_path / "none.toml")


def test_what_a_checkpoint_depends_on_leaves_out_what_may_change() -> None:
    free = parse(
        top=GOOD[""].replace('"c"', '"d"') + '\ntrigger = "9 s"',
        source='queue = "orders"\nmax_messages = 5\nstarting = "latest"\ngroup = "g"',
        late='queue = "late"',
    )
    assert free.meaning() == parse().meaning()
    other = parse(window='type = "tumbling"\nsize = "2 minutes"')
    assert other.meaning() != parse().meaning()
