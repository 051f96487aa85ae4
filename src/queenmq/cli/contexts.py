"""Owns contexts, names for servers and their tokens, and which server a command talks to.

They are kept in `queen/config.toml` below XDG_CONFIG_HOME, readable by their owner alone.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import tomllib
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import tomli_w
import typer

from queenmq.cli import keyrings
from queenmq.cli.exits import NothingThere, UsageProblem

#: Options about TLS.
TLS = ("ca_file", "cert_file", "key_file")
DEFAULT_URL = "http://127.0.0.1:6632"


class Server(msgspec.Struct, frozen=True, omit_defaults=True):
    """The server to send requests to, and the credentials for it."""

    url: str
    token: str | None = None
    #: Read when it is needed, and again when the server refuses what was read.
    token_file: str | None = None
    #: Whether the system's keyring has the token.
    keyring: bool = False
    #: The authorities of an https server, instead of the system's.
    ca_file: str | None = None
    #: The certificate to show to it, and its key.
    cert_file: str | None = None
    key_file: str | None = None


class Contexts(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """All contexts, and the name of the one in use."""

    current: str | None = None
    contexts: dict[str, Server] = {}

    def find_server(self, name: str) -> Server:
        """Return the server of a context."""
        if name not in self.contexts:
            known = ", ".join(sorted(self.contexts)) or "none yet"
            raise NothingThere(
                f"context {name!r} does not exist (known: {known}); add it with"
                f" queen context set {name} --url URL"
            )
        return self.contexts[name]


def config_path() -> Path:
    """Return the file with the contexts."""
    return Path(typer.get_app_dir("queen")) / "config.toml"


def load(path: Path) -> Contexts:
    """Read the file; without one there are no contexts."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        return msgspec.convert(table, Contexts)
    except FileNotFoundError:
        return Contexts()
    except OSError as error:
        raise UsageProblem(f"{path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise UsageProblem(f"{path} cannot be used: {error}; correct or remove it") from None


def save(path: Path, contexts: Contexts) -> None:
    """Replace the file as a whole. Only its owner may read it."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A new file of mkstemp has mode 0600.
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".config-")
        try:
            with open(handle, "w", encoding="utf-8") as file:
                file.write(tomli_w.dumps(msgspec.to_builtins(contexts, order="sorted")))
            os.replace(name, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(name)
            raise
    except OSError as error:
        raise UsageProblem(f"{path} cannot be written: {error.strerror}") from None


def is_readable_by_others(path: Path) -> bool:
    """Return whether the tokens in the file are not private."""
    try:
        return bool(path.stat().st_mode & 0o077)
    except OSError:
        return False


def check_server(name: str, server: Server) -> Server:
    """Check the server and return it. Raises for a name or server that cannot be kept."""
    for what, text in (
        ("name", name),
        ("url", server.url),
        ("token", server.token or "-"),
        ("token file", server.token_file or "-"),
        ("ca file", server.ca_file or "-"),
        ("cert file", server.cert_file or "-"),
        ("key file", server.key_file or "-"),
    ):
        if not text or not text.isprintable():
            raise UsageProblem(f"the {what} {text!r} of a context is empty or not printable")
    return msgspec.structs.replace(server, url=check_url(server.url))


def check_url(url: str) -> str:
    """Check and return a URL to which requests can be sent."""
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_good = False
    if not is_good:
        raise UsageProblem(f"{url!r} is not the URL of a server; use one such as {DEFAULT_URL}")
    return url.rstrip("/")


def choose_server(given: dict[str, tuple[str | None, bool]], path: Path) -> Server:
    """Return the server to talk to.

    `given` has url, token, token_file, context and the options of TLS, each with whether it comes
    from the environment. Flags go before the environment, a URL before a context, and the current
    context is last. The token of a context goes to the context's own server only.
    """
    (url, url_is_env), (context, context_is_env) = (given[name] for name in ("url", "context"))
    token, file = _given_token(given)
    tls: dict[str, Any] = {
        name: given[name][0] for name in TLS if given.get(name, (None,))[0] is not None
    }
    if url is not None and not (url_is_env and context is not None and not context_is_env):
        return Server(check_url(url), token, file, **tls)
    contexts = load(path)
    name = context if context is not None else contexts.current
    if name is None:
        return Server(DEFAULT_URL, token, file, **tls)
    server = contexts.find_server(name)
    server = msgspec.structs.replace(server, url=check_url(server.url), **tls)
    if token is not None or file is not None:
        return msgspec.structs.replace(server, token=token, token_file=file, keyring=False)
    if server.keyring:
        return msgspec.structs.replace(server, token=keyrings.read(name), keyring=False)
    return server


def _given_token(given: dict[str, tuple[str | None, bool]]) -> tuple[str | None, str | None]:
    """Return the token or the file with it; a flag goes before the environment."""
    (token, token_is_env), (file, file_is_env) = (
        given.get(name, (None, False)) for name in ("token", "token_file")
    )
    if token is None or file is None:
        return token, file
    if token_is_env == file_is_env:
        raise UsageProblem("a token and a token file exclude each other; pass one of them")
    return (None, file) if token_is_env else (token, None)


def given_by(ctx: Any, **values: str | None) -> dict[str, tuple[str | None, bool]]:
    """Return the values of options, each with whether it comes from the environment."""
    return {
        name: (
            value or None,
            getattr(ctx.get_parameter_source(name), "name", "") == "ENVIRONMENT",
        )
        for name, value in values.items()
    }
