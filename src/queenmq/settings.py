"""Settings: flags over environment over file over default. The only reader of the environment.

Each field of Settings is one setting: `port` is the variable `QUEEN_PORT` and the key `port` of the
TOML file named by `--config` or `QUEEN_CONFIG`; the most common ones are also flags of
`queen serve`. A value that cannot be used stops the start with a sentence that names it.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import re
import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
import msgspec.inspect

from queenmq.errors import SettingsError
from queenmq.original_names import Named, find_original

PREFIX = "QUEEN_"

Count = Annotated[int, msgspec.Meta(ge=1)]
Bound = Annotated[int, msgspec.Meta(ge=1, le=2**31 - 1)]
Milliseconds = Annotated[int, msgspec.Meta(ge=0, le=86_400_000)]
#: Above 1 a threshold is seldom reached.
Pressure = Annotated[float, msgspec.Meta(gt=0, le=100)]


#: Variables without our prefix that work too.
ALIASES = {
    "SMART_POLL_MAX_INTENTIONS": "smart_poll_max_intentions",
    "SMART_POLL_PREFLIGHT_TIMEOUT": "smart_poll_preflight_timeout_ms",
    "SMART_POLL_MIN_INTERVAL": "smart_poll_min_interval_ms",
    "USE_POP_STATE_MACHINE": "enable_pop_batching",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "otlp_endpoint",
    "JWT_ENABLED": "auth_enabled",
    "JWT_ALGORITHM": "jwt_algorithm",
    "JWT_SECRET": "jwt_secret",
    "JWT_PUBLIC_KEY": "jwt_public_key",
    "JWT_JWKS_URL": "jwt_jwks_url",
    "JWT_JWKS_REFRESH_INTERVAL": "jwt_jwks_refresh_s",
    "JWT_JWKS_REQUEST_TIMEOUT": "jwt_jwks_timeout_ms",
    "JWT_ISSUER": "jwt_issuer",
    "JWT_AUDIENCE": "jwt_audience",
    "JWT_CLOCK_SKEW": "jwt_clock_skew_s",
    "JWT_ROLES_CLAIM": "jwt_roles_claim",
    "JWT_ROLES_ARRAY_CLAIM": "jwt_roles_array_claim",
    "JWT_ROLE_ADMIN": "jwt_role_admin",
    "JWT_ROLE_READ_WRITE": "jwt_role_read_write",
    "JWT_ROLE_READ_ONLY": "jwt_role_read_only",
}

#: Variables with our prefix that are no settings of the broker: the command line reads them.
OTHERS = {
    "QUEEN_CA_FILE",
    "QUEEN_CERT_FILE",
    "QUEEN_CONFIG",
    "QUEEN_CONTEXT",
    "QUEEN_KEY_FILE",
    "QUEEN_SPARK_MASTER",
    "QUEEN_TOKEN",
    "QUEEN_TOKEN_FILE",
    "QUEEN_URL",
}
#: Settings whose values no error may quote.
SECRETS = {"database_url", "encryption_key", "jwt_jwks_url", "jwt_public_key", "jwt_secret"}
#: What Kubernetes sets for services whose names begin with "queen".
_OF_SERVICES = re.compile(
    r"QUEEN_(\w+_)?(SERVICE_(HOST|PORT(_\w+)?)|PORT(_\d+_(TCP|UDP|SCTP)\w*)?)"
)
#: How the value of such a variable begins that has the name of a setting: QUEEN_PORT.
_SERVICE_SCHEMES = ("tcp://", "udp://", "sctp://")


Origin = Literal["default", "file", "environment", "flag"]


class _Given(NamedTuple):
    """A value, and where it comes from: the kind of source, and its name for messages."""

    origin: Origin
    source: str
    value: Any


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings. The comment behind each field is its line on the settings page."""

    host: str = "127.0.0.1"  # Address to listen on.
    port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = (
        6632  # Port to listen on; 0 picks a free one.
    )
    workers: Annotated[int, msgspec.Meta(ge=1, le=64)] = 1  # Processes that share the port.
    database_url: str | None = None  # PostgreSQL to use; none starts an embedded one.
    data_dir: str = "queen-data"  # Where the embedded PostgreSQL keeps its data.
    spool_dir: str | None = None  # Where pushes are kept in an outage; by default below data_dir.
    spool_max_bytes: Count = 1024 * 1024 * 1024  # Largest spool; more is refused.
    db_pool_size: Annotated[int, msgspec.Meta(ge=4, le=500)] = 16  # Connections per process.
    db_prepared_statements: bool = True  # Off behind a pooler that does not keep them.
    db_command_timeout_ms: Bound = 30_000  # A statement that takes longer is given up.
    db_connect_timeout_ms: Bound = 5_000  # How long one connection attempt may take.
    db_hang_ms: Bound = 3_000  # Probe the database when a call takes longer than this.
    wake_listen: bool = True  # LISTEN for pushes made elsewhere; off behind a transaction pooler.
    wake_interval_ms: Milliseconds = 20  # At most one notification per interval is sent.
    push_calls_max: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0  # Push calls at once; 0 adapts.
    push_rows_max: Count = 2_000  # Messages merged into one push call.
    push_waiting_max: Count = 20_000  # Push requests that may wait; more are refused.
    push_lock_timeout_ms: Bound = (
        100  # Lock wait of merged calls. Held requests then wait in a lock queue.
    )
    push_wait_ms: Bound = 10_000  # How long a request waits for a held partition in all.
    push_key_keep_s: Annotated[int, msgspec.Meta(ge=60, le=86_400)] = (
        600  # How long the idempotency key of a push is remembered.
    )
    enable_pop_batching: bool = True  # Pops share calls; off, each has a call of its own.
    pop_slots: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0  # Pop calls at once; 0 adapts.
    pop_candidates_max: Count = 256  # Partitions tried in one pop call.
    pop_messages_max: Count = 20_000  # Messages asked for in one pop call; one pop may exceed it.
    pop_apart_count: Count = 1_000  # A leased batch larger than this is read in a call of its own.
    pop_waiting_max: Count = 50_000  # Pop requests that may wait; more are refused.
    enable_pending_check: bool = True  # Ask quiet queues "anything at all?" before a look-up.
    smart_poll_max_intentions: Count = 200  # Places (scope and group) in one look-up.
    smart_poll_preflight_timeout_ms: Bound = 50  # A look-up that takes longer is cancelled.
    smart_poll_min_interval_ms: Bound = 100  # Between look-ups without news; first re-check.
    smart_poll_max_interval_ms: Bound = 1_000  # Re-checks slow down to this.
    smart_poll_listening_interval_ms: Bound = 5_000  # And to this while notifications arrive.
    ack_calls_max: Annotated[int, msgspec.Meta(ge=0, le=64)] = 0  # Ack calls at once; 0 adapts.
    ack_rows_max: Count = 2_000  # Acks merged into one call.
    ack_history_hours: Annotated[int, msgspec.Meta(ge=1, le=87_600)] = (
        168  # How long the history of queues with ackHistory is kept.
    )
    enable_load_management: bool = True  # Queue or refuse operations under load.
    load_push_threshold: Pressure = 0.7  # Pushes are queued from this pressure on.
    load_push_queue_max: Count = 10_000  # Queued operations; under load more are refused.
    load_partition_queue_max: Bound = 1_000  # Operations that may wait in one partition.
    load_ack_threshold: Pressure = 0.8  # Acks count as under load; they are still served.
    load_ack_queue_max: Count = 50_000  # Ack requests that may wait; more are refused.
    load_pop_threshold: Pressure = 0.95  # Pops are refused from this pressure on.
    load_age_limit_ms: Bound = 1_000  # A push or ack that waits this long is a pressure of 1.
    load_lag_limit_ms: Bound = 500  # An event loop that is this late is a pressure of 1.
    load_release_ratio: Annotated[float, msgspec.Meta(gt=0, le=1)] = (
        0.7  # Load is over below this share of the threshold.
    )
    retention_interval_s: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = (
        60  # Pause between two looks for messages that may go.
    )
    partition_removal_interval_s: Annotated[int, msgspec.Meta(ge=1, le=86_400)] = (
        600  # Pause between two searches for empty, idle partitions.
    )
    default_batch_size: Count = 1  # Messages of a pop that names no batch.
    default_timeout_ms: Bound = 30_000  # Wait of a long poll that names no timeout.
    default_subscription_mode: Literal["", "all", "new"] = ""  # Mode of a group that names none.
    max_batch_size: Count = 10_000  # Largest batch of a pop.
    max_timeout_ms: Bound = 600_000  # Longest wait of a pop.
    max_body_bytes: Count = 64 * 1024 * 1024  # Largest request body.
    max_header_bytes: Count = 64 * 1024  # Largest request line and headers together.
    max_url_bytes: Count = 16 * 1024  # Longest URL.
    max_header_value_bytes: Count = 16 * 1024  # Longest single header, its name included.
    max_headers: Count = 100  # Most headers of one request.
    max_bodies_bytes: Count = 512 * 1024 * 1024  # All request bodies in memory together.
    head_timeout_ms: Bound = 10_000  # How long a client may take to send a head.
    body_bytes_per_s_min: Count = 1_024  # A body that arrives slower is given up.
    keep_alive_ms: Bound = 75_000  # How long a connection may be idle between two requests.
    unread_timeout_ms: Bound = 30_000  # A client that does not read its answer is cut off.
    connections_max: Count = 10_000  # Connections per process.
    connections_per_address_max: Annotated[int, msgspec.Meta(ge=0)] = (
        0  # Connections per client address; 0: as many as there may be.
    )
    gzip_bytes_min: Bound = 8_192  # Answers from this size on are compressed for clients that ask.
    cors_origins: str = ""  # Origins of web pages that may use this server, by commas.
    allowed_hosts: str = ""  # Names of this server, by commas, beside localhost and addresses.
    max_items: Count = 50_000  # Most items in one push, ack batch or transaction.
    max_payload_bytes: Count = 32 * 1024 * 1024  # Largest payload of one message.
    max_name_length: Annotated[int, msgspec.Meta(ge=1, le=255)] = (
        255  # Longest name or transaction id.
    )
    stream_value_bytes_max: Bound = 1024 * 1024  # Largest value of one key of a stream's state.
    stream_state_bytes_max: Count = 1024 * 1024 * 1024  # All state of one stream query.
    tls_cert: str | None = None  # Certificate chain in PEM; with it the port speaks https.
    tls_key: str | None = None  # Its key, in PEM, without a passphrase.
    tls_client_ca: str | None = None  # Require client certificates of this authority.
    insecure: bool = False  # Listen beyond this machine without authentication.
    auth_enabled: bool = False  # Require a token for everything but health checks.
    jwt_algorithm: Literal["auto", "HS256", "RS256", "ES256", "EdDSA"] = (
        "auto"  # Algorithm of JWTs; auto takes what each configured key is for.
    )
    jwt_secret: str | None = None  # Shared secret of HS256, 32 bytes or more.
    jwt_secret_file: str | None = None  # File with that secret.
    jwt_public_key: str | None = None  # Public key in PEM, or the file with it.
    jwt_jwks_url: str | None = None  # Key set of an identity provider.
    jwt_jwks_refresh_s: Bound = 3_600  # The key set is fetched again after this time.
    jwt_jwks_timeout_ms: Bound = 5_000  # How long fetching it may take.
    jwt_issuer: str | None = None  # The iss that tokens must have.
    jwt_audience: str | None = None  # The aud that tokens must have.
    jwt_clock_skew_s: Annotated[int, msgspec.Meta(ge=0, le=3_600)] = (
        30  # How far clocks may be apart.
    )
    jwt_require_exp: bool = True  # Refuse tokens that never expire.
    jwt_roles_claim: str = "role"  # Claim with one role.
    jwt_roles_array_claim: str = "roles"  # Claim with several roles.
    jwt_role_admin: str = "admin"  # Name of the role admin in tokens.
    jwt_role_read_write: str = "read-write"  # Name of the role read-write in tokens.
    jwt_role_read_only: str = "read-only"  # Name of the role read-only in tokens.
    jwt_queues_claim: str = "queen_queues"  # Claim with the queue patterns of a token.
    jwt_verbs_claim: str = "queen_verbs"  # Claim with the verbs of a token.
    encryption_key: str | None = None  # Key of encrypted queues, 64 hexadecimal digits.
    encryption_key_file: str | None = None  # File with such keys, the current one first.
    metrics_public: bool = False  # Serve /metrics/prometheus without a token.
    session_hours: Annotated[int, msgspec.Meta(ge=1, le=8_760)] = 12  # Life of a login.
    trusted_proxies: str = ""  # Proxies whose word on users counts, by commas.
    forward_user_header: str = "X-Forwarded-User"  # Header with the user, from such a proxy.
    forward_roles_header: str = "X-Forwarded-Groups"  # Header with their roles, by commas.
    move_targets: str = ""  # Servers that routes may copy the database to, by commas.
    audit_retention_days: Annotated[int, msgspec.Meta(ge=1, le=36_500)] = (
        90  # How long the audit log is kept.
    )
    trace_retention_s: Bound = 604_800  # Traces of messages are removed after this time.
    metrics_queues_max: Annotated[int, msgspec.Meta(ge=0, le=10_000)] = (
        100  # Queues with series of their own; all others are one.
    )
    otlp_endpoint: str = ""  # Collector of spans, such as http://127.0.0.1:4318/v1/traces.
    otlp_sample_ratio: Annotated[float, msgspec.Meta(ge=0, le=1)] = (
        1.0  # Share of traces whose spans are sent.
    )
    history_minutes_hours: Annotated[int, msgspec.Meta(ge=4, le=8_760)] = (
        48  # How long the history has a row per minute.
    )
    history_hours_days: Annotated[int, msgspec.Meta(ge=1, le=3_650)] = (
        90  # How long it has a row per hour.
    )
    shutdown_timeout_ms: Bound = 10_000  # Work in flight at a stop is given this long.
    log_level: Literal["debug", "info", "warning", "error"] = "info"  # Least severe line to log.
    log_format: Literal["text", "json"] = "text"  # How log lines look.


def load(
    flags: Mapping[str, Any] | None = None,
    *,
    config: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> Settings:
    """Read all sources and check every value. Flags that are None count as not given."""
    fields = {field.name: field for field in msgspec.structs.fields(Settings)}
    given = _gather(flags, config=config, environ=environ)
    values = {
        name: _convert(one.source, one.value, fields[name].type, is_secret=name in SECRETS)
        for name, one in given.items()
    }
    settings = Settings(**values)
    least, most = settings.smart_poll_min_interval_ms, settings.smart_poll_max_interval_ms
    if least > most:
        raise SettingsError(
            f"smart_poll_min_interval_ms {least} is above smart_poll_max_interval_ms {most};"
            " lower the first or raise the second"
        )
    return settings


def find_origins(
    flags: Mapping[str, Any] | None = None,
    *,
    config: str | None = None,
    environ: Mapping[str, str] | None = None,
) -> dict[str, Origin]:
    """Return where each setting that is not at its default comes from."""
    given = _gather(flags, config=config, environ=environ)
    return {name: one.origin for name, one in given.items()}


def _gather(
    flags: Mapping[str, Any] | None, *, config: str | None, environ: Mapping[str, str] | None
) -> dict[str, _Given]:
    """Return what the sources say, a later one over an earlier one."""
    environ = os.environ if environ is None else environ
    known = set(Settings.__struct_fields__)
    given = {
        name: _Given("environment", variable, value)
        for variable, name, value in _usable_originals(environ)
    }
    config = config or environ.get(f"{PREFIX}CONFIG")
    if config:
        given.update(_from_file(Path(config), known))
    variables = ALIASES | {f"{PREFIX}{name.upper()}": name for name in known}
    for variable, name in variables.items():
        # An empty variable is what a compose file makes of one that is not set.
        value = environ.get(variable)
        if value and not _is_of_service(variable, value):
            given[name] = _Given("environment", variable, value)
    for name, value in (flags or {}).items():
        if value is not None:
            given[name] = _Given("flag", f"--{name.replace('_', '-')}", value)
    if (
        "data_dir" in given
        and "database_url" in given
        and given["database_url"].source == "PG_HOST"
    ):
        # A data directory asks for the embedded PostgreSQL. PG_HOST may be meant for other
        # software.
        del given["database_url"]
    return given


def _usable_originals(environ: Mapping[str, str]) -> list[Named]:
    """Return the original server's variables that have a value for us.

    PORT and its like belong to other software as well, so a value that does not fit is none.
    """
    types = {field.name: field.type for field in msgspec.structs.fields(Settings)}
    usable = []
    for one in find_original(environ):
        with contextlib.suppress(SettingsError):
            _convert(one.variable, one.value, types[one.setting])
            usable.append(one)
    return usable


def find_original_names(environ: Mapping[str, str] | None = None) -> list[tuple[str, str]]:
    """Return the original server's variables that count, each with our name for it."""
    environ = os.environ if environ is None else environ
    pairs = [(one.variable, f"{PREFIX}{one.setting.upper()}") for one in _usable_originals(environ)]
    return [(variable, name) for variable, name in pairs if not environ.get(name)]


def find_unknown(environ: Mapping[str, str] | None = None) -> dict[str, str | None]:
    """Return the variables with our prefix that nothing reads, each with the nearest name."""
    environ = os.environ if environ is None else environ
    known = OTHERS | {f"{PREFIX}{field.upper()}" for field in Settings.__struct_fields__}
    ours = {name for name, value in environ.items() if name.startswith(PREFIX) and value}
    unknown = sorted(name for name in ours - known if not _OF_SERVICES.fullmatch(name))
    return {name: _nearest(name, known) for name in unknown}


def _is_of_service(variable: str, value: str) -> bool:
    """Return whether Kubernetes has set this variable, for a service named "queen"."""
    return bool(_OF_SERVICES.fullmatch(variable)) and value.startswith(_SERVICE_SCHEMES)


def _nearest(name: str, known: Collection[str]) -> str | None:
    found = difflib.get_close_matches(name, sorted(known), n=1)
    return found[0] if found else None


def terminal_columns() -> int | None:
    """Return the width that the user wants output to have, by COLUMNS, or None if that says
    nothing.
    """
    given = os.environ.get("COLUMNS", "")
    return int(given) if given.isdecimal() and int(given) > 0 else None


def _from_file(path: Path, known: set[str]) -> dict[str, _Given]:
    try:
        table = tomllib.loads(path.read_text())
    except OSError as error:
        raise SettingsError(f"config file {path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"config file {path} is not valid TOML: {error}") from error
    for name in table:
        if name not in known:
            nearest = _nearest(name, known)
            hint = f"did you mean {nearest!r}?" if nearest else "remove it"
            raise SettingsError(f"config file {path} has the unknown key {name!r}; {hint}")
    return {name: _Given("file", f"{name} in {path}", value) for name, value in table.items()}


def _convert(source: str, value: Any, wanted: Any, *, is_secret: bool = False) -> Any:
    try:
        return msgspec.convert(value, wanted, strict=False)
    except msgspec.ValidationError as error:
        shown = "what it is" if is_secret else repr(value)
        raise SettingsError(f"{source} cannot be {shown}; use {describe(wanted)}") from error


def describe(wanted: Any) -> str:
    """Return the values that a type takes, for people: `a whole number from 1 to 64`, `text or
    json`.
    """
    kind = msgspec.inspect.type_info(wanted)
    if isinstance(kind, msgspec.inspect.UnionType):
        kind = next(one for one in kind.types if not isinstance(one, msgspec.inspect.NoneType))
    if isinstance(kind, msgspec.inspect.LiteralType):
        *others, last = (str(value) for value in kind.values)
        return f"{', '.join(others)} or {last}" if others else last
    if isinstance(kind, msgspec.inspect.BoolType):
        return "true or false"
    if isinstance(kind, msgspec.inspect.IntType | msgspec.inspect.FloatType):
        noun = "a whole number" if isinstance(kind, msgspec.inspect.IntType) else "a number"
        return noun + _range(kind)
    return "text"


def _range(kind: msgspec.inspect.IntType | msgspec.inspect.FloatType) -> str:
    low = f" from {kind.ge}" if kind.ge is not None else ""
    low = f" above {kind.gt}" if kind.gt is not None else low
    high = f" to {kind.le}" if kind.le is not None else ""
    if not low:
        return high and f" up to {kind.le}"
    return low + (high or (" on" if kind.ge is not None else ""))
