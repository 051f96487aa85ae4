"""Owns HTTP: one pool of connections, tokens, timeouts, retries on several servers.

It knows nothing about queues. `retry` decides what to retry, `servers` where to send it,
`long_calls` what may take long.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import ssl
from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

from queenmq import clock
from queenmq.client.errors import ClientClosed, ClientError, RequestFailed, Unreachable, refusal
from queenmq.client.http.codec import Codec
from queenmq.client.http.connections import Address, Broken, NotConnected, Pool
from queenmq.client.http.headers import header_text
from queenmq.client.http.retry import RetryPolicy, parse_retry_after
from queenmq.client.http.servers import Servers
from queenmq.client.http.tokens import Token, TokenFile
from queenmq.client.long_calls import LONG_S, is_long

T = TypeVar("T")


class Answer(NamedTuple):
    """A success."""

    status: int
    body: bytes
    #: Whether an earlier try may have been carried out: it got no answer, or one of a server or
    #: proxy that could not say (5xx).
    is_repeated: bool = False


#: OpenSSL's words for a peer that does not speak TLS.
_PLAIN = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
#: OpenSSL's numbers for a certificate whose authority is not known.
_UNTRUSTED = (18, 19, 20, 21)


def _advise(error: BaseException) -> str:
    """Say what to do about a request without an answer."""
    cause = error.__cause__ or error
    if isinstance(cause, ssl.SSLCertVerificationError):
        if cause.verify_code in _UNTRUSTED:
            return (
                "its certificate is not trusted; name the file of its authority with ca_file, or"
                " --ca-file on a command line"
            )
        return "its certificate cannot be used for this address; correct the certificate or the URL"
    if isinstance(cause, ssl.SSLError) and cause.reason in _PLAIN:
        return "it does not speak TLS; use http://"
    return "is the server running there?"


class _Failed(Exception):
    """A failed try that may be retried. No status means that there was no answer."""

    def __init__(
        self,
        error: ClientError,
        status: int | None,
        *,
        retry_after: float | None = None,
        was_sent: bool = True,
    ) -> None:
        self.error = error
        self.status = status
        self.retry_after = retry_after
        #: Whether the request may have been carried out. A 503 or 504 also says: perhaps.
        self.may_be_done = was_sent and (status is None or status >= 500)


class Transport:
    """Sends requests and returns answers, or raises a ClientError."""

    def __init__(
        self,
        servers: Servers,
        *,
        codec: Codec,
        policy: RetryPolicy,
        timeout: float,
        token: Token | None = None,
        headers: Mapping[str, str] | None = None,
        ssl_context: ssl.SSLContext | None = None,
        connections: int = 100,
        can_fail_over: bool = True,
    ) -> None:
        self.servers = servers
        self.codec = codec
        self.policy = policy
        self._timeout = timeout
        self._token = token
        self._headers = header_text({"Accept": "application/json", **(headers or {})})
        if isinstance(token, str):
            self._headers += _authorization(token)
        self._addresses = {url: Address(url, ssl_context) for url in servers.urls}
        self._only = servers.urls[0] if len(servers.urls) == 1 else None
        self._connections = connections
        self._can_fail_over = can_fail_over and len(servers.urls) > 1
        self._pool: Pool | None = None
        self._closing: asyncio.Event | None = None
        self._is_closed = False

    async def call(self, method: str, path: str, body: Any = None, wanted: Any = Any) -> Any:
        """Send a value and return the value of the answer, or None for an empty body."""
        data = None if body is None else self.codec.encode(body)
        answer = await self.request(method, path, data)
        return self.read(answer, wanted, f"{method} {path}") if answer.body else None

    async def fetch(self, method: str, path: str, wanted: type[T], body: Any = None) -> T:
        """Send a value and return the answer, decoded as this type. The call may be a long one."""
        data = None if body is None else self.codec.encode(body)
        answer = await self.request(method, path, data, is_long=is_long(method, path))
        found: T = self.read(answer, wanted, f"{method} {path}")
        return found

    def read(self, answer: Answer, wanted: Any, where: str) -> Any:
        """Decode an answer, which may come from a server other than Queen."""
        try:
            return self.codec.decode(answer.body, wanted)
        except ValueError as error:
            raise RequestFailed(
                answer.status,
                f"the answer cannot be read ({error}); is there a Queen server at this address?",
                where,
            ) from None

    async def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        *,
        timeout: float | None = None,
        key: str | None = None,
        policy: RetryPolicy | None = None,
        is_long: bool = False,
    ) -> Answer:
        """Send one request, with retries and on other servers where that can help.

        A long call has ten minutes more. It is not repeated if it failed after the ordinary time
        limit: the client, a proxy or the server gave up waiting, and it may still be under way.
        """
        if is_long:
            timeout = self._timeout + LONG_S
        policy = policy or self.policy
        tried: set[str] = set()
        attempt, is_repeated = 1, False
        while True:
            began = self._now()
            base = self._only or self.servers.choose(key, now=began, tried=tried)
            try:
                answer = await self._try(method, base, path, body, timeout, policy)
                return answer._replace(is_repeated=True) if is_repeated else answer
            except RequestFailed as refused:
                refused.is_repeated = is_repeated
                raise
            except _Failed as failed:
                if is_long and self._now() - began >= self._timeout:
                    raise failed.error from failed.error.__cause__
                is_repeated = is_repeated or failed.may_be_done
                if failed.status != 429:
                    self.servers.note_failure(base, now=self._now())
                    tried.add(base)
                    if self._can_fail_over and len(tried) < len(self.servers.urls):
                        continue
                delay = policy.next_delay(
                    attempt,
                    status=failed.status,
                    retry_after=failed.retry_after,
                    random=random.random,
                )
                if delay is None:
                    raise failed.error from failed.error.__cause__
            tried.clear()
            attempt += 1
            await self.pause(delay)

    async def pause(self, seconds: float) -> None:
        """Sleep, but not beyond the close of the client."""
        closing = self._open_closing()
        try:
            async with asyncio.timeout(seconds):
                await closing.wait()
        except TimeoutError:
            return
        raise ClientClosed("the client was closed while a request waited to be retried")

    async def close(self) -> None:
        """Close all connections. Later requests are refused."""
        self._is_closed = True
        if self._closing is not None:
            self._closing.set()
        if self._pool is not None:
            await self._pool.close()
            self._pool = None

    async def _try(
        self,
        method: str,
        base: str,
        path: str,
        body: bytes | None,
        timeout: float | None,
        policy: RetryPolicy,
    ) -> Answer:
        pool = self._open_pool()
        headers = await self._with_token() if callable(self._token) else self._headers
        seconds = timeout or self._timeout
        try:
            reply = await pool.request(self._addresses[base], method, path, headers, body, seconds)
            if reply[0] == 401 and (fresh := await self._fresh_headers(headers)) is not None:
                # The token has expired, so the request was not carried out.
                reply = await pool.request(
                    self._addresses[base], method, path, fresh, body, seconds
                )
        except (NotConnected, Broken, TimeoutError, OSError) as error:
            if self._is_closed:
                raise ClientClosed("the client was closed during a request") from None
            problem = Unreachable(
                f"{method} {base}{path} got no answer ({error}); {_advise(error)}"
            )
            problem.__cause__ = error
            raise _Failed(problem, None, was_sent=not isinstance(error, NotConnected)) from None
        status, content, wait = reply
        if 200 <= status < 300:
            self.servers.note_success(base)
            return Answer(status, content)
        refused = refusal(status, *self._reason(content, status, f"{method} {base}{path}"))
        if not policy.can_retry(status):
            self.servers.note_success(base)
            raise refused
        retry_after = parse_retry_after(wait, unix_s=clock.unix_ms() / 1000)
        raise _Failed(refused, status, retry_after=retry_after)

    def _reason(self, content: bytes, status: int, where: str) -> tuple[str, str, str | None]:
        """Return the server's error text or the start of the body, the place, and the code."""
        try:
            body = self.codec.decode(content)
        except ValueError:
            body = None
        if isinstance(body, dict) and isinstance(body.get("error"), str):
            code = body.get("code")
            return body["error"], where, code if isinstance(code, str) else None
        text = " ".join(content[:200].decode(errors="replace").split())
        return text or f"no reason given for status {status}", where, None

    async def _fresh_headers(self, refused: str) -> str | None:
        """Return headers with a token other than the refused one, or None if there is none."""
        if not callable(self._token):
            return None
        if isinstance(self._token, TokenFile):
            self._token.forget()
        fresh = await self._with_token()
        return fresh if fresh != refused else None

    async def _with_token(self) -> str:
        assert callable(self._token)
        try:
            token = self._token()
            if inspect.isawaitable(token):
                token = await token
        except Exception as error:
            problem = Unreachable(
                f"the bearer_token function failed ({type(error).__name__}: {error}), "
                "so nothing was sent; fix the function and retry"
            )
            problem.__cause__ = error
            raise _Failed(problem, None, was_sent=False) from None
        return self._headers + _authorization(token)

    def _open_pool(self) -> Pool:
        if self._is_closed:
            raise ClientClosed("the client was closed; make a new one")
        if self._pool is None:
            self._pool = Pool(limit=self._connections)
        return self._pool

    def _open_closing(self) -> asyncio.Event:
        if self._closing is None:
            self._closing = asyncio.Event()
            if self._is_closed:
                self._closing.set()
        return self._closing

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


def _authorization(token: str) -> str:
    return header_text({"Authorization": f"Bearer {token}"})
