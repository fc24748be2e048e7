"""What the server does not let in: other hosts' names, and requests that never end."""

import socket
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from pushpop.viewer.server import Guard, TimedProtocol, make_app
from tests.viewer.conftest import listening

LOCAL = ["127.0.0.1", "localhost", "localhost.", "[::1]", "LOCALHOST:8000", "127.0.0.1:80"]
FOREIGN = ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8000", "", "10.0.0.7"]


async def nothing(*_: object) -> None:
    """An application that is never asked."""


@pytest.mark.parametrize("host", LOCAL)
def test_local_names_are_answered(host: str) -> None:
    assert Guard(nothing, ()).allows(host)


@pytest.mark.parametrize("host", FOREIGN)
def test_other_names_are_not(host: str) -> None:
    assert not Guard(nothing, ()).allows(host)


def test_the_host_that_is_listened_at_and_allowed_ones_are_answered() -> None:
    guard = Guard(nothing, ("192.168.1.5", "Viewer.example"))
    assert guard.allows("192.168.1.5:8000")
    assert guard.allows("viewer.example")
    assert not guard.allows("192.168.1.6")


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
def test_who_listens_everywhere_is_asked_for_by_any_address_but_not_by_any_name(host: str) -> None:
    guard = Guard(nothing, (host,))
    assert guard.allows("192.168.1.6:8000")
    assert guard.allows("[fe80::1]:8000")
    assert guard.allows(socket.gethostname())
    assert not guard.allows("evil.example")


def test_a_page_of_another_site_learns_nothing() -> None:
    with TestClient(make_app({}), base_url="http://evil.example") as client:
        for answer in (client.get("/"), client.get("/api/models"), client.post("/api/trace")):
            assert answer.status_code == 421
            assert "evil.example" in answer.json()["error"]
            assert "--allow-host" in answer.json()["error"]


def test_every_answer_says_that_it_is_what_it_says() -> None:
    with TestClient(make_app({}), base_url="http://localhost") as client:
        for path in ("/", "/api/models", "/openapi.json", "/nothing"):
            answer = client.get(path)
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'none'"


@pytest.mark.parametrize("path", ["/", "/api/models", "/openapi.json"])
def test_head_is_get_without_a_body(path: str) -> None:
    with TestClient(make_app({}), base_url="http://localhost") as client:
        answer, whole = client.head(path), client.get(path)
    assert answer.status_code == 200
    assert answer.content == b""
    for name in ("content-length", "content-type"):
        assert answer.headers[name] == whole.headers[name]


class Impatient(TimedProtocol):
    seconds = 0.5


BEGINNINGS = {
    "nothing": b"",
    "half a header": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
    "half a body": b"POST /api/trace HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 50\r\n\r\n{",
}


@pytest.fixture(scope="module")
def impatient() -> Iterator[int]:
    with listening(Impatient) as port:
        yield port


@pytest.mark.parametrize("sent", BEGINNINGS.values(), ids=BEGINNINGS)
def test_a_request_that_is_not_finished_in_time_is_dropped(impatient: int, sent: bytes) -> None:
    with socket.create_connection(("127.0.0.1", impatient), timeout=60) as client:
        client.sendall(sent)
        assert client.recv(1000) == b""  # closed by the server, where else this would time out


def test_a_byte_now_and_then_gives_no_more_time(impatient: int) -> None:
    with socket.create_connection(("127.0.0.1", impatient), timeout=0.05) as client:
        client.sendall(BEGINNINGS["half a header"])
        for _ in range(1200):  # a minute at most
            try:
                client.sendall(b"x")
                if client.recv(1) == b"":
                    break
            except TimeoutError:
                continue
            except OSError:
                break
        else:
            pytest.fail("the connection is still open")


def test_finished_requests_can_follow_each_other_for_longer_than_one_may_take() -> None:
    class Slow(TimedProtocol):
        seconds = 3600.0

    with listening(Slow) as port, socket.create_connection(("127.0.0.1", port)) as client:
        client.settimeout(60)
        for _ in range(3):
            client.sendall(b"HEAD /api/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(4000).startswith(b"HTTP/1.1 200")
