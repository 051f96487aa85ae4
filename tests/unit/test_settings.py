"""Settings: which source wins, and that a bad value stops the start with a sentence about it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from queenmq import settings
from queenmq.errors import SettingsError
from queenmq.settings import Settings, load

FIELDS = [field.name for field in msgspec.structs.fields(Settings)]


def test_the_settings_page_shows_the_error_of_a_bad_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUEEN_PUSH_ROWS_MAX", "x")
    with pytest.raises(SettingsError) as caught:
        load({})
    page = Path(__file__).parents[2] / "docs" / "settings.md"
    assert f"\nqueen: {caught.value}\n" in page.read_text()


@pytest.fixture
def write_config(tmp_path: Path) -> Any:
    """Writes a settings file; its path."""

    def write(text: str | bytes) -> str:
        path = tmp_path / "queen.toml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    return write


def refusal(*arguments: Any, **sources: Any) -> str:
    with pytest.raises(SettingsError) as caught:
        load(*arguments, **{"environ": {}, **sources})
    return str(caught.value)


class TestPrecedence:
    def test_defaults_apply_when_nothing_is_given(self) -> None:
        assert load(environ={}) == Settings()

    def test_file_beats_default(self, write_config: Any) -> None:
        assert load(config=write_config("port = 1"), environ={}).port == 1

    def test_environment_beats_file(self, write_config: Any) -> None:
        assert load(config=write_config("port = 1"), environ={"QUEEN_PORT": "2"}).port == 2

    def test_flag_beats_environment(self, write_config: Any) -> None:
        found = load({"port": "3"}, config=write_config("port = 1"), environ={"QUEEN_PORT": "2"})
        assert found.port == 3

    def test_a_flag_that_was_not_given_beats_nothing(self) -> None:
        assert load({"port": None}, environ={"QUEEN_PORT": "2"}).port == 2

    def test_each_setting_has_an_origin(self, write_config: Any) -> None:
        path = write_config("port = 1\nhost = 'h'\ndb_pool_size = 9")
        environ = {"QUEEN_HOST": "e", "JWT_SECRET": "s", "QUEEN_WORKERS": "", "NUM_WORKERS": "3"}
        found = settings.find_origins(
            {"port": "2", "log_level": None}, config=path, environ=environ
        )
        assert found == {
            "port": "flag",
            "host": "environment",
            "jwt_secret": "environment",
            "workers": "environment",
            "db_pool_size": "file",
        }

    def test_each_setting_is_decided_by_itself(self, write_config: Any) -> None:
        config = write_config('port = 1\nhost = "a"\nworkers = 2')
        found = load({"port": "3"}, config=config, environ={"QUEEN_HOST": "b"})
        assert (found.port, found.host, found.workers) == (3, "b", 2)

    def test_the_environment_may_name_the_file(self, write_config: Any) -> None:
        assert load(environ={"QUEEN_CONFIG": write_config("port = 1")}).port == 1

    def test_the_flag_for_the_file_beats_the_environment(self, write_config: Any) -> None:
        found = load(config=write_config("port = 1"), environ={"QUEEN_CONFIG": "/nowhere"})
        assert found.port == 1

    def test_the_process_environment_is_read_by_default(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("QUEEN_PORT", "4")
        assert load().port == 4

    def test_a_bad_value_that_is_overruled_does_not_matter(self) -> None:
        assert load({"port": "3"}, environ={"QUEEN_PORT": "nonsense"}).port == 3


class TestValues:
    @pytest.mark.parametrize(
        "name", [name for name in FIELDS if getattr(Settings(), name) is not None]
    )
    def test_every_setting_can_come_from_the_environment(self, name: str) -> None:
        default = getattr(Settings(), name)
        text = str(default).lower() if isinstance(default, bool) else str(default)
        found = load(environ={f"QUEEN_{name.upper()}": text})
        assert getattr(found, name) == default

    @pytest.mark.parametrize("name", FIELDS)
    def test_every_default_keeps_its_own_rules(self, name: str) -> None:
        assert getattr(load({name: getattr(Settings(), name)}, environ={}), name) == getattr(
            Settings(), name
        )

    @pytest.mark.parametrize(
        ("text", "value"), [("true", True), ("1", True), ("false", False), ("0", False)]
    )
    def test_booleans_have_two_spellings(self, text: str, value: bool) -> None:
        assert load(environ={"QUEEN_WAKE_LISTEN": text}).wake_listen is value

    def test_a_database_may_be_named(self) -> None:
        url = "postgresql://queen@db/queen"
        assert load(environ={"QUEEN_DATABASE_URL": url}).database_url == url

    def test_the_spool_may_be_elsewhere(self) -> None:
        assert load(environ={"QUEEN_SPOOL_DIR": "/var/spool/queen"}).spool_dir == "/var/spool/queen"

    @pytest.mark.parametrize("name", ["database_url", "port", "config"])
    def test_an_empty_variable_counts_as_not_given(self, name: str) -> None:
        # What a compose file makes of a variable that is not set.
        assert load(environ={f"QUEEN_{name.upper()}": ""}) == Settings()

    @pytest.mark.parametrize("scheme", ["tcp", "udp", "sctp"])
    def test_the_port_of_a_service_is_not_ours(self, scheme: str, write_config: Any) -> None:
        # What Kubernetes sets in each pod beside a service named "queen".
        environ = {"QUEEN_PORT": f"{scheme}://10.0.0.1:6632", "QUEEN_SERVICE_HOST": "10.0.0.1"}
        assert load(environ=environ) == Settings()
        assert settings.find_origins(environ=environ) == {}
        assert load(config=write_config("port = 7000"), environ=environ).port == 7000
        assert load({"port": 7001}, environ=environ).port == 7001

    @pytest.mark.parametrize("value", ["10.0.0.1:6632", "http://10.0.0.1:6632", "tcp:6632"])
    def test_any_other_port_that_is_no_number_is_refused(self, value: str) -> None:
        assert "QUEEN_PORT cannot be" in refusal(environ={"QUEEN_PORT": value})

    def test_variables_of_others_are_ignored(self) -> None:
        assert load(environ={"QUEEN_NONSENSE": "1", "MY_PORT": "2"}) == Settings()


class TestUnknownVariables:
    @pytest.mark.parametrize(
        ("name", "nearest"),
        [
            ("QUEEN_DATABSE_URL", "QUEEN_DATABASE_URL"),
            ("QUEEN_LOGLEVEL", "QUEEN_LOG_LEVEL"),
            ("QUEEN_DB_POOLSIZE", "QUEEN_DB_POOL_SIZE"),
            ("QUEEN_CONFIG_FILE", "QUEEN_CONFIG"),
            ("QUEEN_XYZZY_0", None),
        ],
    )
    def test_the_nearest_name_is_found(self, name: str, nearest: str | None) -> None:
        assert settings.find_unknown({name: "1", "QUEEN_PORT": "1"}) == {name: nearest}

    @pytest.mark.parametrize("name", FIELDS)
    def test_settings_are_known(self, name: str) -> None:
        assert settings.find_unknown({f"QUEEN_{name.upper()}": "1"}) == {}

    def test_variables_that_the_command_line_reads_are_known(self) -> None:
        source = Path(settings.__file__).parent
        read = {
            name
            for path in (source / "cli").rglob("*.py")
            for name in re.findall(r'envvar="(\w+)"', path.read_text())
        }
        assert read | {"QUEEN_CONFIG"} == settings.OTHERS
        assert settings.find_unknown(dict.fromkeys(settings.OTHERS, "1")) == {}

    def test_variables_of_others_are_no_mistakes(self) -> None:
        of_services = [
            "QUEEN_SERVICE_HOST",
            "QUEEN_SERVICE_PORT",
            "QUEEN_SERVICE_PORT_HTTP",
            "QUEEN_PORT_6632_TCP",
            "QUEEN_PORT_6632_TCP_ADDR",
            "QUEEN_BLUE_SERVICE_HOST",
            "QUEEN_BLUE_PORT_6632_TCP_PROTO",
        ]
        environ = dict.fromkeys([*of_services, "PORT", "QUEENS_PORT", "PATH"], "1")
        environ["QUEEN_NOT_SET"] = ""
        assert settings.find_unknown(environ) == {}

    def test_the_process_environment_is_looked_at_by_default(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("QUEEN_PROT", "4")
        assert settings.find_unknown()["QUEEN_PROT"] == "QUEEN_PORT"

    def test_an_unknown_key_of_the_file_is_refused_with_the_nearest_name(
        self, write_config: Any
    ) -> None:
        assert "unknown key 'prot'; did you mean 'port'?" in refusal(
            config=write_config("prot = 1")
        )


POLL_ALIASES = {
    variable: name
    for variable, name in settings.ALIASES.items()
    if variable.startswith("SMART_POLL_")
}


class TestOtherNames:
    @pytest.mark.parametrize(
        ("variable", "name", "value"),
        [
            ("JWT_ENABLED", "auth_enabled", True),
            ("JWT_ALGORITHM", "jwt_algorithm", "RS256"),
            ("JWT_SECRET", "jwt_secret", "s"),
            ("JWT_PUBLIC_KEY", "jwt_public_key", "k"),
            ("JWT_JWKS_URL", "jwt_jwks_url", "https://x"),
            ("JWT_JWKS_REFRESH_INTERVAL", "jwt_jwks_refresh_s", 60),
            ("JWT_JWKS_REQUEST_TIMEOUT", "jwt_jwks_timeout_ms", 900),
            ("JWT_ISSUER", "jwt_issuer", "i"),
            ("JWT_AUDIENCE", "jwt_audience", "a"),
            ("JWT_CLOCK_SKEW", "jwt_clock_skew_s", 5),
            ("JWT_ROLES_CLAIM", "jwt_roles_claim", "r"),
            ("JWT_ROLES_ARRAY_CLAIM", "jwt_roles_array_claim", "rs"),
            ("JWT_ROLE_ADMIN", "jwt_role_admin", "boss"),
            ("JWT_ROLE_READ_WRITE", "jwt_role_read_write", "rw"),
            ("JWT_ROLE_READ_ONLY", "jwt_role_read_only", "ro"),
        ],
    )
    def test_the_names_of_jwt_settings_work_without_our_prefix(
        self, variable: str, name: str, value: Any
    ) -> None:
        text = str(value).lower() if isinstance(value, bool) else str(value)
        assert getattr(load(environ={variable: text}), name) == value
        assert settings.ALIASES[variable] == name

    @pytest.mark.parametrize(("variable", "name"), POLL_ALIASES.items())
    def test_a_variable_without_our_prefix_works(self, variable: str, name: str) -> None:
        assert getattr(load(environ={variable: "77"}), name) == 77

    def test_the_names_are_those_that_are_promised(self) -> None:
        assert POLL_ALIASES == {
            "SMART_POLL_MAX_INTENTIONS": "smart_poll_max_intentions",
            "SMART_POLL_PREFLIGHT_TIMEOUT": "smart_poll_preflight_timeout_ms",
            "SMART_POLL_MIN_INTERVAL": "smart_poll_min_interval_ms",
        }

    @pytest.mark.parametrize(("variable", "name"), POLL_ALIASES.items())
    def test_the_variable_with_our_prefix_wins(self, variable: str, name: str) -> None:
        ours = f"QUEEN_{name.upper()}"
        for environ in ({variable: "77", ours: "88"}, {ours: "88", variable: "77"}):
            assert getattr(load(environ=environ), name) == 88
        assert getattr(load(environ={variable: "77", ours: ""}), name) == 77

    @pytest.mark.parametrize(("variable", "name"), POLL_ALIASES.items())
    def test_it_beats_the_file_and_loses_to_a_flag(
        self, write_config: Any, variable: str, name: str
    ) -> None:
        config = write_config(f"{name} = 66")
        assert getattr(load(config=config, environ={variable: "77"}), name) == 77
        found = load({name: "99"}, config=config, environ={variable: "77"})
        assert getattr(found, name) == 99

    @pytest.mark.parametrize("variable", POLL_ALIASES)
    def test_a_bad_value_is_named_as_it_was_given(self, variable: str) -> None:
        assert refusal(environ={variable: "0"}).startswith(f"{variable} cannot be '0'; use ")

    @pytest.mark.parametrize(("text", "value"), [("false", False), ("true", True)])
    def test_the_switch_of_the_state_machine_is_read(self, text: str, value: bool) -> None:
        assert load(environ={"USE_POP_STATE_MACHINE": text}).enable_pop_batching is value

    def test_the_collector_has_the_name_that_opentelemetry_gives_it(self) -> None:
        url = "http://collector:4318/v1/traces"
        assert load(environ={"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": url}).otlp_endpoint == url

    def test_nothing_else_without_our_prefix_is_read(self) -> None:
        environ = {"SMART_POLL_MAX_INTERVAL": "5", "POP_SLOTS": "3", "ENABLE_POP_BATCHING": "0"}
        assert load(environ=environ) == Settings()


class TestPopSettings:
    def test_the_defaults_are_those_of_the_settings_page(self) -> None:
        found = load(environ={})
        assert (found.enable_pop_batching, found.enable_pending_check) == (True, True)
        assert (found.pop_slots, found.pop_apart_count) == (0, 1_000)
        assert (found.push_calls_max, found.ack_calls_max) == (0, 0)
        assert (found.pop_candidates_max, found.pop_messages_max) == (256, 20_000)
        assert (found.smart_poll_min_interval_ms, found.smart_poll_max_interval_ms) == (100, 1_000)
        assert found.smart_poll_listening_interval_ms == 5_000
        assert found.smart_poll_max_intentions == 200
        assert found.smart_poll_preflight_timeout_ms == 50

    def test_traces_are_kept_for_a_week_or_as_long_as_one_likes(self) -> None:
        assert load(environ={}).trace_retention_s == 7 * 86_400
        assert load(environ={"QUEEN_TRACE_RETENTION_S": "60"}).trace_retention_s == 60
        with pytest.raises(SettingsError, match="QUEEN_TRACE_RETENTION_S"):
            load(environ={"QUEEN_TRACE_RETENTION_S": "0"})

    def test_no_server_may_get_a_copy_of_the_database_by_default(self) -> None:
        assert load(environ={}).move_targets == ""
        assert load(environ={"QUEEN_MOVE_TARGETS": "db.example"}).move_targets == "db.example"

    def test_bounds_of_stream_state(self) -> None:
        assert load(environ={}).stream_value_bytes_max == 2**20
        assert load(environ={"QUEEN_STREAM_STATE_BYTES_MAX": "9"}).stream_state_bytes_max == 9
        with pytest.raises(SettingsError, match="QUEEN_STREAM_VALUE_BYTES_MAX cannot be '0'"):
            load(environ={"QUEEN_STREAM_VALUE_BYTES_MAX": "0"})

    def test_defaults_of_the_load_manager(self) -> None:
        found = load(environ={})
        assert found.enable_load_management
        assert (found.load_push_threshold, found.load_push_queue_max) == (0.7, 10_000)
        assert (found.load_ack_threshold, found.load_ack_queue_max) == (0.8, 50_000)
        assert found.load_pop_threshold == 0.95
        assert (found.load_age_limit_ms, found.load_lag_limit_ms) == (1_000, 500)
        assert found.load_release_ratio == 0.7

    def test_a_threshold_may_be_a_fraction_or_a_whole_number(self, write_config: Any) -> None:
        assert load(environ={"QUEEN_LOAD_POP_THRESHOLD": "0.25"}).load_pop_threshold == 0.25
        assert load(config=write_config("load_pop_threshold = 2"), environ={}) == Settings(
            load_pop_threshold=2.0
        )

    def test_the_least_interval_may_not_be_above_the_most(self) -> None:
        text = refusal(environ={"QUEEN_SMART_POLL_MIN_INTERVAL_MS": "2000"})
        assert "smart_poll_min_interval_ms 2000" in text
        assert "smart_poll_max_interval_ms 1000" in text
        text = refusal({"smart_poll_max_interval_ms": "50"})
        assert "smart_poll_max_interval_ms 50" in text

    def test_both_intervals_may_be_the_same_or_move_together(self) -> None:
        for least, most in (("1000", "1000"), ("5000", "9000"), ("1", "1")):
            found = load(
                environ={
                    "QUEEN_SMART_POLL_MIN_INTERVAL_MS": least,
                    "QUEEN_SMART_POLL_MAX_INTERVAL_MS": most,
                }
            )
            assert found.smart_poll_min_interval_ms == int(least)
            assert found.smart_poll_max_interval_ms == int(most)


class TestRefusals:
    def test_a_bad_flag_is_named(self) -> None:
        text = refusal({"log_level": "loud"})
        assert text.startswith("--log-level cannot be 'loud'; use ")

    def test_a_bad_variable_is_named(self) -> None:
        text = refusal(environ={"QUEEN_PORT": "http"})
        assert text.startswith("QUEEN_PORT cannot be 'http'; use ")

    def test_a_bad_key_is_named_with_its_file(self, write_config: Any) -> None:
        path = write_config('port = "http"')
        assert refusal(config=path).startswith(f"port in {path} cannot be 'http'; use ")

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("port", "-1"),
            ("port", "65536"),
            ("port", "1.5"),
            ("workers", "0"),
            ("db_pool_size", "3"),
            ("wake_listen", "maybe"),
            ("wake_interval_ms", "-1"),
            ("retention_interval_s", "0"),
            ("retention_interval_s", "86401"),
            ("push_rows_max", "0"),
            ("push_wait_ms", str(2**31)),
            ("push_calls_max", "-1"),
            ("ack_calls_max", "65"),
            ("pop_slots", "-1"),
            ("pop_slots", "65"),
            ("pop_apart_count", "0"),
            ("pop_messages_max", "0"),
            ("pop_candidates_max", "0"),
            ("enable_pop_batching", "maybe"),
            ("enable_pending_check", "maybe"),
            ("smart_poll_max_intentions", "0"),
            ("smart_poll_preflight_timeout_ms", "0"),
            ("smart_poll_min_interval_ms", "0"),
            ("smart_poll_max_interval_ms", str(2**31)),
            ("enable_load_management", "maybe"),
            ("load_push_threshold", "0"),
            ("load_push_threshold", "100.1"),
            ("load_push_threshold", "nan"),
            ("load_push_threshold", "high"),
            ("load_ack_threshold", "-1"),
            ("load_pop_threshold", "inf"),
            ("load_push_queue_max", "0"),
            ("load_ack_queue_max", "0"),
            ("load_age_limit_ms", "0"),
            ("load_lag_limit_ms", "0"),
            ("load_release_ratio", "0"),
            ("load_release_ratio", "1.01"),
            ("max_name_length", "256"),
            ("default_subscription_mode", "old"),
            ("log_format", "xml"),
        ],
    )
    def test_a_value_out_of_bounds_is_refused(self, name: str, value: str) -> None:
        assert f"QUEEN_{name.upper()} cannot be {value!r}; use " in refusal(
            environ={f"QUEEN_{name.upper()}": value}
        )

    def test_an_unknown_key_in_the_file_is_named(self, write_config: Any) -> None:
        text = refusal(config=write_config("xyzzy = 1"))
        assert "unknown key 'xyzzy'; remove it" in text

    def test_a_file_that_is_not_there_is_named(self) -> None:
        text = refusal(config="nowhere/queen.toml")
        assert text == "config file nowhere/queen.toml cannot be read: No such file or directory"

    def test_a_folder_is_no_file(self, tmp_path: Path) -> None:
        assert f"config file {tmp_path} cannot be read" in refusal(config=str(tmp_path))

    def test_a_file_that_is_not_toml_is_named(self, write_config: Any) -> None:
        path = write_config("port =")
        assert refusal(config=path).startswith(f"config file {path} is not valid TOML: ")

    def test_a_file_that_is_not_utf8_is_named(self, write_config: Any) -> None:
        path = write_config(b'host = "\xff"')
        assert refusal(config=path).startswith(f"config file {path} ")

    def test_a_refusal_is_one_line(self) -> None:
        assert "\n" not in refusal(environ={"QUEEN_PORT": "a\nb"})


def test_every_setting_has_its_line_for_the_settings_page() -> None:
    source = Path(settings.__file__).read_text()
    body = source.partition("class Settings(")[2].partition("\ndef ")[0]
    for name in FIELDS:
        declared = body.partition(f"    {name}: ")[2]
        end = declared.index("\n", declared.index(" = "))
        # A declaration that the formatter has wrapped has its comment on the line inside.
        wrapped = declared.partition("\n    )")[0] if declared[:end].endswith("(") else ""
        assert "  # " in declared[:end] + wrapped, f"{name} has no comment"
