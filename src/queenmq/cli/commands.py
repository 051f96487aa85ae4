"""Which module has which command, so that a command line loads its own module and no other.

A command with the shared options has a session or an output as its first parameter.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from typing import Any

import typer

#: The first word of a command line, and where its command or group of commands is defined. The help
#: lists them in this order.
COMMANDS = {
    "serve": "server.serve:serve",
    "demo": "demo:demo",
    "push": "messages.push:push",
    "pop": "messages.pop:pop",
    "ack": "messages.pop:ack",
    "tail": "messages.tail:tail",
    "status": "operate.status:status",
    "why": "operate.status:why",
    "apply": "queues.apply:apply",
    "bench": "operate.bench:bench",
    "top": "operate.top:top",
    "metrics": "operate.metrics:metrics",
    "analytics": "operate.metrics:analytics",
    "version": "operate.metrics:version",
    "namespaces": "queues.scopes:namespaces",
    "tasks": "queues.scopes:tasks",
    "tx": "messages.lease:tx",
    "audit": "access.audit:audit",
    "lag": "queues.groups:lag",
    "replay": "queues.groups:replay",
    "queues": "queues.queues:app",
    "partitions": "queues.partitions:app",
    "groups": "queues.groups:app",
    "messages": "messages.show:app",
    "trace": "messages.show:trace",
    "dlq": "messages.dlq:app",
    "lease": "messages.lease:app",
    "ops": "operate.ops:app",
    "maintenance": "operate.maintenance:app",
    "tokens": "access.tokens:app",
    "db": "server.db:app",
    "context": "context:app",
    "pipeline": "pipeline:app",
}


def register_all(app: typer.Typer, arguments: Sequence[str] = ()) -> None:
    """Add the command that a command line names. Add all if it names none, for help and advice."""
    word = next(iter(arguments), "")
    for name in [word] if word in COMMANDS else COMMANDS:
        _register(app, name)


def _register(app: typer.Typer, name: str) -> None:
    module, _, attribute = COMMANDS[name].partition(":")
    found: Any = getattr(importlib.import_module(f"queenmq.cli.{module}"), attribute)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    elif next(iter(inspect.signature(found).parameters)) in ("session", "out"):
        from queenmq.cli.session import command

        command(app, name)(found)
    else:
        app.command(name=name)(found)
