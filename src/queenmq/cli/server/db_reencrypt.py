"""`queen db reencrypt`: stored payloads under the current key."""

from __future__ import annotations

import asyncio
from datetime import UTC
from typing import TYPE_CHECKING, Annotated

import typer

from queenmq import settings
from queenmq.cli.display.output import Column, Output, progress
from queenmq.cli.server.database_url import open_database
from queenmq.cli.session import command
from queenmq.errors import QueenError, SettingsError

if TYPE_CHECKING:
    from queenmq.storage.schema.reencryption import WaitingSpool

_COLUMNS = [
    Column("encrypted", "ENCRYPTED"),
    Column("unreadable", "UNREADABLE"),
    Column("queued", "QUEUED"),
    Column("spooled", "SPOOLED"),
    Column("keyId", "KEY", is_text=True),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    command(app)(reencrypt)


def reencrypt(
    out: Output,
    queue: Annotated[
        str | None, typer.Option(help="One queue.", show_default="all that are encrypted")
    ] = None,
    batch: Annotated[int, typer.Option(min=1, max=5_000, help="Messages per transaction.")] = 500,
    database_url: Annotated[str | None, typer.Option(help="The PostgreSQL to change.")] = None,
    data_dir: Annotated[
        str | None,
        typer.Option(help="Or the data directory of `queen serve`.", show_default="as for serve"),
    ] = None,
    config: Annotated[str | None, typer.Option(help="TOML file with settings.")] = None,
) -> None:
    """Encrypt stored payloads of encrypted queues with the current key.

    The keys are those of the broker: QUEEN_ENCRYPTION_KEY_FILE or QUEEN_ENCRYPTION_KEY. Run it
    after a rotation, before the old key leaves the file, and after a queue was encrypted that has
    messages. Brokers go on meanwhile. Stop it whenever you like: run again, it does the rest.

    It fails while brokers have pushes on their disks, which may need an old key. A broker that
    stopped during an outage cannot tell: start it before you remove a key.

    Example: queen db reencrypt --queue orders
    """
    from queenmq.crypto.keys import read_keys
    from queenmq.crypto.vault import Vault
    from queenmq.storage.schema.reencryption import reencrypt as run

    loaded = settings.load(config=config)
    vault = Vault(read_keys(loaded.encryption_key, loaded.encryption_key_file))
    if vault.current_id is None:
        raise SettingsError(
            "there is no key to encrypt with; set QUEEN_ENCRYPTION_KEY_FILE as for the broker"
        )

    with (
        open_database(database_url, data_dir) as url,
        progress(is_wanted=out.is_human) as bar,
    ):
        task = bar.add_task("Encrypting", total=None, note="")

        def tell(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, note=f"{done} of {total} payloads")

        found = asyncio.run(run(url, vault, queue=queue, batch=batch, on_progress=tell))
    row = {
        "encrypted": found.encrypted,
        "unreadable": found.unreadable,
        "queued": found.queued,
        "spooled": sum(one.waiting + one.aside for one in found.spools),
        "keyId": vault.current_id,
    }
    out.rows([row], _COLUMNS)
    if found.error is not None:
        raise QueenError(
            f"{found.unreadable} payloads cannot be decrypted and stay as they are;"
            f" the first: {found.error}"
        )
    if found.queued:
        raise QueenError(
            f"{found.queued} queued pushes are not encrypted with the current key yet; see queen"
            " ops list, and run this again once they are stored, before you remove a key"
        )
    if found.spools:
        raise QueenError(
            "pushes that wait on the disks of brokers may need an old key:"
            f" {', '.join(map(_describe, found.spools))}; keep every key, and run this again once"
            " they are stored"
        )


def _describe(spool: WaitingSpool) -> str:
    aside = f", {spool.aside} set aside" if spool.aside else ""
    told = spool.told_at.astimezone(UTC).isoformat(sep=" ", timespec="seconds")
    return f"{spool.host} ({spool.directory}): {spool.waiting} waiting{aside} at {told}"
