"""Owns the options of a client: their names, defaults and checks."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypedDict, get_args

from queenmq.client.errors import BufferFailed
from queenmq.client.http.codec import Codec, Json
from queenmq.client.http.retry import RetryPolicy
from queenmq.client.http.servers import Servers, Strategy
from queenmq.client.http.tokens import Token, TokenFile
from queenmq.client.http.transport import Transport
from queenmq.ids import random_uuid

QueuedBehavior = Literal["return", "poll"]


class Options(TypedDict, total=False):
    """Keyword arguments of Queen and SyncQueen.

    Names with `millis` count milliseconds, the others seconds.
    """

    url: str
    urls: Sequence[str]
    timeout_millis: float
    retry_attempts: int
    retry_delay_millis: float
    retry_on_429: bool
    honor_retry_after: bool
    max_retry_delay: float
    queued_operation_behavior: QueuedBehavior
    operation_timeout: float
    load_balancing_strategy: Strategy
    enable_failover: bool
    health_retry_after_millis: float
    bearer_token: Token | None
    token_file: str | None
    headers: Mapping[str, str]
    ssl: ssl.SSLContext | None
    ca_file: str | None
    cert_file: str | None
    key_file: str | None
    connections: int
    json: Json | None
    close_timeout: float
    buffered_max: int
    on_buffer_error: Callable[[BufferFailed], None] | None
    #: Accepted for compatibility with the official client, and ignored.
    affinity_hash_ring: int


DEFAULTS: Options = {
    "timeout_millis": 30_000,
    "retry_attempts": 3,
    "retry_delay_millis": 200,
    "retry_on_429": True,
    "honor_retry_after": True,
    "max_retry_delay": 30.0,
    "queued_operation_behavior": "return",
    "operation_timeout": 30.0,
    "load_balancing_strategy": "affinity",
    "enable_failover": True,
    "health_retry_after_millis": 1_000,
    "bearer_token": None,
    "token_file": None,
    "headers": {},
    "ssl": None,
    "ca_file": None,
    "cert_file": None,
    "key_file": None,
    "connections": 100,
    "json": None,
    "close_timeout": 30.0,
    "buffered_max": 100_000,
    "on_buffer_error": None,
}

Config = str | Sequence[str] | Mapping[str, Any] | None


def resolve_options(config: Config, given: Mapping[str, Any]) -> Options:
    """Return all options: defaults, then a config as in the official client, then keywords.

    None means the default, as there.
    """
    merged: dict[str, Any] = dict(DEFAULTS)
    if isinstance(config, str):
        merged["urls"] = [config]
    elif isinstance(config, Mapping):
        given = {**config, **given}
    elif config is not None:
        merged["urls"] = list(config)
    merged.update((name, value) for name, value in given.items() if value is not None)
    unknown = {*merged, *given} - Options.__annotations__.keys()
    if unknown:
        raise TypeError(f"unknown option {', '.join(sorted(unknown))}; see docs/client.md")
    if "urls" not in merged:
        if "url" not in merged:
            raise ValueError("there is no URL; pass one, such as Queen('http://localhost:6632')")
        merged["urls"] = [merged["url"]]
    if merged["queued_operation_behavior"] not in get_args(QueuedBehavior):
        raise ValueError("queued_operation_behavior must be 'return' or 'poll'")
    for name in ("connections", "buffered_max"):
        if merged[name] < 1:
            raise ValueError(f"{name} is {merged[name]}; it must be 1 or more")
    options: Options = merged  # type: ignore[assignment]
    return options


def transport_of(options: Options) -> Transport:
    """Return the transport for these options. It opens no connection yet."""
    servers = Servers(
        options["urls"],
        strategy=options["load_balancing_strategy"],
        session=str(random_uuid()),
        out_s=options["health_retry_after_millis"] / 1000,
    )
    policy = RetryPolicy(
        attempts=options["retry_attempts"],
        base_delay=options["retry_delay_millis"] / 1000,
        max_retry_delay=options["max_retry_delay"],
        retry_on_429=options["retry_on_429"],
        honor_retry_after=options["honor_retry_after"],
    )
    return Transport(
        servers,
        codec=Codec(options["json"]),
        policy=policy,
        timeout=options["timeout_millis"] / 1000,
        token=_token(options),
        headers=options["headers"],
        ssl_context=_ssl_context(options),
        connections=options["connections"],
        can_fail_over=options["enable_failover"],
    )


def _token(options: Options) -> Token | None:
    token, file = options["bearer_token"], options["token_file"]
    if token is not None and file is not None:
        raise ValueError("bearer_token and token_file exclude each other; pass one of them")
    return token if file is None else TokenFile(file)


def _ssl_context(options: Options) -> ssl.SSLContext | None:
    """Return the TLS settings for https servers, or None if there are none."""
    context, ca_file = options["ssl"], options["ca_file"]
    cert_file, key_file = options["cert_file"], options["key_file"]
    for name, file in (("ca_file", ca_file), ("cert_file", cert_file), ("key_file", key_file)):
        if context is not None and file is not None:
            raise ValueError(f"both ssl and {name} are given; load the file into the context")
    if key_file is not None and cert_file is None:
        raise ValueError(f"key_file {key_file!r} needs its certificate; give cert_file as well")
    if context is not None or not any(url.startswith("https:") for url in options["urls"]):
        return context
    try:
        # Reads the certificates of the system, which is slow.
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ValueError(f"ca_file {ca_file!r} cannot be read ({error}); name a PEM file") from None
    if cert_file is not None:
        try:
            # A key with a passphrase fails instead of asking for it on the terminal.
            context.load_cert_chain(cert_file, key_file, password=lambda: b"")
        except (OSError, ValueError) as error:
            raise ValueError(
                f"cert_file {cert_file!r} cannot be used ({error}); give a certificate and its key"
                " as PEM"
            ) from None
    return context
