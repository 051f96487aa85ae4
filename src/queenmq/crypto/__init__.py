"""Encryption of payloads: keys come in, JSON envelopes go out and come back as payloads.

Start reading with `envelope`. `vault` is what everything else uses: it holds the keys and turns a
payload into an envelope and back. Nothing here does I/O but `keys.read_keys`, which reads the file
with the keys.
"""

from __future__ import annotations
