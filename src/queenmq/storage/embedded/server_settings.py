"""The settings of the embedded server and their reasons. Pure, except for `ram_bytes`.

Every start writes them to a file. An operator changes them with `extra_settings` or with ALTER
SYSTEM, which PostgreSQL reads after this file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from queenmq.storage.embedded.errors import EmbeddedPostgresError

#: Cache in MB when nothing else is asked: a queue's hot set is its newest messages, and beyond
#: this the kernel's page cache does as well without taking memory from the broker.
SHARED_BUFFERS_MB_MAX = 256
SHARED_BUFFERS_MB_MIN = 16

#: Settings that must agree with runtime.json and the layout, so only the supervisor sets them.
RESERVED = frozenset(
    {
        "config_file",
        "data_directory",
        "external_pid_file",
        "listen_addresses",
        "logging_collector",
        "port",
        "unix_socket_directories",
        "unix_socket_permissions",
    }
)

_HEADER = """\
# Written anew on every start of the embedded server; changes made here are lost.
# Use ALTER SYSTEM, or the broker's own settings, instead.
"""


def default_shared_buffers_mb(ram_bytes: int) -> int:
    """Take a quarter of the memory, within the bounds above."""
    quarter_mb = ram_bytes // 4 // 1024 // 1024
    return max(SHARED_BUFFERS_MB_MIN, min(SHARED_BUFFERS_MB_MAX, quarter_mb))


def choose_wal_compression(configure_flags: str) -> str:
    """Return lz4, which costs the least CPU, if the server has it. Every build has pglz."""
    return "lz4" if "--with-lz4" in configure_flags else "pglz"


def plan_settings(
    *,
    shared_buffers_mb: int,
    max_connections: int,
    wal_compression: str,
    extra_settings: Mapping[str, str],
) -> dict[str, str]:
    """Return all settings. The caller's own come last and win."""
    for name in extra_settings:
        _check_name(name)
    return {
        "max_connections": str(max_connections),
        "shared_buffers": f"{shared_buffers_mb}MB",
        **_DURABILITY,
        **_CHECKPOINTS,
        "wal_compression": wal_compression,
        **_VACUUM,
        **_PLANNER,
        **_LOG,
        **extra_settings,
    }


_DURABILITY = {
    # An answered push must survive a power cut. These are the three defaults, written out to show
    # that they are intended. Throughput comes from batching, not from risk.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
}

_CHECKPOINTS = {
    # After a checkpoint the first write to each page logs the whole page. A queue rewrites the same
    # few pages all day, so rare checkpoints make the log much smaller. The price is a longer
    # recovery, which max_wal_size bounds.
    "checkpoint_timeout": "15min",
    "max_wal_size": "4GB",
    # Keep this much log for reuse: making new segments costs more than overwriting old ones.
    "min_wal_size": "512MB",
    # Spread the writes over the interval, so that pushes do not stall behind a burst.
    "checkpoint_completion_target": "0.9",
}

_VACUUM = {
    # Consumed messages and moved cursors become dead rows within seconds, so check often.
    "autovacuum_naptime": "10s",
    # With the default limit, vacuum never catches up with a busy queue, and bloat slows each pop.
    "autovacuum_vacuum_cost_limit": "2000",
    "autovacuum_vacuum_cost_delay": "1ms",
    # A twentieth instead of a fifth: a message table is large, its dead part is what pops scan.
    "autovacuum_vacuum_scale_factor": "0.05",
    "autovacuum_analyze_scale_factor": "0.05",
    # Inserted-only tables get their visibility map soon, which keeps index-only scans cheap.
    "autovacuum_vacuum_insert_scale_factor": "0.05",
}

_PLANNER = {
    # Queue statements run for about a millisecond. Compiling one would take longer.
    "jit": "off",
    # Solid-state disks, and a hot set in memory: a random page costs about what the next one does.
    "random_page_cost": "1.1",
    # Stored and compared times never depend on the machine.
    "timezone": "UTC",
}

_LOG = {
    # The keeper gives postgres a file and bounds its size. PostgreSQL's own collector can bound the
    # age or size of a piece but not the total, and would be one more process.
    "logging_collector": "off",
    "log_destination": "stderr",
    "log_line_prefix": "%m [%p] %q%u@%d ",
    "log_timezone": "UTC",
    # The keeper recognises one message by its text, so the text must not be translated.
    "lc_messages": "C",
    # The directory is private, but a second lock on the same door is free.
    "unix_socket_permissions": "0700",
    # Passwords go over TCP only as proofs.
    "password_encryption": "scram-sha-256",
}


def render_settings(settings: Mapping[str, str]) -> str:
    """Write settings in the grammar of postgresql.conf."""
    lines = [f"{name} = {_quote(value)}\n" for name, value in settings.items()]
    return _HEADER + "".join(lines)


def ram_bytes() -> int:
    """Say how much memory we have: the machine's, or the control group's if that is less."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return machine
    return min(machine, int(limit)) if limit.isdigit() else machine


def _check_name(name: str) -> None:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.]*", name):
        raise EmbeddedPostgresError(
            f"extra setting {name!r} is not a PostgreSQL setting name; use letters, digits, _ and ."
        )
    if name.lower() in RESERVED:
        raise EmbeddedPostgresError(
            f"extra setting {name!r} belongs to the embedded server itself; leave it out, "
            "or use a PostgreSQL server of your own"
        )


def _quote(value: str) -> str:
    if "\n" in value or "\0" in value:
        raise EmbeddedPostgresError(
            f"extra setting value {value!r} holds a line break; write it on one line"
        )
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
