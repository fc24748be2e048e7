"""What every request meets first: whether it asks for this server, and what every answer carries.

A page of another site can have its own name lead to this machine (DNS rebinding) and would then be
allowed to read the answers. It cannot choose the Host header: that has the site's name.
"""

from collections.abc import Iterable
from ipaddress import ip_address
from socket import gethostname

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LOCAL = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::", "")
"""Addresses that stand for all of a machine's own."""
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"frame-ancestors 'none'"),
)


class Guard:
    """Answers 421 to a request for a host that is not allowed. HEAD is GET without the body."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self.app = app
        self.hosts = {_plain(host) for host in (*LOCAL, *hosts)}
        self.everywhere = not self.hosts.isdisjoint(EVERYWHERE)
        if self.everywhere:
            self.hosts.add(_plain(gethostname()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        head = scope["method"] == "HEAD"

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            elif head:
                message["body"] = b""
            await send(message)

        host = dict(scope["headers"]).get(b"host", b"").decode("latin-1")
        if self.allows(host):
            await self.app({**scope, "method": "GET"} if head else scope, receive, sent)
            return
        error = f"this server does not answer for host {host!r}; --allow-host makes it do so"
        await JSONResponse({"error": error}, 421)(scope, receive, sent)

    def allows(self, host: str) -> bool:
        """Whether a Host header, with or without a port, names this server.

        A server that listens at all addresses of its machine is asked for by any of them: a
        number leads where it says, so no other site can stand behind it.
        """
        name = _plain(host)
        return name in self.hosts or (self.everywhere and _is_address(name))


def _plain(host: str) -> str:
    """Without the port, the brackets of an IPv6 address and a full stop at the end."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    if name.count(":") == 1:
        name = name.partition(":")[0]
    return name.removesuffix(".")


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
