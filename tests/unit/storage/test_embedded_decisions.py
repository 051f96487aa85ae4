"""The decisions of the embedded server, apart from every process and every file they lead to."""

from __future__ import annotations

import pytest

from queenmq.storage.embedded.cluster_init import PROGRAM_ENVIRONMENT
from queenmq.storage.embedded.endpoints import SOCKET_DIR_BYTES_MAX, is_fit_for_socket
from queenmq.storage.embedded.errors import EmbeddedPostgresError
from queenmq.storage.embedded.keeper_decisions import (
    EXITS_PER_MINUTE_MAX,
    RESTART_SECONDS_MAX,
    RESTART_SECONDS_MIN,
    GiveUp,
    RestartAfter,
    decide_restart,
    last_words_of,
)
from queenmq.storage.embedded.layout import Runtime
from queenmq.storage.embedded.postmaster import is_postmaster_command, parse_pid_file
from queenmq.storage.embedded.run_as import (
    Account,
    RunAs,
    choose_run_as,
    decide_account,
    parse_bounding_mask,
    plan_run_as,
)
from queenmq.storage.embedded.server_settings import (
    SHARED_BUFFERS_MB_MAX,
    SHARED_BUFFERS_MB_MIN,
    choose_wal_compression,
    default_shared_buffers_mb,
    plan_settings,
    render_settings,
)

POSTGRES = Account(uid=101, gid=104)
BOTH_CAPABILITIES = 1 << 1 | 1 << 2
ONLY_DAC_OVERRIDE = 1 << 1
GIB = 1024**3


def make_settings(**extra: str) -> dict[str, str]:
    return plan_settings(
        shared_buffers_mb=64, max_connections=50, wal_compression="pglz", extra_settings=extra
    )


class TestRunAs:
    def test_plain_user_runs_postgres_directly(self) -> None:
        ways = plan_run_as(euid=1000, account=None, bounding_mask=0, setpriv=None)
        assert ways == [RunAs()]

    def test_root_tries_the_bare_account_before_any_capability(self) -> None:
        ways = plan_run_as(
            euid=0, account=POSTGRES, bounding_mask=BOTH_CAPABILITIES, setpriv="/bin/setpriv"
        )
        assert ways[0] == RunAs(account=POSTGRES, owner=POSTGRES)
        assert "--ambient-caps=+dac_read_search" in ways[1].prefix
        assert "--ambient-caps=+dac_override" in ways[2].prefix

    def test_root_takes_dac_override_when_only_that_is_in_the_bounding_set(self) -> None:
        ways = plan_run_as(
            euid=0, account=POSTGRES, bounding_mask=ONLY_DAC_OVERRIDE, setpriv="/bin/setpriv"
        )
        assert len(ways) == 2
        assert "--ambient-caps=+dac_override" in ways[1].prefix

    def test_root_has_only_the_bare_account_without_setpriv(self) -> None:
        ways = plan_run_as(euid=0, account=POSTGRES, bounding_mask=BOTH_CAPABILITIES, setpriv=None)
        assert [way.prefix for way in ways] == [()]

    def test_root_has_no_way_without_an_account(self) -> None:
        assert plan_run_as(euid=0, account=None, bounding_mask=-1, setpriv="/bin/setpriv") == []

    def test_every_way_of_root_changes_user_and_drops_groups(self) -> None:
        for way in plan_run_as(
            euid=0, account=POSTGRES, bounding_mask=BOTH_CAPABILITIES, setpriv="/bin/setpriv"
        ):
            by_prefix = {"--reuid=101", "--regid=104", "--clear-groups"} <= set(way.prefix)
            assert by_prefix or (way.uid, way.gid, way.extra_groups) == (101, 104, [])

    def test_choice_is_the_first_way_that_works(self) -> None:
        ways = [RunAs(prefix=("a",)), RunAs(prefix=("b",)), RunAs(prefix=("c",))]
        assert choose_run_as(ways, works=lambda way: way.prefix != ("a",)) == ways[1]

    def test_choice_is_none_when_no_way_works(self) -> None:
        assert choose_run_as([RunAs()], works=lambda _: False) is None

    def test_account_is_the_owner_of_an_existing_cluster(self) -> None:
        owner = Account(uid=1000, gid=1000)
        assert decide_account(cluster_owner=owner, named=[POSTGRES]) == owner

    @pytest.mark.parametrize(
        "cluster_owner", [None, Account(0, 0)], ids=["no-cluster", "owned-by-root"]
    )
    def test_account_is_the_first_that_exists_otherwise(
        self, cluster_owner: Account | None
    ) -> None:
        assert decide_account(cluster_owner=cluster_owner, named=[None, POSTGRES]) == POSTGRES

    def test_bounding_mask_is_read_from_the_kernels_text(self) -> None:
        assert parse_bounding_mask("CapEff:\t00ff\nCapBnd:\t0000000000000006\n") == 6

    def test_bounding_mask_is_empty_where_the_kernel_says_nothing(self) -> None:
        assert parse_bounding_mask("") == 0


class TestRestart:
    def test_first_end_is_followed_by_a_quick_restart(self) -> None:
        decision = decide_restart(has_been_ready=True, last_words="", exits_at=[10.0], now=10.0)
        assert decision == RestartAfter(RESTART_SECONDS_MIN)

    def test_delay_doubles_up_to_its_bound(self) -> None:
        delays = []
        for count in range(1, EXITS_PER_MINUTE_MAX + 1):
            decision = decide_restart(
                has_been_ready=True, last_words="", exits_at=[0.0] * count, now=1.0
            )
            assert isinstance(decision, RestartAfter)
            delays.append(decision.seconds)
        assert delays[:3] == [0.1, 0.2, 0.4]
        assert delays == sorted(delays)
        assert delays[-1] == RESTART_SECONDS_MAX

    def test_keeper_gives_up_after_too_many_ends_within_a_minute(self) -> None:
        exits_at = [0.0] * (EXITS_PER_MINUTE_MAX + 1)
        decision = decide_restart(
            has_been_ready=True, last_words="PANIC: x", exits_at=exits_at, now=59.0
        )
        assert isinstance(decision, GiveUp)
        assert "PANIC: x" in decision.reason

    def test_old_ends_do_not_count(self) -> None:
        exits_at = [0.0] * 50 + [100.0]
        decision = decide_restart(has_been_ready=True, last_words="", exits_at=exits_at, now=100.0)
        assert decision == RestartAfter(RESTART_SECONDS_MIN)

    def test_keeper_gives_up_at_once_when_the_first_start_fails(self) -> None:
        decision = decide_restart(
            has_been_ready=False, last_words="FATAL: bad setting", exits_at=[1.0], now=1.0
        )
        assert isinstance(decision, GiveUp)
        assert "bad setting" in decision.reason

    def test_first_start_is_tried_again_while_old_backends_hold_memory(self) -> None:
        words = "FATAL:  pre-existing shared memory block (key 1, ID 2) is still in use"
        decision = decide_restart(has_been_ready=False, last_words=words, exits_at=[1.0], now=1.0)
        assert isinstance(decision, RestartAfter)

    def test_last_words_prefer_fatal_lines(self) -> None:
        piece = "LOG:  a\nFATAL:  b\nHINT:  c\nLOG:  d\n"
        assert last_words_of(piece) == "FATAL:  b"

    def test_last_words_name_a_wrong_setting(self) -> None:
        piece = 'LOG:  unrecognized configuration parameter "x"\nFATAL:  file contains errors\n'
        assert '"x"' in last_words_of(piece)

    def test_last_words_fall_back_to_the_last_lines(self) -> None:
        assert last_words_of("one\ntwo\nthree\n") == "two / three"
        assert last_words_of("") == "nothing"


class TestPostmaster:
    LINES = ("42", "/d", "1", "5432", "/s", "127.0.0.1", "  1  2")

    def test_pid_file_with_ready_status_is_ready(self) -> None:
        found = parse_pid_file("\n".join([*self.LINES, "ready   ", ""]))
        assert found is not None and found.pid == 42 and found.is_ready

    @pytest.mark.parametrize(
        "more", [[], ["starting"], ["stopping"]], ids=["early", "starting", "stopping"]
    )
    def test_pid_file_without_ready_status_is_not_ready(self, more: list[str]) -> None:
        found = parse_pid_file("\n".join([*self.LINES, *more]))
        assert found is not None and not found.is_ready

    @pytest.mark.parametrize("text", ["", "\n", "garbage\n"], ids=["empty", "blank", "garbage"])
    def test_pid_file_without_a_number_says_nothing(self, text: str) -> None:
        assert parse_pid_file(text) is None

    @pytest.mark.parametrize(
        ("arguments", "expected"),
        [
            (["/x/bin/postgres", "-D", "/data/postgres", "-c", "port=1"], True),
            (["/x/bin/postgres", "-D", "/data/other"], False),
            (["postgres: checkpointer "], False),
            (["vim", "-D", "/data/postgres"], False),
            ([""], False),
        ],
        ids=["ours", "other-cluster", "child", "other-program", "zombie"],
    )
    def test_postmaster_is_told_by_program_and_directory(
        self, arguments: list[str], expected: bool
    ) -> None:
        assert is_postmaster_command(arguments, "/data/postgres") is expected


class TestSettings:
    @pytest.mark.parametrize(
        ("ram_bytes", "expected_mb"),
        [
            (32 * 1024**2, SHARED_BUFFERS_MB_MIN),
            (GIB // 2, 128),
            (64 * GIB, SHARED_BUFFERS_MB_MAX),
        ],
        ids=["tiny", "a-quarter", "large"],
    )
    def test_shared_buffers_are_a_quarter_of_memory_within_bounds(
        self, ram_bytes: int, expected_mb: int
    ) -> None:
        assert default_shared_buffers_mb(ram_bytes) == expected_mb

    def test_wal_compression_is_lz4_only_where_it_is_built_in(self) -> None:
        assert choose_wal_compression("'--without-icu' '--with-lz4'") == "lz4"
        assert choose_wal_compression("'--without-icu'") == "pglz"

    def test_settings_never_trade_durability(self) -> None:
        settings = make_settings()
        for name in ("fsync", "synchronous_commit", "full_page_writes"):
            assert settings[name] == "on"

    def test_extra_settings_win(self) -> None:
        assert make_settings(random_page_cost="4")["random_page_cost"] == "4"

    @pytest.mark.parametrize("name", ["port", "Port", "data_directory", "bad name", "x\ny"])
    def test_extra_settings_that_would_break_the_layout_are_refused(self, name: str) -> None:
        with pytest.raises(EmbeddedPostgresError, match="extra setting"):
            make_settings(**{name: "1"})

    def test_rendered_values_are_quoted(self) -> None:
        assert r"a = 'it''s \\ fine'" in render_settings({"a": r"it's \ fine"})

    def test_rendered_values_hold_no_line_break(self) -> None:
        with pytest.raises(EmbeddedPostgresError, match="line break"):
            render_settings({"a": "1\nfsync = off"})

    def test_programs_get_nothing_of_our_environment(self) -> None:
        assert not any(name.startswith("PG") for name in PROGRAM_ENVIRONMENT)


class TestAddresses:
    def test_urls_quote_what_needs_quoting(self) -> None:
        runtime = Runtime(port=5432, socket_dir="/a b/c&d")
        assert runtime.tcp_url("p@ss/w") == "postgresql://queen:p%40ss%2Fw@127.0.0.1:5432/queen"
        assert runtime.socket_url() == "postgresql://queen@/queen?host=/a%20b/c%26d&port=5432"

    def test_socket_directory_limit_counts_bytes(self) -> None:
        assert is_fit_for_socket("/" + "x" * (SOCKET_DIR_BYTES_MAX - 1))
        assert not is_fit_for_socket("/" + "x" * SOCKET_DIR_BYTES_MAX)
        assert not is_fit_for_socket("/" + "é" * (SOCKET_DIR_BYTES_MAX // 2 + 1))

    def test_socket_directory_with_a_comma_is_unfit(self) -> None:
        assert not is_fit_for_socket("/a,b")
