"""Suggests the name that a misspelt one may have meant."""

from __future__ import annotations

from collections.abc import Collection


def suggest(name: str, known: Collection[str]) -> str:
    """Return a hint at the near name, or at all names if none is near."""
    # Only errors need it.
    import difflib

    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}?" if near else f"use one of {', '.join(known)}"
