"""Lines over time as SVG, for results that a number does not tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

_WIDTH, _HEIGHT, _LEFT, _BAND = 760, 110, 130, 90


def lines_chart(title: str, series: Mapping[str, Sequence[float]], *, seconds: float) -> str:
    """Return a chart with a band for each series, all over the same time."""
    bands = [
        _band(name, values, top=40 + number * _HEIGHT)
        for number, (name, values) in enumerate(series.items())
    ]
    height = 60 + _HEIGHT * len(series)
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}"'
            ' font-family="sans-serif" font-size="12">',
            f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
            f'<text x="10" y="22" font-size="15">{escape(title)}</text>',
            *bands,
            f'<text x="{_WIDTH - 10}" y="{height - 8}" text-anchor="end">{seconds:,.0f} s</text>',
            "</svg>",
            "",
        )
    )


def _band(name: str, values: Sequence[float], *, top: int) -> str:
    most = max([*values, 1e-9])
    width = _WIDTH - _LEFT - 20
    step = width / max(1, len(values) - 1)
    points = " ".join(
        f"{_LEFT + number * step:.1f},{top + _BAND - value / most * (_BAND - 15):.1f}"
        for number, value in enumerate(values)
    )
    return (
        f'<text x="10" y="{top + 40}">{escape(name)}</text>'
        f'<text x="10" y="{top + 58}" fill="#666666">most {most:,.1f}</text>'
        f'<line x1="{_LEFT}" y1="{top + _BAND}" x2="{_WIDTH - 20}" y2="{top + _BAND}"'
        ' stroke="#cccccc"/>'
        f'<polyline points="{points}" fill="none" stroke="#3366cc" stroke-width="1.5"/>'
    )
