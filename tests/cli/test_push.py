"""`queen push`: everything arrives in order, and a bad line stops it by its number."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from queenmq.cli.messages import ndjson
from tests.support.broker import SOON_S, Api, BrokerProcess, unique
from tests.support.command_line import Cli, run_queen

#: Written in a way that no encoder would choose.
RAW = '{"n":19.90,"n2":1e2}'


def payloads(cli: Cli, queue: str, *more: str) -> list[object]:
    """Everything in a queue, read by a group of its own."""
    ended = cli(
        "pop", queue, "-g", unique("reader"), "-n", "5000", "--partitions", "50", "--auto-ack",
        "-o", "ndjson", *more,
    )  # fmt: skip
    assert ended.code == 0, ended.err
    return [line["data"] for line in ended.lines]


def test_arguments_are_payloads_in_order(cli: Cli) -> None:
    queue = unique()
    said = cli.ok("push", queue, '{"a": 1}', '"text"', "null", "-p", "here")
    assert said == f"pushed 3 messages to {queue}\n"
    assert payloads(cli, queue, "-p", "here") == [{"a": 1}, "text", None]


def test_lines_of_a_pipe_arrive_in_order_and_empty_ones_are_left_out(cli: Cli) -> None:
    queue = unique()
    lines = "\n".join(str(number) for number in range(1, 1201)).replace("\n", "\n\n", 3)
    ended = cli("push", queue, "-o", "json", stdin=lines)
    assert ended.value == {"pushed": 1200, "queued": 1200, "duplicate": 0, "buffered": 0}
    assert payloads(cli, queue) == list(range(1, 1201))


def test_a_file_is_pushed_with_partitions_and_ids_of_its_fields(cli: Cli, tmp_path: Path) -> None:
    queue, file = unique(), tmp_path / "orders.ndjson"
    rows = [{"customer": {"id": n % 2}, "order": f"o{n}"} for n in range(6)]
    file.write_text("".join(json.dumps(row) + "\r\n" for row in rows))
    words = ["push", queue, "-f", str(file), "--key-field", "customer.id", "--id-field", "order"]
    assert cli.ok(*words) == f"pushed 6 messages to {queue}\n"
    assert payloads(cli, queue, "-p", "1") == rows[1::2]
    assert cli.ok(*words) == (
        f"pushed 0 messages to {queue};"
        " 6 were duplicates, stored before under the same transaction id\n"
    )


async def test_a_payload_is_stored_as_it_was_written(broker: BrokerProcess, api: Api) -> None:
    queue = unique()
    words = ("push", queue, RAW, "-o", "ndjson", "--url", broker.url)
    (result,) = (await asyncio.to_thread(run_queen, *words)).lines
    assert result["status"] == "queued"
    raw = await api.http.get(f"/api/v1/pop/queue/{queue}")
    assert f'"data":{RAW}' in raw.text


def test_text_needs_no_quotes_of_its_own(cli: Cli) -> None:
    queue = unique()
    cli.ok("push", queue, "--text", "one two")
    cli.ok("push", queue, "--text", stdin="three\nfour ü\n")
    assert payloads(cli, queue) == ["one two", "three", "four ü"]


def test_bad_json_on_line_17_is_named_and_the_lines_before_it_are_pushed(cli: Cli) -> None:
    queue = unique()
    lines = [str(number) for number in range(1, 21)]
    lines[16] = '{"a": }'
    ended = run_queen("push", queue, "--url", cli.url, stdin="\n".join(lines))
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("queen: line 17 is not JSON")
    assert ended.err.endswith("16 messages were pushed before it\n")
    assert ended.err.count("\n") == 1
    assert payloads(cli, queue) == list(range(1, 17))


@pytest.mark.parametrize(
    ("words", "stdin", "says"),
    [
        (["{bad"], "", "payload 1 '{bad' is not JSON"),
        (["1", "--file", "x"], "", "payloads and --file"),
        (["1", "2", "--transaction-id", "x"], "", "--transaction-id is for one payload"),
        (["1", "--partition", "a", "--key-field", "b"], "", "--partition and --key-field"),
        (["--file", "no-such-file"], "", "file no-such-file cannot be read"),
        (["--key-field", "a"], '{"b":1}', "line 1 has no field 'a'"),
        (["--key-field", "a"], '{"a":1}\n{"a":{}}', "line 2 has {} in field 'a'"),
        ([], b"\xff\n", "line 1 is not UTF-8"),
        (["--text"], b"\xff\n", "line 1 is not UTF-8"),
    ],
)
def test_what_cannot_be_pushed_is_refused_by_name(
    cli: Cli, words: list[str], stdin: str | bytes, says: str
) -> None:
    ended = cli("push", unique(), *words, stdin=stdin)
    assert ended.code == 2
    assert says in ended.err and ended.err.count("\n") == 1


def test_a_full_queue_refuses_and_says_so(cli: Cli) -> None:
    queue = unique()
    cli.ok("queues", "create", queue, "maxSize=2")
    ended = cli("push", queue, "1", "2", "3")
    assert ended.code == 1
    assert "1 of 3 items were not stored" in ended.err


def test_a_slow_pipe_is_pushed_as_it_comes(cli: Cli) -> None:
    queue = unique()
    process = subprocess.Popen(
        [sys.executable, "-m", "queenmq", "push", queue, "--url", cli.url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write('"early"\n')
    process.stdin.flush()
    # The pipe is still open: what is in it must not wait for its end.
    got = cli("pop", queue, "--wait", "30s", "-o", "ndjson")
    assert [line["data"] for line in got.lines] == ["early"]
    out, _ = process.communicate('"late"\n', timeout=SOON_S)
    assert (process.returncode, out) == (0, f"pushed 2 messages to {queue}\n")


def test_lines_are_read_in_bounded_batches() -> None:
    stream = io.BytesIO(b"1\n" * 200_000)
    sizes = [len(batch) for batch in ndjson.batches(stream)]
    assert sum(sizes) == 200_000 and max(sizes) == ndjson.LINES_MAX


def test_a_line_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ndjson, "LINE_BYTES_MAX", 1 << 20)
    stream = io.BytesIO(b"7\n" + b"x" * (2 << 20))
    batches = ndjson.batches(stream)
    assert [line.value for line in next(batches)] == [7]
    with pytest.raises(ndjson.UsageProblem, match="line 2 is longer than 1048576 bytes"):
        next(batches)


def test_a_missing_field_and_an_empty_partition_are_named(cli: Cli) -> None:
    queue = unique()
    missing = cli("push", queue, '{"a": null}', "--key-field", "nosuch")
    assert missing.code == 2 and "line 1 has no field 'nosuch'" in missing.err
    assert "null" in cli("push", queue, '{"a": null}', "--key-field", "a").err
    empty = cli("push", queue, "1", "--partition", "")
    assert empty.code == 2 and "--partition must not be empty" in empty.err
