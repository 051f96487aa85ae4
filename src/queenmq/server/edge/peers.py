"""Checks whether the peer of a connection is still there, without reading."""

from __future__ import annotations

import asyncio
import socket
import sys

#: Linux has the state of a TCP connection in the first byte of this.
_TCP_INFO: int | None = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
_TCP_ESTABLISHED = 1


def has_peer_closed(transport: asyncio.Transport) -> bool:
    """Return whether the peer has closed its side, even behind unread bytes.

    Always False on other systems than Linux.
    """
    sock = transport.get_extra_info("socket")
    if sock is None or _TCP_INFO is None:
        return False
    state: int = sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0]
    return state != _TCP_ESTABLISHED
