"""Pure: the OpenAPI 3.1 document, from the Structs of `wire` and the routes' own words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from queenmq import wire
from queenmq.server.routing.spec import JSON, ArrayOf, OneOf, RouteSpec

Schema = dict[str, Any]

_REF = "#/components/schemas/{name}"
_PHRASES = {
    200: "Done.",
    201: "Stored.",
    202: "Accepted.",
    204: "Nothing.",
    307: "Elsewhere.",
    503: "Not now.",
}


def build_document(specs: Sequence[RouteSpec], *, version: str) -> Schema:
    """Describe every route, with one schema per Struct."""
    types = _types(specs)
    schemas, components = msgspec.json.schema_components(types, ref_template=_REF)
    by_type = {_key(kind): schema for kind, schema in zip(types, schemas, strict=True)}
    by_type |= {_key(choice): _any_of(choice, by_type) for choice in _choices(specs)}
    paths: dict[str, Schema] = {}
    for spec in sorted(specs, key=lambda one: (one.public_path, one.method)):
        path = paths.setdefault(spec.public_path, {})
        path[spec.method.lower()] = _operation(spec, by_type)
    document = {
        "openapi": "3.1.0",
        "info": {
            "title": "Queen",
            "version": version,
            "description": "A partitioned message queue on PostgreSQL. docs/api.md explains it.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "jsonSchemaDialect": "https://json-schema.org/draft/2020-12/schema",
        "paths": paths,
        "components": {"schemas": components},
    }
    # A generic Struct is called after its parameter as well, which readers have no use for.
    text = msgspec.json.encode(document).replace(b"_Any_", b"")
    return msgspec.json.decode(text, type=Schema)


def _key(kind: Any) -> str:
    # Not every type can be hashed, as a list of a union; its name is as good.
    return repr(kind)


def _types(specs: Iterable[RouteSpec]) -> list[Any]:
    found: dict[str, Any] = {_key(wire.ErrorAnswer): wire.ErrorAnswer}
    for spec in specs:
        for kind in (spec.request, *spec.answers.values(), *spec.query.values()):
            for one in kind.shapes if isinstance(kind, OneOf) else (kind,):
                if one is not None:
                    found.setdefault(_key(one), one)
    return list(found.values())


def _choices(specs: Iterable[RouteSpec]) -> list[OneOf]:
    kinds = [kind for spec in specs for kind in spec.answers.values()]
    return [kind for kind in kinds if isinstance(kind, OneOf)]


def _any_of(choice: OneOf, schemas: dict[str, Schema]) -> Schema:
    one: Schema = {"anyOf": [schemas[_key(shape)] for shape in choice.shapes]}
    return {"type": "array", "items": one} if isinstance(choice, ArrayOf) else one


def _operation(spec: RouteSpec, schemas: dict[str, Schema]) -> Schema:
    operation: Schema = {
        "operationId": spec.name,
        "summary": _summary(spec.text),
        "description": spec.text,
        "tags": [_tag(spec.public_path)],
        "responses": {
            **{str(code): _response(spec, code, schemas) for code in spec.answers},
            "default": {
                "description": "An error.",
                "content": {JSON: {"schema": schemas[_key(wire.ErrorAnswer)]}},
            },
        },
    }
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in spec.parameters
    ]
    parameters += [
        {"name": name, "in": "query", "required": False, "schema": schemas[_key(kind)]}
        for name, kind in spec.query.items()
    ]
    if parameters:
        operation["parameters"] = parameters
    if spec.request is not None:
        operation["requestBody"] = {
            "required": spec.needs_body,
            "content": {JSON: {"schema": schemas[_key(spec.request)]}},
        }
    return operation


def _response(spec: RouteSpec, code: int, schemas: dict[str, Schema]) -> Schema:
    kind = spec.answers[code]
    response: Schema = {"description": _PHRASES.get(code, "Done.")}
    if kind is not None:
        response["content"] = {spec.media: {"schema": schemas[_key(kind)]}}
    return response


def _summary(text: str) -> str:
    return re.split(r"[.;:]( |$)", text)[0]


def _tag(path: str) -> str:
    """Return the word by which routes are grouped: the part behind `/api/v1`."""
    return path.removeprefix("/api/v1").strip("/").split("/")[0]
