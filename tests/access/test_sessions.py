"""The session cookie by the name of its connection: one over https, another over plain HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from queenmq.server.auth.credentials import HOST_COOKIE, PLAIN_COOKIE
from tests.support.broker import SOON_S, BrokerProcess, running_broker, unique
from tests.support.pki import Pki
from tests.support.tokens import JWT_SETTINGS, signed

Side = Callable[[], httpx.Client]


class Sides(NamedTuple):
    """Browsers by plain HTTP, by TLS, and by a trusted proxy that speaks https."""

    plain: Side
    tls: Side
    proxy: Side


@pytest.fixture(scope="module")
def encrypted(
    guarded_database_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[BrokerProcess, Pki]]:
    """A second broker on the database of `guarded`, with TLS."""
    pki = Pki(Path(tmp_path_factory.mktemp("pki")))
    environ = JWT_SETTINGS | pki.environ
    with running_broker(database_url=guarded_database_url, **environ) as broker:
        yield broker, pki


@pytest.fixture
def sides(guarded: BrokerProcess, encrypted: tuple[BrokerProcess, Pki]) -> Iterator[Sides]:
    """Browsers without cookies. Tests send those by hand, as no client sends a Secure one to the
    plain side of a proxy.
    """
    clients: list[httpx.Client] = []
    broker, pki = encrypted

    def opened(url: str, **options: object) -> Side:
        def make() -> httpx.Client:
            clients.append(httpx.Client(base_url=url, timeout=SOON_S, **options))  # type: ignore[arg-type]
            return clients[-1]

        return make

    yield Sides(
        opened(guarded.url),
        opened(broker.url, verify=pki.context()),
        opened(
            guarded.url,
            headers={"X-Forwarded-Proto": "https"},
            transport=httpx.HTTPTransport(local_address="127.0.0.2"),
        ),
    )
    for client in clients:
        client.close()


def _log_in(client: httpx.Client, subject: str) -> tuple[str, str, dict[str, str]]:
    """Log in. Return the name and value of the cookie, and the header that changes need."""
    answer = client.post("/api/login", json={"token": signed(role="admin", sub=subject)})
    assert answer.status_code == 200, answer.text
    name, _, rest = answer.headers["set-cookie"].partition("=")
    client.cookies.clear()
    return name, rest.partition(";")[0], {"X-Queen-CSRF": answer.json()["csrfToken"]}


@pytest.mark.parametrize("side", Sides._fields)
def test_the_cookie_is_bound_to_the_host_over_https(sides: Sides, side: str) -> None:
    client: httpx.Client = getattr(sides, side)()
    answer = client.post("/api/login", json={"token": signed(role="read-only")})
    pair, *attributes = answer.headers["set-cookie"].split("; ")
    kept = {"Path=/", "HttpOnly", "SameSite=Strict"}
    seconds = {one for one in attributes if one.startswith("Max-Age=")}
    assert len(seconds) == 1
    if side == "plain":
        assert pair.startswith(f"{PLAIN_COOKIE}=") and set(attributes) == kept | seconds
    else:
        # A browser refuses the prefix with a Domain, or without Secure and Path=/.
        assert pair.startswith("__Host-queen_session=")
        assert set(attributes) == kept | seconds | {"Secure"}


@pytest.mark.parametrize("side", Sides._fields)
def test_changes_and_logout_work_with_the_cookie_of_the_connection(sides: Sides, side: str) -> None:
    client: httpx.Client = getattr(sides, side)()
    name, value, csrf = _log_in(client, side)
    cookie = {"Cookie": f"other=1; {name}={value}"}
    body = {"queue": unique(side)}
    assert client.get("/api/me", headers=cookie).json()["subject"] == side
    assert client.post("/api/v1/configure", json=body, headers=cookie).status_code == 403
    done = client.post("/api/v1/configure", json=body, headers={**cookie, **csrf})
    assert done.status_code == 200
    assert client.post("/api/logout", headers=cookie).status_code == 403
    out = client.post("/api/logout", headers={**cookie, **csrf})
    assert out.status_code == 200
    assert out.headers["set-cookie"].startswith(f"{name}=; Path=/; Max-Age=0;")
    assert client.get("/api/me", headers=cookie).status_code == 401


@pytest.mark.parametrize("side", Sides._fields)
def test_the_other_name_counts_for_nothing(sides: Sides, side: str) -> None:
    client: httpx.Client = getattr(sides, side)()
    name, value, _ = _log_in(client, "ada")
    other = {PLAIN_COOKIE: HOST_COOKIE, HOST_COOKIE: PLAIN_COOKIE}[name]
    for planted in (other, name.lower(), name.upper(), f"x{name}"):
        if planted != name:
            answer = client.get("/api/me", headers={"Cookie": f"{planted}={value}"})
            assert answer.status_code == 401, planted
    # Who may plant the other name cannot have a browser act in another session.
    both = {"Cookie": f"{other}=qms_{'a' * 43}; {name}={value}"}
    assert client.get("/api/me", headers=both).json()["subject"] == "ada"


def test_two_sessions_of_one_browser_live_side_by_side(sides: Sides) -> None:
    plain, tls = sides.plain(), sides.tls()
    plain_name, plain_value, plain_csrf = _log_in(plain, "by-http")
    tls_name, tls_value, tls_csrf = _log_in(tls, "by-https")
    # Cookies do not know ports: a browser sends both to both brokers of a host.
    both = {"Cookie": f"{plain_name}={plain_value}; {tls_name}={tls_value}"}
    assert plain.get("/api/me", headers=both).json()["subject"] == "by-http"
    assert tls.get("/api/me", headers=both).json()["subject"] == "by-https"
    assert tls.post("/api/logout", headers={**both, **plain_csrf}).status_code == 403
    assert tls.post("/api/logout", headers={**both, **tls_csrf}).status_code == 200
    assert tls.get("/api/me", headers=both).status_code == 401
    assert plain.get("/api/me", headers=both).json()["subject"] == "by-http"
    # A session is no session of the other connection, whatever name it is sent under.
    swapped = {"Cookie": f"{tls_name}={plain_value}"}
    assert plain.get("/api/me", headers=swapped).status_code == 401
