"""What the server does not let in: other hosts' names."""

import socket

import pytest
from fastapi.testclient import TestClient

from pushpop.viewer.server import Guard, make_app

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
