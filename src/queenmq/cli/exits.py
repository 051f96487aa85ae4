"""Owns the exit codes of `queen`: which error ends with which number, and its line.

The numbers are a promise to scripts; docs/cli.md lists them.
"""

from __future__ import annotations

from http import HTTPStatus

from queenmq.errors import (
    AccessRefused,
    InvalidRequest,
    NotFound,
    QueenError,
    SettingsError,
    StorageFault,
    StorageUnavailable,
)

OK = 0
#: Refused, failed, or failed in part.
ERROR = 1
#: The command line, a file or a context cannot be used as it stands.
USAGE = 2
#: The thing named does not exist, or there is nothing to give.
NOTHING = 3
#: No answer, or not now. It may work later.
UNREACHABLE = 4
#: The server wants another token, or more rights.
REFUSED = 5
#: A check found what it looks for: lag, pending changes, damage.
FOUND = 6
#: Ctrl-C.
INTERRUPTED = 130
#: The reader of the output has gone, as `head` does.
PIPE_CLOSED = 141


class UsageProblem(QueenError):
    """The command line, a file or a context cannot be used as it stands."""


class NotNow(QueenError):
    """The server cannot serve this now; later it may work."""


class NothingThere(QueenError):
    """The thing named does not exist, or there is nothing to give."""


class TooFewRights(QueenError):
    """The token has too few rights for a command that would stop half-way."""


def code_of(error: QueenError) -> int:
    """Return the exit code for an error."""
    from queenmq.client import errors

    kinds: list[tuple[type[QueenError] | tuple[type[QueenError], ...], int]] = [
        # Trying again would not help before something has changed.
        ((AccessRefused, StorageFault), ERROR),
        ((NothingThere, errors.ResourceNotFound, NotFound), NOTHING),
        ((UsageProblem, SettingsError, InvalidRequest), USAGE),
        ((NotNow, errors.Unreachable, errors.ServerBusy, StorageUnavailable), UNREACHABLE),
        ((errors.NotAllowed, TooFewRights), REFUSED),
    ]
    if isinstance(error, errors.ServerBusy) and error.code == "encryption_key_missing":
        # Another try would not help before the broker gets one.
        return ERROR
    if isinstance(error, errors.BadRequest) and error.status == HTTPStatus.BAD_REQUEST:
        return USAGE
    return next((code for kind, code in kinds if isinstance(error, kind)), ERROR)


def line_of(error: QueenError) -> str:
    """Return the error in one line. A server's own sentence is enough where it names the thing."""
    from queenmq.client import errors

    text = str(error)
    if isinstance(error, errors.NotAllowed) and error.status == HTTPStatus.UNAUTHORIZED:
        text = f"{text.rstrip('.')}; pass a token with --token, QUEEN_TOKEN or a context"
    elif isinstance(error, errors.RequestFailed) and 400 <= error.status < 500:
        text = error.reason
    return " ".join(text.split())
