"""JSON for the client of a command: payloads stay the bytes they came as, and are printed so.

A command has no use for their values, and Python would change some (`19.90`) and cannot hold
others (`1e400`).
"""

from __future__ import annotations

from typing import Any

import msgspec

from queenmq import wire


class Verbatim:
    """A codec for the client's option `json`."""

    def dumps(self, value: Any, /) -> bytes:
        return wire.encode(value)

    def loads(self, text: bytes, /) -> Any:
        from queenmq.client.http.payloads import cut_out, put_back

        skeleton, payloads = cut_out(text)
        return put_back(msgspec.json.decode(skeleton), payloads, msgspec.Raw)
