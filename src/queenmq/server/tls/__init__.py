"""TLS in front of the edge.

`certificates` makes the context from files and reloads it when they change. `link` stands
between a socket and a connection of the edge: ciphertext goes in and out, the connection sees
bytes. Without TLS nothing of this is used.
"""

from __future__ import annotations
