"""Keys of AES-256: parsed from settings, named by their fingerprint.

A key's id is made from the key, so two brokers can never mean different keys by one id.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from queenmq.errors import SettingsError

_DIGITS = 64
_HEX = re.compile(rf"[0-9a-fA-F]{{{_DIGITS}}}")
#: Set apart from every other use of SHA-256, so that an id tells nothing about the key.
_ID_PREFIX = b"queen encryption key id\0"
_ID_DIGITS = 16


class Key(NamedTuple):
    """A key and its id. Only the id may be shown."""

    id: str
    secret: bytes

    def __repr__(self) -> str:
        return f"Key(id={self.id!r})"


def parse_key(text: str, source: str) -> Key:
    """Return the key that is written as 64 hexadecimal digits. Errors never quote it."""
    digits = text.strip()
    if not _HEX.fullmatch(digits):
        raise SettingsError(
            f"{source} is not a key: it has {len(digits)} characters and must be {_DIGITS}"
            " hexadecimal digits; make one with: openssl rand -hex 32"
        )
    secret = bytes.fromhex(digits)
    return Key(hashlib.sha256(_ID_PREFIX + secret).hexdigest()[:_ID_DIGITS], secret)


def parse_key_file(text: str, source: str) -> list[Key]:
    """Return the keys of a file, one a line; empty lines and those with # in front are left out."""
    lines = [(number, line.strip()) for number, line in enumerate(text.splitlines(), 1)]
    keys = [
        parse_key(line, f"line {number} of {source}")
        for number, line in lines
        if line and not line.startswith("#")
    ]
    if not keys:
        raise SettingsError(f"{source} has no key; add a line with 64 hexadecimal digits")
    return keys


def read_keys(key: str | None, key_file: str | None) -> Sequence[Key]:
    """Return the keys of both settings, the current one first.

    The first line of the file is current. A key of its own beside a file only decrypts: that is how
    one moves from the setting to a file.
    """
    keys: list[Key] = []
    if key_file is not None:
        source = f"encryption_key_file {key_file}"
        try:
            text = Path(key_file).read_text(encoding="ascii")
        except OSError as error:
            raise SettingsError(
                f"{source} cannot be read: {error.strerror}; check its path and mode"
            ) from error
        except UnicodeDecodeError:
            # Not chained: the error quotes the bytes.
            raise SettingsError(
                f"{source} is not plain text; write one key of 64 hexadecimal digits a line"
            ) from None
        keys += parse_key_file(text, source)
    if key is not None:
        keys.append(parse_key(key, "QUEEN_ENCRYPTION_KEY"))
    return list({one.id: one for one in keys}.values())


def make_salt(keys: Sequence[Key], purpose: str) -> str:
    """Return a text that only holders of the keys can make; empty without keys.

    It is made of the last key, which stays when a new one is put in front of it. Add it to what is
    hashed and stored in clear: without it, guesses at a short payload could be tried.
    """
    if not keys:
        return ""
    return hmac.new(keys[-1].secret, f"queen salt {purpose}".encode(), hashlib.sha256).hexdigest()
