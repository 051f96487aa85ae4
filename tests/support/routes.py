"""The routes of the broker, found where they are written."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import queenmq.server.routes
from queenmq.server.routing.spec import RouteSpec, specs_of


def find_specs() -> list[RouteSpec]:
    """Return every route that a class under `server/routes/` declares."""
    package = queenmq.server.routes
    found: dict[type, list[RouteSpec]] = {}
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if kind.__module__ == module.name:
                found[kind] = list(specs_of(kind))
    return [spec for specs in found.values() for spec in specs]
