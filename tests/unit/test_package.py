"""The package itself: what importing it costs and which version it says it is."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import queenmq
from queenmq import errors
from queenmq.client import errors as client_errors

ROOT = Path(__file__).parents[2]
HEAVY = {"asyncpg", "httptools", "pyspark", "starlette", "uvicorn"}


def modules_after(statements: str) -> set[str]:
    """Return the modules that a new Python has loaded after these statements."""
    script = f"import sys; {statements}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    return set(done.stdout.split())


def test_importing_the_package_pulls_in_no_driver_web_stack_or_spark() -> None:
    assert not modules_after("import queenmq") & HEAVY


def test_version_is_the_one_in_pyproject() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    assert queenmq.__version__ == project["version"]


def test_the_client_needs_neither_the_broker_nor_its_libraries() -> None:
    loaded = modules_after("import queenmq; queenmq.SyncQueen")
    assert "httptools" in loaded
    assert not loaded & {"asyncpg", "pyspark", "starlette", "uvicorn", "httpx", "pytest"}
    ours = {name.split(".")[1] for name in loaded if name.startswith("queenmq.")}
    assert ours == {"client", "clock", "errors", "ids", "version", "wire"}


def test_a_broker_loads_no_cryptography_before_it_is_told_to_check_tokens() -> None:
    loaded = modules_after("import queenmq.server.app")
    assert "queenmq.server.auth.gate" in loaded
    assert not loaded & {"cryptography", "jwt"}


def test_public_names_are_these() -> None:
    assert set(queenmq.__all__) == {
        "__version__", "Queen", "SyncQueen",
        # What streams are made of.
        "Stream", "sliding_window_gate", "token_bucket_gate",
        # What calls give.
        "Message", "DeadLetter", "DeadLetters", "PushResult", "Buffered", "BufferStats",
        "AckResult", "AckResults", "Renewal", "TransactionAnswer", "TraceOutcome", "QueueOptions",
        # What calls raise.
        "QueenError", "ClientError", "RequestFailed", "BadRequest", "NotAllowed",
        "ResourceNotFound", "ResourceConflict", "LeaseExpired", "ServerBusy", "Unreachable",
        "PushFailed", "TransactionFailed", "OperationFailed", "BufferFailed", "PayloadMismatch",
        "UnreadablePayload", "HandlerFailed", "ClientClosed",
    }  # fmt: skip


def test_every_public_name_resolves() -> None:
    assert sorted(queenmq.__all__) == sorted({"__version__", *queenmq._PUBLIC})
    for name in queenmq.__all__:
        assert getattr(queenmq, name) is not None


@pytest.mark.parametrize("old", queenmq._RENAMED)
def test_an_old_name_still_works_and_says_the_new_one(old: str) -> None:
    new = queenmq._RENAMED[old]
    with pytest.warns(DeprecationWarning, match=f"queenmq.{new}"):
        assert getattr(queenmq, old) is getattr(queenmq, new)


def test_errors_of_client_and_broker_share_no_name() -> None:
    names = [
        {
            name
            for name, value in vars(module).items()
            if isinstance(value, type) and value.__module__ == module.__name__
        }
        for module in (errors, client_errors)
    ]
    assert all(len(some) > 10 for some in names)
    assert not names[0] & names[1]


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        queenmq.nonsense  # noqa: B018 - reading the attribute is the test
