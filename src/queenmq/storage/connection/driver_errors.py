"""Translates errors of the driver into those of this package: by SQLSTATE, never by text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import asyncpg

from queenmq import errors
from queenmq.storage.connection.faults import fault_of

#: SQLSTATEs of a lock timeout or a deadlock: nothing was done, another try may succeed.
_BUSY = {"55P03", "40P01", "40001"}
#: SQLSTATE classes that blame the data: a value that does not fit, a constraint, the check of a
#: view. Only these refuse a request. Errors not listed here are retried.
_DATA_CLASSES = {"22", "23", "44"}
#: RAISE EXCEPTION without a code. No function of Queen does that, so it is a trigger that
#: an operator has added to refuse rows.
_RAISED = "P0001"
#: SQLSTATE classes that say something about the server as a whole or the way to it.
_SERVER_CLASSES = {"08", "25", "28", "3D", "40", "53", "55", "57", "58", "F0", ""}
#: SQLSTATE class of bugs and damage inside the server, in one table or in all.
_INTERNAL_CLASS = "XX"
#: SQLSTATE classes of a lost connection. Its call may have been carried out.
_BROKEN_OFF_CLASSES = {"08", "57"}
#: Why a transaction as a whole was refused.
_REFUSALS = {
    errors.QUEUE_FULL,
    errors.ACK_REFUSED,
    errors.LEASE_LOST,
    errors.DUPLICATE_PUSH,
    errors.KEY_REUSED,
}
_UNIQUE_VIOLATION = "23505"
#: The server's function behind RAISE in PL/pgSQL: the text is that of the function's author.
_RAISE = "exec_stmt_raise"
_NO_ANSWER = "the database does not answer; try again"
#: A refused new connection says nothing about the open ones.
_TOO_MANY_CONNECTIONS = "53300"


@contextmanager
def translate_error(*, is_sent: bool = False) -> Iterator[None]:
    """Turn errors of the driver into errors of this package.

    With `is_sent` a call was in flight, so after a lost connection it may have been carried out.
    """
    try:
        yield
    except asyncpg.PostgresError as error:
        raise _from_postgres(error, is_sent=is_sent) from error
    except asyncpg.InterfaceError as error:
        if is_sent and isinstance(error, ValueError):
            # The driver cannot encode an argument, so nothing was sent.
            raise errors.StorageRejected(f"the database cannot take the data: {error}") from error
        raise errors.StorageUnavailable(
            f"the database does not answer: {error}; try again",
            public=_NO_ANSWER,
            is_in_doubt=is_sent,
        ) from error
    except TimeoutError as error:
        # Before OSError, of which it is one kind, because it has no text of its own.
        raise errors.StorageUnavailable(
            "the database did not answer in time; try again",
            public="the database did not answer in time; try again",
            reason="no_answer",
            is_in_doubt=is_sent,
        ) from error
    except (OSError, asyncpg.InternalClientError) as error:
        raise errors.StorageUnavailable(
            f"the database does not answer: {error}; try again",
            public=_NO_ANSWER,
            reason="unreachable",
            is_in_doubt=is_sent,
        ) from error


def _from_postgres(error: asyncpg.PostgresError, *, is_sent: bool) -> errors.QueenError:
    code = error.sqlstate or ""
    # Without the DETAIL and HINT lines that str(error) appends.
    text = str(error.args[0]) if error.args else type(error).__name__
    if code == errors.PARTITION_GONE:
        return errors.PartitionGone(text)
    if code == errors.ENCRYPTION_STALE:
        return errors.EncryptionStale(text)
    if code == errors.OPERATION_QUEUE_FULL:
        ids = (error.detail or "").strip("{}").split(",")
        return errors.OperationQueueFull(
            text,
            partition_ids=[UUID(one) for one in ids if one],
            depth=int(error.hint or 0),
            bound=error.constraint_name or "load_partition_queue_max",
        )
    if code == errors.KEY_KNOWN:
        return errors.KeyKnown(text)
    if code == errors.CLAIM_LOST:
        return errors.ClaimLost(text)
    if code in _REFUSALS:
        return errors.TransactionRefused(text)
    if code in _BUSY:
        return errors.PartitionBusy("another transaction holds what this request needs; try again")
    if code[:2] in _DATA_CLASSES or code == _RAISED:
        kind = errors.NotUnique if code == _UNIQUE_VIOLATION else errors.StorageRejected
        sentence = f"the database refused the request: {text}"
        # An operator's trigger addresses producers. The server's own texts name constraints.
        is_raised = error.server_source_function == _RAISE
        return kind(
            sentence,
            public=sentence
            if is_raised
            else f"the database refused the data of this request (SQLSTATE {code}); change it",
        )
    if code[:2] not in _SERVER_CLASSES:
        return errors.StorageFault(
            f"the database has a fault: {text} (SQLSTATE {code}); fix the database",
            code=code,
            is_suspicious=code[:2] == _INTERNAL_CLASS,
        )
    fault = fault_of(code)
    return errors.StorageUnavailable(
        f"the database cannot serve the request now: {text}; {fault.advice}",
        public=f"{fault.public}; try again",
        reason=fault.reason,
        is_in_doubt=is_sent and code[:2] in _BROKEN_OFF_CLASSES,
        is_suspicious=code != _TOO_MANY_CONNECTIONS,
    )
