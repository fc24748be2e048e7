"""Connections that take too long over a request are closed.

Without this, a client that sends a byte now and then keeps a connection for as long as it likes.
"""

import asyncio
from typing import ClassVar

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 20.0


class TimedProtocol(H11Protocol):
    """uvicorn's, with a limit on the time from the first byte of a request, or from the opening
    of the connection, to the request's last byte."""

    seconds: ClassVar[float] = REQUEST_SECONDS
    deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Time runs from now on."""
        super().connection_made(transport)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """More data does not give more time; the end of the request stops it."""
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """No time is left to take."""
        super().connection_lost(exc)
        self._unwatch()

    def _watch(self) -> None:
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._unwatch()
        elif self.deadline is None:
            self.deadline = self.loop.call_later(self.seconds, self.transport.close)

    def _unwatch(self) -> None:
        if self.deadline is not None:
            self.deadline.cancel()
            self.deadline = None
