"""Names the folders of a queue's files. Pure.

The log has the queue of each file, so folders mean nothing to readers that follow the protocol.
Some readers take values from folders anyway. For them folders are called `queue=<name>/day=<day>`,
with the name percent-encoded as delta-rs does it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import md5
from urllib.parse import quote

#: Names that Spark may write into a local folder: Java does not write all letters as they are.
LOCAL = "[A-Za-z0-9_.-]{1,200}"
#: Likewise, into an object store; Spark escapes what is special there.
REMOTE = "(?s:.+)"
#: A folder of this name means NULL.
NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
#: What file systems allow.
_NAME_BYTES = 255


def working_names(queues: Iterable[str], plain: str) -> dict[str, str]:
    """Return the queues by what Spark calls them: their names where they are plain, else a
    digest.
    """
    return {
        name if re.fullmatch(plain, name) and name != NO_VALUE else f"~{_digest(name)}": name
        for name in queues
    }


def folder_name(queue: str) -> str:
    """Return the folder of a queue on a local file system.

    A name that is too long has a digest, and its folder names no column: a reader that takes values
    from folders fails there instead of reading a wrong name.
    """
    return _encode(queue) if fits(queue) else f"long-{_digest(queue)}"


def fits(queue: str) -> bool:
    """Return whether the name of a queue can be that of a folder; if not, delta-rs cannot write
    there.
    """
    return len(_encode(queue)) <= _NAME_BYTES


def _encode(queue: str) -> str:
    if queue == NO_VALUE:
        return f"queue={queue.replace('_', '%5F')}"
    # delta-rs does not find its own files again below a folder with a tilde.
    return f"queue={quote(queue, safe='').replace('~', '%7E')}"


def _digest(name: str) -> str:
    return md5(name.encode(), usedforsecurity=False).hexdigest()
