"""Types of answers for the dashboard's checker, from our own OpenAPI document.

`python -m tests.support.dashboard_types` writes src/queenmq/dashboard/lib/types.d.ts.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from queenmq import __version__
from queenmq.server.routing.openapi import build_document
from tests.support.routes import find_specs

HOME = Path(__file__).parents[2] / "src/queenmq/dashboard/lib/types.d.ts"
_HEAD = "// Made from the OpenAPI document by: python -m tests.support.dashboard_types\n"
_PLAIN = {"integer": "number", "number": "number", "string": "string", "boolean": "boolean"}


def render_types() -> str:
    """Return an interface or alias for each schema."""
    schemas = build_document(find_specs(), version=__version__)["components"]["schemas"]
    return _HEAD + "".join(_declare(name, schema) for name, schema in sorted(schemas.items()))


def _declare(name: str, schema: dict[str, Any]) -> str:
    name = _identifier(name)
    if schema.get("type") != "object" or "properties" not in schema:
        return f"export type {name} = {_type(schema)};\n"
    lines = [
        f"  {json.dumps(field)}: {_type(inner)};\n" for field, inner in schema["properties"].items()
    ]
    return f"export interface {name} {{\n{''.join(lines)}}}\n"


def _type(schema: dict[str, Any]) -> str:
    if "$ref" in schema:
        return _identifier(schema["$ref"].rpartition("/")[2])
    if "const" in schema or "enum" in schema:
        return " | ".join(map(json.dumps, schema.get("enum", [schema.get("const")])))
    if "anyOf" in schema:
        kinds = dict.fromkeys(_type(one) for one in schema["anyOf"])
        return " | ".join(kinds)
    kind = schema.get("type")
    if kind == "array":
        return f"({_type(schema.get('items') or {})})[]"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"Record<string, {_type(inner) if isinstance(inner, dict) else 'unknown'}>"
    return "null" if kind == "null" else _PLAIN.get(str(kind), "unknown")


def _identifier(name: str) -> str:
    return name.replace(".", "_")


if __name__ == "__main__":
    HOME.write_text(render_types(), encoding="utf-8")
