"""Owns the system's keyring, if the package keyring is installed and there is one to use."""

from __future__ import annotations

from typing import Any

from queenmq.cli.exits import UsageProblem

#: Under this name the keyring lists our tokens.
_SERVICE = "queen"


def store(context: str, token: str) -> bool:
    """Keep the token of a context; False when there is no keyring that takes it."""
    keyring = _keyring()
    if keyring is None:
        return False
    try:
        keyring.set_password(_SERVICE, context, token)
    except Exception:
        # A keyring that is locked, or has no desktop to ask: the file is the other place.
        return False
    return True


def read(context: str) -> str:
    """Return the token of a context."""
    keyring = _keyring()
    try:
        token = None if keyring is None else keyring.get_password(_SERVICE, context)
    except Exception as error:
        raise UsageProblem(
            f"the keyring refused the token of context {context!r}"
            f" ({type(error).__name__}); unlock it, or pass --token"
        ) from None
    if token is None:
        raise UsageProblem(
            f"the keyring has no token of context {context!r};"
            f" set it again with queen context set {context} --token -"
        )
    return str(token)


def forget(context: str) -> None:
    """Remove the token of a context. A missing one is fine."""
    keyring = _keyring()
    if keyring is not None:
        try:
            keyring.delete_password(_SERVICE, context)
        except Exception:
            return


def _keyring() -> Any:
    """Return the keyring, or None where none is installed, or only ones that keep nothing."""
    try:
        import keyring
    except ImportError:
        return None
    try:
        return keyring if keyring.get_keyring().priority > 0 else None
    except Exception:
        return None
