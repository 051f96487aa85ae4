"""Checks without reading whether the peer of a connection is still there."""

from __future__ import annotations

import asyncio
import socket
import sys

#: Linux has the state of a TCP connection in the first byte of this.
_TCP_INFO: int | None = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
_TCP_ESTABLISHED = 1


def has_peer_closed(transport: asyncio.Transport) -> bool:
    """Return whether the peer is known to have closed its side, also behind bytes that the broker
    has not read.

    On other systems no peer is known to have done so.
    """
    sock = transport.get_extra_info("socket")
    if sock is None or _TCP_INFO is None:
        return False
    state: int = sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0]
    return state != _TCP_ESTABLISHED
