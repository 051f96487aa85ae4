"""Settings over the API: all of them, where they come from, and never a secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from queenmq.server.routes.admin.settings import shown
from queenmq.settings import Settings
from tests.support.broker import SOON_S, BrokerProcess
from tests.support.tokens import signed

PLANTED = "planted-secret-that-nobody-may-see"


def test_every_setting_is_told_and_no_secret(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(
        JWT_ENABLED="true",
        JWT_SECRET=f"{PLANTED}-{PLANTED}",
        QUEEN_JWT_JWKS_URL=f"http://127.0.0.1:9/keys?key={PLANTED}",
        QUEEN_PUSH_ROWS_MAX="1999",
    )
    headers = {"authorization": f"Bearer {signed(role='admin', secret=f'{PLANTED}-{PLANTED}')}"}
    answer = httpx.get(f"{broker.url}/api/v1/system/settings", headers=headers, timeout=SOON_S)
    assert answer.status_code == 200, answer.text
    assert PLANTED not in answer.text
    found = {one["name"]: one for one in answer.json()["settings"]}
    assert list(found) == list(Settings.__struct_fields__)
    assert all(one["description"].endswith(".") for one in found.values())
    about = {name: (one["value"], one["isHidden"], one["origin"]) for name, one in found.items()}
    assert about["jwt_secret"] == (None, True, "environment")
    assert about["jwt_jwks_url"] == ("http://127.0.0.1:9/keys", True, "environment")
    assert about["push_rows_max"] == (1999, False, "environment")
    assert about["port"] == (0, False, "flag")
    assert about["max_items"] == (50_000, False, "default")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("database_url", f"postgresql://u:{PLANTED}@a:1,b/db?x=1", "postgresql://u@a:1,b/db"),
        ("database_url", f"postgresql://h/db?password={PLANTED}", "postgresql://h/db"),
        ("database_url", f"host=h password={PLANTED}", None),
        ("database_url", f"postgresql://[{PLANTED}", None),
        ("jwt_public_key", f"-----BEGIN PRIVATE KEY-----{PLANTED}", None),
        ("cors_origins", f"https://u:{PLANTED}@h", "https://u@h"),
        ("jwt_secret", PLANTED, None),
    ],
    ids=["password", "query", "keywords", "broken", "key", "elsewhere", "secret"],
)
def test_what_may_grant_access_is_left_out(name: str, value: str, expected: Any) -> None:
    assert shown(name, value) == (expected, True)
