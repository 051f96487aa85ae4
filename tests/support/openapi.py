"""Compares answers of a broker with its OpenAPI document."""

from __future__ import annotations

import copy
import re
from typing import Any

import httpx
from jsonschema import Draft202012Validator

Document = dict[str, Any]


class Judge:
    """Compares answers with the document, and notes which operations were seen."""

    def __init__(self, document: Document) -> None:
        self._document = _closed(document)
        #: The operations whose success was compared.
        self.seen: set[str] = set()
        self._validators: dict[str, Draft202012Validator] = {}
        self._patterns = [
            (re.compile(re.sub(r"\\\{\w+\\\}", "(.+)", re.escape(path)) + "$"), path)
            for path in sorted(document["paths"], key=_literal, reverse=True)
        ]

    async def judge(self, response: httpx.Response) -> None:
        """Assert that an answer has the shape that its operation announces."""
        await response.aread()
        method = response.request.method.lower()
        # As it was sent: an escaped slash belongs to a name.
        path = response.request.url.raw_path.decode().partition("?")[0]
        operation = self._find(method, path)
        if operation is None or method in ("head", "options"):
            return
        answers = operation["responses"]
        answer = answers.get(str(response.status_code), answers["default"])
        if str(response.status_code) in answers:
            self.seen.add(operation["operationId"])
        content = answer.get("content")
        if content is None:
            assert response.content == b""
            return
        (media, shape), *_ = content.items()
        assert response.headers["content-type"].startswith(media)
        if media == "application/json":
            self._validator(operation, shape["schema"]).validate(response.json())

    def _validator(self, operation: Any, schema: Document) -> Draft202012Validator:
        key = f"{operation['operationId']} {schema}"
        if key not in self._validators:
            whole = {**schema, "components": self._document["components"]}
            self._validators[key] = Draft202012Validator(whole)
        return self._validators[key]

    def _find(self, method: str, path: str) -> Any:
        for pattern, template in self._patterns:
            operations = self._document["paths"][template]
            if pattern.match(path) and method in operations:
                return operations[method]
        return None


def _literal(path: str) -> int:
    return sum("{" not in part for part in path.split("/"))


def _closed(document: Document) -> Document:
    """Return the document with no room for fields that it does not name."""
    closed = copy.deepcopy(document)
    for schema in closed["components"]["schemas"].values():
        if "properties" in schema:
            schema["additionalProperties"] = False
    return closed
