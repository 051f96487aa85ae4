"""Pure: requests that are right, made wrong in many ways. The same seed gives the same bytes."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator

_HOST = b"Host: localhost\r\n"
_PUSH = b'{"items":[{"queue":"fuzz","payload":1}]}'
_CHUNKS = b"6\r\n" + _PUSH[:6] + b"\r\n22;a=b\r\n" + _PUSH[6:] + b"\r\n0\r\nT: u\r\n\r\n"
_ZIPPED = gzip.compress(_PUSH, mtime=0)
#: Right ones of every kind of framing. None of them deletes, so that runs stay alike.
SEEDS = (
    b"GET /health/live HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"HEAD /health HTTP/1.1\r\n" + _HOST + b"Accept-Encoding: gzip\r\n\r\n",
    b"GET /api/v1/pop/queue/fuzz?batch=2 HTTP/1.1\r\n" + _HOST + b"\r\n",
    b"GET http://localhost/health/live HTTP/1.1\r\n" + _HOST + b"Connection: keep-alive\r\n\r\n",
    b"GET /health/live HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\n" + _HOST + b"Origin: http://localhost\r\n\r\n",
    b"POST /api/v1/push HTTP/1.1\r\n" + _HOST + b"Content-Length: %d\r\n\r\n" % len(_PUSH) + _PUSH,
    b"POST /api/v1/push HTTP/1.1\r\n" + _HOST + b"Transfer-Encoding: chunked\r\n\r\n" + _CHUNKS,
    b"POST /api/v1/push HTTP/1.1\r\n" + _HOST + b"Content-Encoding: gzip\r\n"
    b"Content-Length: %d\r\n\r\n" % len(_ZIPPED) + _ZIPPED,
    b"POST /api/v1/push HTTP/1.1\r\n" + _HOST + b"Expect: 100-continue\r\n"
    b"Content-Length: %d\r\n\r\n" % len(_PUSH) + _PUSH,
    b"POST /api/v1/transaction HTTP/1.1\r\n" + _HOST + b"Content-Length: 2\r\n\r\n{}",
    b"POST /api/v1/lease/x/extend HTTP/1.1\r\n" + _HOST + b"Content-Length: 0\r\n\r\n",
)  # fmt: skip
_PIECES = (
    b"\r\n", b"\n", b"\r", b"\0", b" ", b"\t", b":", b"0", b"\r\n\r\n", b"\xff", b"%00", b";",
    b"Transfer-Encoding: chunked\r\n", b"Content-Length: 3\r\n", b"Content-Length: -1\r\n",
    b"Host: x\r\n", b"Connection: close\r\n", b"Content-Encoding: gzip\r\n", b"Upgrade: h2c\r\n",
    b"Content-Encoding: zstd\r\n", b"ffffffffffffffff\r\n", b"HTTP/1.1", b"X: " + b"y" * 3_000,
)  # fmt: skip


def mutate(chance: random.Random) -> bytes:
    """Return one to three requests in a row with up to eight faults."""
    data = bytearray(b"".join(chance.choices(SEEDS, k=chance.randint(1, 3))))
    for _ in range(chance.randint(0, 8)):
        at = chance.randrange(len(data) + 1)
        how = chance.randrange(7)
        if how == 0 and at < len(data):
            data[at] = chance.randrange(256)
        elif how == 1:
            del data[at : at + chance.randint(1, 12)]
        elif how == 2:
            data[at:at] = chance.choice(_PIECES)
        elif how == 3:
            data[at:at] = data[at : at + chance.randint(1, 40)]
        elif how == 4:
            data[at:at] = chance.choice(SEEDS)[: chance.randint(1, 60)]
        elif how == 5 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        else:
            del data[len(data) - chance.randint(0, len(data) // 4) :]
    return bytes(data) or b"x"


def cut(chance: random.Random, data: bytes) -> Iterator[bytes]:
    """Yield the bytes as a network may deliver them: whole, in pieces, or one by one."""
    size = chance.choice((len(data), len(data), 1, 3, 17, 100))
    for at in range(0, len(data), size):
        yield data[at : at + size]
