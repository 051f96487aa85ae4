"""Decodes the outcome letters that SQL functions answer."""

from __future__ import annotations

from queenmq.engine.outcomes import HoldReason, ItemOutcome, PopOutcome

#: See push_messages for the letters.
_ITEMS = {
    "q": ItemOutcome.STORED,
    "d": ItemOutcome.DUPLICATE,
    "f": ItemOutcome.FULL,
    "b": ItemOutcome.QUEUED_IN_ORDER,
    "s": ItemOutcome.QUEUED_FOR_LOAD,
}
#: Most pushes have one item. It needs no list then.
_ONE_STORED = (ItemOutcome.STORED,)

#: See pending_partitions for the letters.
_HOLDS = {"l": HoldReason.LEASE, "w": HoldReason.TIME, "b": HoldReason.BLOCKED}

_POPS = {one.value: one for one in PopOutcome}


def decode_item(letter: str) -> ItemOutcome:
    """Return the outcome of one item."""
    return _ITEMS[letter]


def decode_items(letters: str) -> tuple[ItemOutcome, ...]:
    """Return the outcomes of items, in order."""
    return _ONE_STORED if letters == "q" else tuple([_ITEMS[letter] for letter in letters])


def decode_holds(letters: str) -> tuple[HoldReason, ...]:
    """Return why partitions are held, in order."""
    return tuple([_HOLDS[letter] for letter in letters])


def decode_pop(word: str) -> PopOutcome:
    """Return the outcome of one partition that a pop tried."""
    return _POPS[word]
