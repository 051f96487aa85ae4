"""The certificate of the server: read from files, and read again when they change."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from typing import NamedTuple

from queenmq.errors import SettingsError
from queenmq.settings import Settings

#: Between two looks at the files.
_LOOK_S = 5.0
logger = logging.getLogger(__name__)


class TlsFiles(NamedTuple):
    """Paths of PEM files. With `client_ca` every client has to show a certificate of it."""

    cert: str
    key: str
    client_ca: str | None = None


def find_files(settings: Settings) -> TlsFiles | None:
    """Return the files that the settings name; None without TLS."""
    cert, key, client_ca = settings.tls_cert, settings.tls_key, settings.tls_client_ca
    if cert is not None and key is not None:
        return TlsFiles(cert, key, client_ca)
    if cert is not None:
        raise SettingsError(f"tls_cert {cert} needs its key; set tls_key as well")
    if key is not None:
        raise SettingsError(f"tls_key {key} needs its certificate; set tls_cert as well")
    if client_ca is not None:
        raise SettingsError(
            f"tls_client_ca {client_ca} needs a certificate of the server; set tls_cert and tls_key"
        )
    return None


def make_context(files: TlsFiles) -> ssl.SSLContext:
    """Return a context with TLS 1.2 or later. Errors name files but never their content."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    # Each costs the server more than the client. OpenSSL before 3.0 allows it unless told.
    context.options |= ssl.OP_NO_RENEGOTIATION
    context.set_alpn_protocols(["http/1.1"])
    for what, path in zip(TlsFiles._fields, files, strict=True):
        if path is not None and not os.access(path, os.R_OK):
            raise SettingsError(f"tls_{what} {path} cannot be read; check its path and mode")
    try:
        # A key with a passphrase fails here instead of asking for it on the terminal.
        context.load_cert_chain(files.cert, files.key, password=lambda: b"")
    except (OSError, ValueError) as error:
        raise SettingsError(
            f"tls_cert {files.cert} and tls_key {files.key} cannot be used"
            f" ({_reason(error)}); give a certificate chain and its key as PEM, without a"
            " passphrase"
        ) from None
    if files.client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(files.client_ca)
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"tls_client_ca {files.client_ca} cannot be used ({_reason(error)}); give"
                " certificates as PEM"
            ) from None
    return context


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None)
    return str(reason or type(error).__name__).replace("_", " ").lower()


class Certificates:
    """The context of new connections. Those that are there keep theirs."""

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        self._seen = self._look()
        self.context = make_context(files)
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Check the files periodically."""
        self._task = asyncio.create_task(self._watch(), name="watch-certificates")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def reload(self) -> None:
        """Read the files. If they cannot be used, log it and keep the old certificate."""
        self._seen = self._look()
        try:
            self.context = make_context(self._files)
        except SettingsError as error:
            logger.error(
                "the certificate was not replaced: %s", error, extra={"event": "tls_not_reloaded"}
            )
        else:
            logger.info("the certificate was read again", extra={"event": "tls_reloaded"})

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._look() != self._seen:
                self.reload()

    def _look(self) -> list[tuple[int, int, int]]:
        """Return what changes when a file does."""
        found = []
        for path in self._files:
            try:
                stat = os.stat(path or "")
            except OSError:
                found.append((0, 0, 0))
            else:
                found.append((stat.st_mtime_ns, stat.st_size, stat.st_ino))
        return found
