"""Requests that the edge refuses before doing any work for them."""

from __future__ import annotations


class Refused(Exception):
    """A request that the edge answers itself. Its connection ends with the answer."""

    def __init__(
        self,
        status: int,
        sentence: str,
        *,
        retry_after_s: int | None = None,
        bound: str = "",
    ) -> None:
        super().__init__(sentence)
        self.status = status
        #: The setting whose bound was reached; empty when the request itself is wrong.
        self.bound = bound
        self.retry_after_s = retry_after_s
