"""Series as the text that Prometheus reads (format 0.0.4). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple


class Sample(NamedTuple):
    """One number of a family: what is added to the family's name, its labels, its value."""

    suffix: str
    labels: Mapping[str, str]
    value: float


class MetricFamily(NamedTuple):
    """One metric family with its samples."""

    name: str
    text: str
    #: counter, gauge or histogram.
    kind: str
    #: Read once.
    samples: Iterable[Sample]


def encode(families: Iterable[MetricFamily]) -> Iterator[str]:
    """Return the text of all families, a line at a time."""
    for name, text, kind, samples in families:
        full = f"{name}_total" if kind == "counter" else name
        yield f"# HELP {full} {_escape_help(text)}\n"
        yield f"# TYPE {full} {kind}\n"
        for suffix, labels, value in samples:
            yield f"{full}{suffix}{_encode_labels(labels)} {_encode_value(value)}\n"


def _encode_labels(labels: Mapping[str, str]) -> str:
    if not labels:
        return ""
    pairs = (f'{name}="{_escape(value)}"' for name, value in labels.items())
    return "{" + ",".join(pairs) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _escape_help(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n")


def _encode_value(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(value)


def gauge(name: str, text: str, value: float) -> MetricFamily:
    """Return a gauge without labels."""
    return MetricFamily(name, text, "gauge", [Sample("", {}, value)])
