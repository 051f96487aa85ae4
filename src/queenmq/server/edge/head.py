"""Parses the head of a request into a Head, or a reason to refuse it. Pure.

llhttp (through httptools) decides what is well-formed. This module decides the rest: versions,
Host, how the body is framed, and the bounds.

Most heads are the same bytes as an earlier one. A HeadReader caches them, so a repeated head costs
one dictionary look-up.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from dataclasses import dataclass, field

import httptools

from queenmq.server.edge.refusal import Refused

#: The length of a chunked body.
CHUNKED = -1
#: Remembered heads, and the largest of them: some 10 MB at the most.
_REMEMBERED_MAX = 2_048
_REMEMBERED_BYTES_MAX = 1_024
_REMEMBERED_HEADERS_MAX = 30
#: A host name or address and a port; what must be escaped in a URL cannot be in it.
_HOST = re.compile(rb"^(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~!$&'()*+,;=%-]*)(:[0-9]{0,5})?$")
_ABSOLUTE = re.compile(rb"^https?://([^/?#]*)([^#]*)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class HeadLimits:
    """The limits of a head. The settings page explains each."""

    bytes_max: int
    line_bytes_max: int
    header_bytes_max: int
    headers_max: int
    body_bytes_max: int


@dataclass(frozen=True, slots=True, eq=False)
class Head:
    """A request line and headers that passed every check."""

    method: str
    #: Percent-encoded, as it was sent, without the query.
    path: bytes
    query: bytes
    #: Names in lower case, in the order they were sent.
    headers: tuple[tuple[bytes, bytes], ...]
    version: str
    host: bytes
    #: Length of the body, or CHUNKED.
    length: int
    is_keep_alive: bool
    expects_continue: bool
    #: Whether the body has a Content-Encoding, and whether the answer may have one.
    is_encoded: bool
    accepts_gzip: bool
    #: Headers that every answer to this head has.
    extra: tuple[tuple[bytes, bytes], ...] = ()
    #: Whether answers to it need nothing but their body.
    is_plain: bool = field(init=False)
    _values: dict[bytes, bytes] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        # Once here, because many requests share a head that is remembered.
        values: dict[bytes, bytes] = {}
        for name, value in self.headers:
            values[name] = values[name] + b", " + value if name in values else value
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "is_plain", not self.extra and self.method != "HEAD")

    def get(self, name: bytes) -> bytes | None:
        """Return the header with this lower-case name; several are joined as one list."""
        return self._values.get(name)


class _Collector:
    """Collects the parts of a head that llhttp reports."""

    def __init__(self) -> None:
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.is_complete = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        # llhttp does not strip the white space after a value.
        self.headers.append((name.lower(), value.rstrip(b" \t")))

    def on_headers_complete(self) -> None:
        self.is_complete = True


def parse_head(data: bytes, limits: HeadLimits) -> Head:
    """Return the parsed head. Raises Refused if it is invalid or too large."""
    found = _Collector()
    parser = httptools.HttpRequestParser(found)
    try:
        parser.feed_data(data)
    except httptools.HttpParserUpgrade:
        # The client offers another protocol; the answer in this one declines it.
        pass
    except httptools.HttpParserError as error:
        raise _refuse_malformed(data, error) from error
    if b" HTTP/" not in data.partition(b"\r\n")[0]:
        # llhttp knows RTSP and ICE as well.
        raise Refused(400, "The request line does not end with an HTTP version. Use HTTP/1.1.")
    method = parser.get_method().decode("ascii")
    version = parser.get_http_version()
    _check_version(version)
    if not found.is_complete:
        raise Refused(400, "The request has no complete head. End it with an empty line.")
    _check_sizes(found, limits)
    target, authority = _split_target(method, found.url)
    path, _, query = target.partition(b"?")
    return Head(
        method=method,
        path=path,
        query=query,
        headers=tuple(found.headers),
        version=version,
        host=_check_host(found.headers, version, authority),
        length=_body_length(found.headers, version, limits),
        is_keep_alive=_is_keep_alive(found.headers, version),
        expects_continue=_expects_continue(found.headers, version),
        is_encoded=any(name == b"content-encoding" for name, _ in found.headers),
        accepts_gzip=_is_gzip_accepted(found.headers),
    )


def _refuse_malformed(data: bytes, error: httptools.HttpParserError) -> Refused:
    if data.startswith(b"PRI * HTTP/2.0"):
        return Refused(505, "This server speaks HTTP/1.1, not HTTP/2. Use HTTP/1.1.")
    if isinstance(error, httptools.HttpParserInvalidMethodError):
        return Refused(400, "The request does not start with an HTTP method.")
    return Refused(400, f"The request is not well-formed HTTP: {error}. Check its head.")


def _check_version(version: str) -> None:
    if version == "0.9":
        raise Refused(400, "The request line names no HTTP version. Use HTTP/1.1.")
    if version not in ("1.0", "1.1"):
        raise Refused(505, f"This server speaks HTTP/1.1, not HTTP/{version}. Use HTTP/1.1.")


def _check_sizes(found: _Collector, limits: HeadLimits) -> None:
    if len(found.url) > limits.line_bytes_max:
        raise Refused(
            414,
            f"The URL has {len(found.url)} bytes. Use at most {limits.line_bytes_max}.",
        )
    if len(found.headers) > limits.headers_max:
        raise Refused(
            431,
            f"The request has {len(found.headers)} headers. Send at most {limits.headers_max}.",
        )
    for name, value in found.headers:
        if len(name) + len(value) > limits.header_bytes_max:
            raise Refused(
                431,
                f"Header {name[:60].decode('latin-1')!r} has {len(name) + len(value)} bytes."
                f" Send at most {limits.header_bytes_max}.",
            )


def _split_target(method: str, target: bytes) -> tuple[bytes, bytes | None]:
    """Return path and query, and the authority of an absolute URL."""
    if target.startswith(b"/"):
        if b"#" in target:
            raise Refused(400, "The URL has a fragment. Leave out the part behind '#'.")
        return target, None
    if target == b"*" and method == "OPTIONS":
        return target, None
    absolute = _ABSOLUTE.match(target)
    if absolute is None or method == "CONNECT":
        raise Refused(400, "The request names no path of this server. Start the path with '/'.")
    authority, rest = absolute.groups()
    return rest if rest.startswith(b"/") else b"/" + rest, authority


def _check_host(headers: list[tuple[bytes, bytes]], version: str, authority: bytes | None) -> bytes:
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (not hosts and version == "1.1"):
        raise Refused(400, f"The request has {len(hosts)} Host headers. Send exactly one.")
    for host in (*hosts, authority or b""):
        if not _HOST.match(host):
            shown = host[:60].decode("latin-1")
            raise Refused(400, f"Host {shown!r} is not a host and port. Send 'Host: name:port'.")
    # An absolute URL replaces the Host header (RFC 9112, 3.2.2).
    return authority if authority is not None else (hosts[0] if hosts else b"")


def _body_length(headers: list[tuple[bytes, bytes]], version: str, limits: HeadLimits) -> int:
    codings = [value for name, value in headers if name == b"transfer-encoding"]
    if codings:
        if version == "1.0":
            raise Refused(400, "HTTP/1.0 has no Transfer-Encoding. Send a Content-Length.")
        if b", ".join(codings).lower() != b"chunked":
            shown = b", ".join(codings)[:60].decode("latin-1")
            raise Refused(501, f"Transfer-Encoding {shown!r} is not supported. Use 'chunked'.")
        return CHUNKED
    # llhttp has refused a second Content-Length and values that are not numbers.
    length = next((int(value) for name, value in headers if name == b"content-length"), 0)
    if length > limits.body_bytes_max:
        raise refuse_body(limits.body_bytes_max)
    return length


def refuse_body(bytes_max: int) -> Refused:
    """Return the refusal of a body that is larger than this."""
    return Refused(413, f"The body is larger than {bytes_max} bytes. Send fewer items per request.")


def _tokens(headers: list[tuple[bytes, bytes]], wanted: bytes) -> set[bytes]:
    return {
        token.strip().lower()
        for name, value in headers
        if name == wanted
        for token in value.split(b",")
    }


def _is_keep_alive(headers: list[tuple[bytes, bytes]], version: str) -> bool:
    tokens = _tokens(headers, b"connection")
    return b"close" not in tokens and (version == "1.1" or b"keep-alive" in tokens)


def _expects_continue(headers: list[tuple[bytes, bytes]], version: str) -> bool:
    expected = _tokens(headers, b"expect")
    # An expectation of HTTP/1.0 is to be ignored (RFC 9110, 10.1.1).
    if not expected or version == "1.0":
        return False
    if expected != {b"100-continue"}:
        shown = b", ".join(sorted(expected))[:60].decode("latin-1")
        raise Refused(417, f"Expect {shown!r} cannot be met. Use '100-continue' or leave it out.")
    return True


def _is_gzip_accepted(headers: list[tuple[bytes, bytes]]) -> bool:
    for token in _tokens(headers, b"accept-encoding"):
        coding, _, weight = token.partition(b";")
        if coding.strip() == b"gzip":
            return weight.replace(b" ", b"").rstrip(b"0") not in (b"q=", b"q=0.")
    return False


def check_unfinished(data: bytes | bytearray, limits: HeadLimits) -> None:
    """Raise Refused if these bytes cannot be the start of a head."""
    if len(data) > limits.bytes_max:
        raise refuse_head(limits)
    first_line, found, _ = bytes(data[:9_000]).partition(b"\n")
    if found and not first_line.rstrip(b"\r").endswith((b"HTTP/1.1", b"HTTP/1.0")):
        raise Refused(400, "The request line does not end with an HTTP version. Use HTTP/1.1.")
    if not 0x41 <= data[0] <= 0x5A:
        # For example, a TLS hello.
        raise Refused(400, "The request does not start with an HTTP method.")
    if b"\n\n" in data:
        raise Refused(400, "The head has lines that end without CR. End lines with CR LF.")


def refuse_head(limits: HeadLimits) -> Refused:
    """Return the refusal of a head that is larger than allowed."""
    return Refused(
        431, f"The head has more than {limits.bytes_max} bytes. Shorten URL and headers."
    )


class HeadReader:
    """Parses heads and caches accepted ones.

    `judge` may refuse a parsed head, and returns the headers that its answers carry.
    """

    def __init__(
        self, limits: HeadLimits, judge: Callable[[Head], tuple[tuple[bytes, bytes], ...]]
    ) -> None:
        self.limits = limits
        self._judge = judge
        self._known: dict[bytes, Head] = {}

    def read(self, data: bytes) -> Head:
        """Return the head in these bytes, which end with its empty line."""
        head = self._known.get(data)
        if head is None:
            head = parse_head(data, self.limits)
            extra = self._judge(head)
            if head.version == "1.0" and head.is_keep_alive:
                # Without this header a client of HTTP/1.0 waits for the connection to close.
                extra = (*extra, (b"connection", b"keep-alive"))
            head = dataclasses.replace(head, extra=extra)
            is_small = len(head.headers) <= _REMEMBERED_HEADERS_MAX
            if is_small and len(data) <= _REMEMBERED_BYTES_MAX:
                if len(self._known) >= _REMEMBERED_MAX:
                    self._known.clear()
                self._known[data] = head
        return head
