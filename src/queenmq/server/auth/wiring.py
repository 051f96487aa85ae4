"""Builds access control from the settings."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from queenmq.auth.claims import ClaimNames
from queenmq.auth.forwarding import ForwardRules, parse_networks
from queenmq.auth.identity import Role
from queenmq.auth.jwt_rules import ALGORITHMS, JwtRules, Key, secret_key
from queenmq.auth.targets import parse_targets
from queenmq.errors import SettingsError
from queenmq.server.auth.auditor import Auditor
from queenmq.server.auth.gate import Gate
from queenmq.server.auth.keys import KeySource
from queenmq.server.auth.reach import Reachable
from queenmq.server.edge.origins import is_loopback
from queenmq.server.routes.access.audit import AuditRoutes
from queenmq.server.routes.access.sessions import SessionRoutes
from queenmq.server.routes.access.tokens import TokenRoutes
from queenmq.settings import Settings
from queenmq.storage.connection.database import Database
from queenmq.storage.stores.access.audit import AuditStore
from queenmq.storage.stores.access.owners import OwnerStore
from queenmq.storage.stores.access.tokens import TokenStore

logger = logging.getLogger(__name__)


class Access(NamedTuple):
    """The parts of access control that the application needs."""

    gate: Gate
    auditor: Auditor
    reachable: Reachable
    tokens: TokenRoutes
    sessions: SessionRoutes
    audit: AuditRoutes
    token_store: TokenStore
    audit_store: AuditStore


def make_access(settings: Settings, database: Database) -> Access:
    """Build access control. Raises SettingsError if a key or network cannot be used."""
    tokens, audit = TokenStore(database), AuditStore(database)
    gate = make_gate(settings, tokens)
    return Access(
        gate,
        Auditor(audit, gate),
        Reachable(OwnerStore(database)),
        TokenRoutes(tokens, gate),
        SessionRoutes(tokens, gate, session_s=settings.session_hours * 3_600),
        AuditRoutes(audit),
        tokens,
        audit,
    )


def check_settings(settings: Settings) -> None:
    """Raise SettingsError before the start if the settings of access cannot work."""
    make_keys(settings)
    parse_networks(settings.trusted_proxies)
    parse_targets(settings.move_targets)
    _role_names(settings)


def make_gate(settings: Settings, tokens: TokenStore) -> Gate:
    """Return the gate that the settings describe."""
    names = _role_names(settings)
    return Gate(
        tokens,
        is_on=settings.auth_enabled,
        keys=make_keys(settings),
        rules=JwtRules(
            issuer=settings.jwt_issuer,
            audience=settings.jwt_audience,
            skew_s=settings.jwt_clock_skew_s,
            requires_exp=settings.jwt_require_exp,
        ),
        names=ClaimNames(
            role=settings.jwt_roles_claim,
            roles=settings.jwt_roles_array_claim,
            queues=settings.jwt_queues_claim,
            verbs=settings.jwt_verbs_claim,
            role_names=names,
        ),
        forward=ForwardRules(
            proxies=parse_networks(settings.trusted_proxies),
            user_header=settings.forward_user_header.lower().encode("latin-1", "replace"),
            roles_header=settings.forward_roles_header.lower().encode("latin-1", "replace"),
            role_names=names,
        ),
        open_paths=frozenset([b"/metrics/prometheus"] if settings.metrics_public else ()),
        is_tls=settings.tls_cert is not None,
    )


def make_keys(settings: Settings) -> KeySource:
    """Return the keys that are configured, each bound to its one algorithm."""
    wanted = settings.jwt_algorithm
    fixed: list[Key] = []
    secret = _secret(settings)
    if secret is not None:
        fixed.append(secret_key(secret))
    if settings.jwt_public_key is not None:
        from queenmq.auth.jwt_check import public_key

        fixed.append(public_key(_pem(settings.jwt_public_key)))
    if wanted != "auto":
        fixed = [key for key in fixed if key.algorithm == wanted]
        if settings.auth_enabled and not fixed and settings.jwt_jwks_url is None:
            if secret is not None or settings.jwt_public_key is not None:
                raise SettingsError(
                    f"jwt_algorithm is {wanted}, and no configured key is for it;"
                    " use auto, or configure such a key"
                )
    return KeySource(
        fixed,
        url=_key_set_url(settings),
        algorithms=[one for one in ALGORITHMS[1:] if wanted in ("auto", one)],
        timeout_s=settings.jwt_jwks_timeout_ms / 1000,
        refresh_s=settings.jwt_jwks_refresh_s,
    )


def _secret(settings: Settings) -> str | None:
    if settings.jwt_secret is not None and settings.jwt_secret_file is not None:
        raise SettingsError("jwt_secret and jwt_secret_file are both set; leave one of them out")
    if settings.jwt_secret_file is None:
        return settings.jwt_secret
    try:
        return Path(settings.jwt_secret_file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"jwt_secret_file {settings.jwt_secret_file!r} cannot be read: {error}"
        ) from None


def _pem(given: str) -> str:
    """Return the text of a key, from the setting or from a file."""
    if given.lstrip().startswith("-----BEGIN"):
        return given
    try:
        return Path(given).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError, ValueError):
        raise SettingsError(
            "jwt_public_key is neither a key in PEM nor a file that can be read"
        ) from None


def _key_set_url(settings: Settings) -> str | None:
    url = settings.jwt_jwks_url
    if url is None:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        # The value is not shown, because it may contain a password.
        raise SettingsError("jwt_jwks_url is not a URL; use https://host/path")
    if "@" in parts.netloc:
        # It would not be sent, and errors of the HTTP library quote it.
        raise SettingsError("jwt_jwks_url has a user or password, which is never sent; remove it")
    if parts.scheme == "http" and not is_loopback(parts.hostname):
        facts = {"event": "jwks_in_clear"}
        logger.warning("jwt_jwks_url is not https: the network can replace the keys.", extra=facts)
    return url


def _role_names(settings: Settings) -> Mapping[str, Role]:
    names = {
        settings.jwt_role_read_only: Role.READ_ONLY,
        settings.jwt_role_read_write: Role.READ_WRITE,
        settings.jwt_role_admin: Role.ADMIN,
    }
    if len(names) < len(Role):
        raise SettingsError("two of jwt_role_* have the same name; give each role its own")
    return names
