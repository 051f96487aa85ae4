"""What to measure: one TOML file of `scenarios/` each. Knows nothing of brokers or wrk."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
SCENARIOS = HERE / "scenarios"
#: Measured in every run; the others are also told as a part of it.
FLOOR = "live"

#: Stands once in every payload, so that counting it in an answer counts messages.
MARK = "~"
#: About 100 bytes, the size of a chat message or an order event.
PAYLOAD = (
    '{"customer":"c-000123","order":4711,"text":"' + MARK + ' a message of about a hundred bytes"'
    ',"amount":12.50}'
)


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One kind of request, sent as fast as the broker answers."""

    name: str
    #: A line for the table.
    about: str
    #: File of `lua/` without its ending.
    script: str
    partitions: int = 1
    #: Messages asked for or sent in one request.
    batch: int = 1
    #: The messages of one push go to different partitions.
    spread: bool = False
    #: Pops name their partition.
    specific: bool = False
    #: Messages a second that the warm-up is stocked for; none: nothing is popped.
    rate: int | None = None

    def arguments(self, queue: str) -> list[str]:
        """What the Lua script is told."""
        return [
            f"queue={queue}",
            f"partitions={self.partitions}",
            f"batch={self.batch}",
            f"spread={int(self.spread)}",
            f"specific={int(self.specific)}",
            f"mark={MARK}",
            f"payload={PAYLOAD}",
        ]


def load(name: str) -> Scenario:
    """The scenario of that name."""
    with (SCENARIOS / f"{name}.toml").open("rb") as file:
        return Scenario(name=name, **tomllib.load(file))


def names() -> list[str]:
    """All scenarios, the floor first, then in the order of a table."""
    found = (path.stem for path in SCENARIOS.glob("*.toml"))
    return sorted(found, key=lambda name: (name != FLOOR, _sort_key(name)))


def _sort_key(name: str) -> list[tuple[bool, int, str]]:
    """push-2 before push-10; pushes, which fill, before pops."""
    parts = name.replace("push", "0push").split("-")
    return [(not part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts]
