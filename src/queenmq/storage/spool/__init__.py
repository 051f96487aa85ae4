"""Owns the spool: a directory on disk that keeps push requests while PostgreSQL cannot take them.

A body goes in at the end and is on disk before `append` returns; one process at a time drains from
the front. All worker processes of a broker share one spool. What a body means, when to spool and
when to drain is decided elsewhere.

    <spool>/<20 digits>.log   segments: records of framing.py, one behind the other
    <spool>/cursor            how far draining has come; durable
    <spool>/state             shared memory of the processes; a cache, made again from the files
    <spool>/append.lock       held around every change of the state
    <spool>/use.lock          shared by every process that has the spool open
    <spool>/drain.lock        held by the process that drains
    <spool>/aside/            what could not be drained, for a person to look at; and a reserve

What a drain writes lies in blocks that it has had since the spool was opened, or takes those of the
reserve, so a full disk does not keep the spool from emptying.

Lock order: drain.lock, append.lock, use.lock.

What a caller may rely on:

- A record whose `append` returned is drained once the cursor has passed it, and not before; in the
  order of the appends, over all processes. After a crash a batch may be read again.
- A record whose `append` failed, or never returned, may or may not be there.
- Damage never stops the later segments. From a record that cannot be read to the end of its
  segment everything is copied to `aside/` and skipped. Later records of the same segment are in
  that copy, not drained: once a checksum fails, where the next record begins is a guess, and a
  wrong guess could take a part of some client's payload for a request. The end of the last segment
  is treated alike before it is cut, since a torn write and a damaged length look the same.
"""

from __future__ import annotations

from queenmq.storage.spool.aside import AsideEntry
from queenmq.storage.spool.aside_retry import Retried
from queenmq.storage.spool.position import Phase, Place, Position, SpoolBatch, SpoolStats
from queenmq.storage.spool.spool import Spool

__all__ = [
    "AsideEntry",
    "Phase",
    "Place",
    "Position",
    "Retried",
    "Spool",
    "SpoolBatch",
    "SpoolStats",
]
