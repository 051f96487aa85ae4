"""Wraps a handler with its row of the rights table: checked before, recorded after."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import Response

from queenmq.auth.identity import Kind
from queenmq.auth.rights import Reach, Right
from queenmq.errors import Forbidden, NotFound, QueenError
from queenmq.server.answers.error_responses import status_of
from queenmq.server.auth.callers import check_caller, check_path
from queenmq.server.auth.wiring import Access
from queenmq.server.edge.exchange import Exchange

Endpoint = Callable[[Request], Awaitable[Response]]


class CheckedEndpoint:
    """Calls the handler if the caller may use it. Administrative actions are audited."""

    def __init__(self, endpoint: Endpoint, right: Right) -> None:
        self._endpoint = endpoint
        self.right = right

    async def __call__(self, request: Request) -> Response:
        exchange: Exchange = request.scope["exchange"]
        access: Access = request.scope["access"]
        right = self.right
        try:
            check_caller(exchange, right)
            check_path(exchange, right, request.path_params)
        except Forbidden as error:
            if right.action is not None:
                access.auditor.log_refusal(exchange, right, status_of(error))
            raise
        if right.reach is Reach.ID:
            await self._check_ids(request, exchange, access)
        if right.action is None:
            return await self._endpoint(request)
        status = 500
        try:
            response = await self._endpoint(request)
            status = response.status_code
            return response
        except QueenError as error:
            status = status_of(error)
            raise
        finally:
            if exchange.identity.kind is Kind.STRANGER:
                # A failed login. Strangers must not be able to fill the table.
                access.auditor.log_refusal(exchange, right, status)
            else:
                await access.auditor.note(exchange, right, status)

    async def _check_ids(self, request: Request, exchange: Exchange, access: Access) -> None:
        try:
            await access.reachable.check_ids(exchange.identity, request.path_params)
        except NotFound as error:
            if self.right.action is not None:
                access.auditor.log_refusal(exchange, self.right, status_of(error))
            raise
