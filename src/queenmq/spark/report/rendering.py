"""Owns the templates of the report: HTML and SVG, with everything that is put in escaped."""

from __future__ import annotations

import functools
from typing import Any

import jinja2


@functools.cache
def environment() -> jinja2.Environment:
    """Return the templates. A name that a template uses and that was not given is an error."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("queenmq.spark.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(name: str, **values: Any) -> str:
    """Return a template with these values."""
    return environment().get_template(name).render(**values)
