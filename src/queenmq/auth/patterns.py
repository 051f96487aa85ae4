"""Name patterns: text in which `*` stands for any characters, or none.

No regular expressions: a pattern comes from a token, and matching it must stay cheap whatever it
looks like.
"""

from __future__ import annotations

from collections.abc import Sequence

#: Patterns of one token, and the length of each.
PATTERNS_MAX = 64
LENGTH_MAX = 255


class NamePatterns:
    """A few patterns. A name matches if one of them does."""

    __slots__ = ("_exact", "_known", "_parts", "texts")

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = tuple(texts)
        self._exact = {text for text in texts if "*" not in text}
        self._parts = [text.split("*") for text in texts if "*" in text]
        #: Names that were asked for before; a token uses few queues, again and again.
        self._known: dict[str, bool] = {}

    def match(self, name: str) -> bool:
        """Return whether a name matches."""
        found = self._known.get(name)
        if found is None:
            found = name in self._exact or any(_matches(parts, name) for parts in self._parts)
            if len(self._known) >= 1_000:
                self._known.clear()
            self._known[name] = found
        return found


def check_patterns(texts: Sequence[str]) -> NamePatterns:
    """Return the patterns. Raise ValueError with a sentence when they cannot be used."""
    if not texts:
        raise ValueError("the list of queues is empty; name at least one pattern")
    if len(texts) > PATTERNS_MAX:
        raise ValueError(f"{len(texts)} queue patterns are too many; use at most {PATTERNS_MAX}")
    for text in texts:
        if not text or len(text) > LENGTH_MAX or "\x00" in text:
            raise ValueError(
                f"queue pattern {text[:60]!r} cannot be used; give it 1 to {LENGTH_MAX} characters"
            )
    return NamePatterns(texts)


def _matches(parts: Sequence[str], name: str) -> bool:
    """Match the text between the stars from left to right; the first fit is the best one."""
    first, *middle, last = parts
    if len(name) < len(first) + len(last):
        return False
    if not name.startswith(first) or not name.endswith(last):
        return False
    place, end = len(first), len(name) - len(last)
    for part in middle:
        at = name.find(part, place, end)
        if at < 0:
            return False
        place = at + len(part)
    return True
