"""Refuses redirects of the servers that a broker asks: each is called at the address configured."""

from __future__ import annotations

import urllib.error
import urllib.request
from email.message import Message
from typing import IO, NoReturn


class RefuseRedirects(urllib.request.HTTPRedirectHandler):
    """A redirect could lead from https to http, or to another server than the configured one."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: Message,
        newurl: str,
    ) -> NoReturn:
        fp.close()
        text = "the server redirects, and redirects are not followed; configure the final address"
        # Without the new address, which may hold a secret.
        raise urllib.error.HTTPError(req.full_url, code, text, headers, None)
