"""How much a request may ask for, and what stops one that asks for more before it is read."""

from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST = 500  # symbols in a source
MOST_CHARACTERS = 20_000  # of an input
LARGEST_REQUEST = 200_000  # bytes
CLOSE = {"Connection": "close"}  # what is left of the body is not worth reading


class SizeLimit:
    """Answers 413 when a body is announced as larger than the limit, or turns out to be."""

    def __init__(self, app: ASGIApp, largest: int) -> None:
        self.app, self.largest = app, largest

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, counting."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced[:20]) > self.largest:
            await self._refuse(scope, receive, send)
            return
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self.largest:
                raise HTTPException(413, self._text(), headers=CLOSE)
            return message

        await self.app(scope, counted, send)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = JSONResponse({"error": self._text()}, 413, headers=CLOSE)
        await answer(scope, receive, send)

    def _text(self) -> str:
        return f"the request is larger than {self.largest} bytes"
