"""The SQLSTATEs that blame the data of a request, the database as a whole, or neither."""

from __future__ import annotations

import asyncpg
import pytest

from queenmq import errors
from queenmq.storage.connection.driver_errors import translate_error


def _raised(code: str, *, function: str = "ereport") -> errors.QueenError:
    """Return the translation of a server error that is raised in its own function."""
    fields = {"C": code, "M": 'no right on table "secret"', "R": function}
    error = asyncpg.PostgresError.new(fields)
    with pytest.raises(errors.QueenError) as found, translate_error(is_sent=True):
        raise error
    return found.value


@pytest.mark.parametrize(
    "code",
    [
        "22P05",  # untranslatable_character
        "22P02",  # invalid_text_representation
        "23514",  # check_violation
        "23502",  # not_null_violation
        "44000",  # with_check_option_violation
        "P0001",  # raise_exception, of a trigger that refuses rows
    ],
)
def test_only_the_data_is_refused(code: str) -> None:
    assert type(_raised(code)) is errors.StorageRejected


def test_an_id_that_is_taken_is_told_apart() -> None:
    assert type(_raised("23505")) is errors.NotUnique


@pytest.mark.parametrize(
    "code",
    [
        "0A000",  # feature_not_supported
        "21000",  # cardinality_violation
        "2F002",  # modifying_sql_data_not_permitted
        "42501",  # insufficient_privilege
        "42601",  # syntax_error
        "42703",  # undefined_column
        "42804",  # datatype_mismatch
        "42883",  # undefined_function
        "42P01",  # undefined_table
        "54000",  # program_limit_exceeded
        "54001",  # statement_too_complex
        "P0004",  # assert_failure
        "XX001",  # data_corrupted
        "ZZ999",  # of nobody
    ],
)
def test_what_is_not_known_to_be_the_data_is_a_fault(code: str) -> None:
    error = _raised(code)
    assert isinstance(error, errors.StorageFault)
    assert (error.code, error.is_in_doubt) == (code, False)
    # Only damage makes one ask whether the whole database is sick.
    assert error.is_suspicious is code.startswith("XX")


@pytest.mark.parametrize("code", ["08006", "25006", "28P01", "3D000", "53100", "57P01", "58030"])
def test_a_server_that_is_away_is_no_fault(code: str) -> None:
    assert type(_raised(code)) is errors.StorageUnavailable


def test_every_code_of_ours_has_a_meaning() -> None:
    codes = [value for name, value in vars(errors).items() if name.isupper() and name != "UUID"]
    # A batch of Spark runs on a connection of its own, and only an older broker hears of its age.
    elsewhere = {errors.STAGED_ROWS_LOST, errors.BATCH_CHANGED, errors.RELEASE_TOO_OLD}
    for code in set(codes) - elsewhere:
        assert not isinstance(_raised(code), (errors.StorageRejected, errors.StorageUnavailable))


@pytest.mark.parametrize("code", ["23514", "22003", "44000", "P0001"])
def test_only_the_words_of_a_function_that_refuses_data_are_for_callers(code: str) -> None:
    for function, is_shown in (("exec_stmt_raise", True), ("ExecConstraints", False)):
        error = _raised(code, function=function)
        assert ("secret" in errors.public_text(error)) is is_shown
        assert "secret" in str(error)


class _Unencodable(asyncpg.InterfaceError, ValueError):
    """The error of the driver for an argument that it cannot encode."""


def test_nothing_that_the_driver_says_is_for_callers() -> None:
    for failure in (
        asyncpg.InterfaceError("cannot use db1"),
        OSError("no route to db1"),
        asyncpg.InternalClientError("db1 sent nonsense"),
        _Unencodable("invalid input for query argument $1 of db1"),
    ):
        with pytest.raises(errors.QueenError) as caught, translate_error(is_sent=True):
            raise failure
        assert "db1" in str(caught.value) and "db1" not in errors.public_text(caught.value)
