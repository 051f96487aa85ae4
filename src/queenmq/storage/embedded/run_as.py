"""Decides which account runs postgres.

A plain user runs it directly. Root cannot: postgres refuses to run as root, so it runs as an
existing unprivileged account. That account may be unable to reach the binaries or the data
directory if they lie below a closed directory such as root's home. We never open such a directory.
Instead `setpriv` starts postgres as that account with one ambient capability that lets it pass
through.

`plan_run_as` lists the ways by the rights they grant, least first, and reads nothing.
`choose_run_as` tries them for real and takes the first that works.
"""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from queenmq.storage.embedded.errors import RunAsImpossible

#: Accounts tried for root, in order. The first exists on systems with a PostgreSQL package. The
#: second exists everywhere.
ACCOUNT_NAMES = ("postgres", "nobody")

#: Capabilities that open closed directories, least first, with their bit in the kernel's masks.
#: Containers often keep the second and drop the first.
CAPABILITIES = (("dac_read_search", 2), ("dac_override", 1))

#: Seconds for one trial run, which only prints a version.
_PROBE_SECONDS_MAX = 30


@dataclass(frozen=True)
class Account:
    """An operating system account by numbers. Containers may have numbers without a name."""

    uid: int
    gid: int


@dataclass(frozen=True)
class RunAs:
    """One way to run a program: the words before its arguments, and the ids it runs with."""

    prefix: tuple[str, ...] = ()
    account: Account | None = None
    #: The account that must own files for postgres. None leaves them with us.
    owner: Account | None = None

    @property
    def uid(self) -> int | None:
        return self.account.uid if self.account else None

    @property
    def gid(self) -> int | None:
        return self.account.gid if self.account else None

    @property
    def extra_groups(self) -> list[int] | None:
        # Do not pass on root's own groups. An empty list drops them all.
        return [] if self.account else None


def plan_run_as(
    *, euid: int, account: Account | None, bounding_mask: int, setpriv: str | None
) -> list[RunAs]:
    """List the ways to run postgres, least rights first. Empty if there is none."""
    if euid != 0:
        return [RunAs()]
    if account is None:
        return []
    ways = [RunAs(account=account, owner=account)]
    if setpriv is not None:
        ways += [
            RunAs(prefix=_setpriv_prefix(setpriv, account, name), owner=account)
            for name, bit in CAPABILITIES
            if bounding_mask >> bit & 1
        ]
    return ways


def choose_run_as(ways: Sequence[RunAs], *, works: Callable[[RunAs], bool]) -> RunAs | None:
    """Take the first way that works when tried."""
    return next((way for way in ways if works(way)), None)


def decide_account(
    *, cluster_owner: Account | None, named: Sequence[Account | None]
) -> Account | None:
    """Pick the account for root: the one that owns the cluster already, else the first known."""
    if cluster_owner is not None and cluster_owner.uid != 0:
        return cluster_owner
    return next((account for account in named if account is not None), None)


def parse_bounding_mask(status: str) -> int:
    """Return the bounding set from the text of /proc/self/status, or 0 if it is missing."""
    found = re.search(r"^CapBnd:\s*([0-9a-fA-F]+)$", status, re.MULTILINE)
    return int(found.group(1), 16) if found else 0


def find_account(pgdata: Path) -> Account | None:
    """Return the account for postgres if we are root, else None."""
    if os.geteuid() != 0:
        return None
    return decide_account(
        cluster_owner=_owner_of(pgdata), named=[_find_account(name) for name in ACCOUNT_NAMES]
    )


def find_run_as(*, account: Account | None, postgres: str, data_dir: Path) -> RunAs:
    """Choose how to run `postgres` on `data_dir`. As root, by trying."""
    euid = os.geteuid()
    ways = plan_run_as(
        euid=euid,
        account=account,
        bounding_mask=parse_bounding_mask(_own_status()),
        setpriv=shutil.which("setpriv"),
    )
    if euid != 0:
        return ways[0]
    chosen = choose_run_as(ways, works=lambda way: _works(way, postgres, data_dir))
    if chosen is None:
        raise RunAsImpossible(
            f"postgres cannot run as root, and no unprivileged account reaches both {postgres} and "
            f"{data_dir}; run the broker as a plain user, or move both below directories that "
            "everybody may pass, or install setpriv and allow CAP_DAC_READ_SEARCH"
        )
    return chosen


def _setpriv_prefix(setpriv: str, account: Account, capability: str) -> tuple[str, ...]:
    return (
        setpriv,
        f"--reuid={account.uid}",
        f"--regid={account.gid}",
        "--clear-groups",
        # Else access(2) ignores the capability, by which initdb looks for its own binaries.
        "--securebits=+no_setuid_fixup",
        # An ambient capability must be inheritable as well. The exec drops all others.
        f"--inh-caps=+{capability}",
        f"--ambient-caps=+{capability}",
        # Without this a set-user-id program started from SQL could win more rights back.
        "--no-new-privs",
        "--",
    )


def _works(way: RunAs, postgres: str, data_dir: Path) -> bool:
    """Enter the data directory and run a binary this way: modes alone do not say it (ACLs).

    Not postgres but initdb, because it also asks whether it may run its neighbours, and complains.
    """
    script = 'cd "$1" && exec "$2" --version'
    initdb = str(Path(postgres).with_name("initdb"))
    try:
        run = subprocess.run(
            [*way.prefix, "/bin/sh", "-c", script, "sh", str(data_dir), initdb],
            cwd="/",
            user=way.uid,
            group=way.gid,
            extra_groups=way.extra_groups,
            capture_output=True,
            timeout=_PROBE_SECONDS_MAX,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return run.returncode == 0 and not run.stderr


def _find_account(name: str) -> Account | None:
    try:
        entry = pwd.getpwnam(name)
    except KeyError:
        return None
    return Account(entry.pw_uid, entry.pw_gid)


def _owner_of(path: Path) -> Account | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return Account(status.st_uid, status.st_gid)


def _own_status() -> str:
    try:
        return Path("/proc/self/status").read_text()
    except OSError:
        return ""
