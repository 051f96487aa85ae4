"""`queen tokens`, `queen audit`, `queen db create-token`, and where commands get a token from."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from queenmq import Queen, SyncQueen
from queenmq.cli import contexts
from queenmq.client.errors import NotAllowed
from tests.support.broker import BrokerProcess, running_broker, unique
from tests.support.command_line import Cli, run_queen
from tests.support.tokens import signed


@pytest.fixture
def first_token(cli: Cli, guarded: BrokerProcess, own_url: str) -> str:
    """An administrator's token, made without a broker's help."""
    cli("context", "list")
    ended = cli("db", "create-token", unique("first"), "--role", "admin", "--database-url", own_url)
    assert (ended.code, ended.err) == (0, "")
    return ended.out.strip()


def _at(guarded: BrokerProcess, token: str) -> list[str]:
    return ["--url", guarded.url, "--token", token]


def test_the_first_token_makes_others_and_ends_them(
    cli: Cli, guarded: BrokerProcess, first_token: str
) -> None:
    at = _at(guarded, first_token)
    refused = cli("queues", "list", "--url", guarded.url)
    assert refused.code == 5 and "QUEEN_TOKEN" in refused.err
    name = unique("billing")
    made = cli(
        "tokens", "create", name, "--role", "read-write", "--queue", "billing.*", "--verb", "push",
        "--expires-in", "90d", "-o", "json", *at,
    ).value  # fmt: skip
    assert cli("push", "billing.x", "1", *_at(guarded, made["token"])).code == 0
    assert cli("push", "other", "1", *_at(guarded, made["token"])).code == 5
    listed = cli("tokens", "list", *at).out
    assert name in listed and "billing.*" in listed and made["token"] not in listed
    assert cli("tokens", "revoke", made["id"], *at).code == 2
    assert cli("tokens", "revoke", made["id"], "--yes", *at).code == 0
    assert cli("push", "billing.x", "1", *_at(guarded, made["token"])).code == 5
    entries = cli("audit", "--action", "token", "-o", "json", *at).value
    assert [one["action"] for one in entries][:2] == ["token.revoke", "token.create"]
    assert "token.create" in cli("audit", *at).out
    assert cli("tokens", "create", "x", "--expires-in", "soon", *at).code == 2


def test_a_token_comes_from_a_file_too(
    cli: Cli, guarded: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(signed(role="read-only", iss=None, aud=None) + "\n")
    at = ["queues", "list", "--url", guarded.url]
    assert cli(*at, "--token-file", str(file)).code == 0
    monkeypatch.setenv("QUEEN_TOKEN_FILE", str(file))
    assert cli(*at).code == 0
    # A flag goes before the environment.
    assert cli(*at, "--token", "wrong").code == 5
    assert cli(*at, "--token", "x", "--token-file", "y").code == 2
    monkeypatch.delenv("QUEEN_TOKEN_FILE")
    monkeypatch.delenv("QUEEN_URL")
    cli.ok("context", "set", "files", "--url", guarded.url, "--token-file", str(file))
    assert cli("queues", "list").code == 0


def test_a_keyring_keeps_the_token_if_there_is_one(
    cli: Cli, guarded: BrokerProcess, own_config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: dict[tuple[str, str], str] = {}
    keyring = ModuleType("keyring")
    keyring.get_keyring = lambda: type("Ring", (), {"priority": 5})()  # type: ignore[attr-defined]
    keyring.set_password = (
        lambda *key_and_token: kept.update(  # type: ignore[attr-defined]
            {key_and_token[:2]: key_and_token[2]}
        )
    )
    keyring.get_password = lambda *key: kept.get(key)  # type: ignore[attr-defined]
    keyring.delete_password = lambda *key: kept.pop(key)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "keyring", keyring)
    token = signed(role="read-only", iss=None, aud=None)
    monkeypatch.delenv("QUEEN_URL")
    cli.ok("context", "set", "ring", "--url", guarded.url, "--token", "-", stdin=token)
    assert token not in own_config.read_text() and kept == {("queen", "ring"): token}
    assert cli("queues", "list").code == 0
    assert cli("context", "show", "--with-token", "-o", "json").value["token"] == token
    assert contexts.load(own_config).contexts["ring"].keyring
    cli.ok("context", "delete", "ring", "--yes")
    assert kept == {}


async def test_a_client_asks_again_for_a_token_that_was_refused(
    guarded: BrokerProcess, tmp_path: Path
) -> None:
    good, asked = signed(role="admin", iss=None, aud=None), []

    def give() -> str:
        asked.append(1)
        return "stale" if len(asked) == 1 else good

    async with Queen(guarded.url, bearer_token=give) as queen:
        assert (await queen.admin.get_me())["role"] == "admin"
    assert len(asked) == 2
    file = tmp_path / "token"
    file.write_text("stale")
    async with Queen(guarded.url, token_file=str(file)) as queen:
        with pytest.raises(NotAllowed):
            await queen.admin.get_me()
        file.write_text(good)
        assert (await queen.admin.get_me())["role"] == "admin"
    async with Queen(guarded.url, bearer_token="stale") as queen:
        with pytest.raises(NotAllowed):
            await queen.admin.get_me()
    with SyncQueen(guarded.url, token_file=str(file)) as plain:
        assert plain.admin.get_me()["role"] == "admin"


def test_a_network_is_not_served_without_authentication(tmp_path: Path) -> None:
    at = ["serve", "--host", "0.0.0.0", "--port", "0", "--data-dir", str(tmp_path / "none")]
    ended = run_queen(*at)
    assert ended.code == 2 and "--insecure" in ended.err and "authentication is off" in ended.err
    assert not (tmp_path / "none").exists()
    for variable, value in (
        ("JWT_SECRET", "short"),
        ("QUEEN_JWT_PUBLIC_KEY", "no key"),
        ("QUEEN_TRUSTED_PROXIES", "nowhere"),
        ("QUEEN_MOVE_TARGETS", "db.example:postgres"),
        ("QUEEN_JWT_JWKS_URL", "file:///etc/passwd"),
    ):
        ended = run_queen(*at, QUEEN_AUTH_ENABLED="true", **{variable: value})
        assert ended.code != 0 and ended.err.count("\n") == 1, ended
        assert "no key" not in ended.err


def test_insecure_is_said_loudly(own_url: str) -> None:
    with running_broker(
        database_url=own_url, QUEEN_HOST="0.0.0.0", QUEEN_INSECURE="true"
    ) as broker:
        broker.stop()
    assert any("INSECURE" in line for line in broker.log)
