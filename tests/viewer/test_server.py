"""The server's API, and what it refuses."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, settings

from pushpop.memory import MEMORIES
from pushpop.tasks.registry import TASKS
from pushpop.viewer.server import LARGEST_REQUEST, LONGEST, MEDIA_TYPES, make_app
from pushpop.viewer.tracing import Entry, Example, generate, trace
from tests.viewer.models import entries, line_model, text_model

MODELS = entries()
APP = make_app(MODELS, hosts=["testserver"])


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(APP) as found:
        yield found


def ask(client: TestClient, path: str, **body: Any) -> Any:
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_the_page_asks_no_other_host(client: TestClient) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    assert "http://" not in answer.text.replace("http://www.w3.org/2000/svg", "")
    # A link, which asks for nothing until somebody follows it.
    assert "https://" not in answer.text.replace("https://arxiv.org/abs/1506.02516", "")
    assert "default-src 'none'" in answer.text
    assert "connect-src 'self'" in answer.text


def test_models_and_tasks_are_listed(client: TestClient) -> None:
    told = client.get("/api/models").json()
    assert [model["name"] for model in told["models"]] == list(MODELS)
    assert {model["memory"] for model in told["models"]} == {*MEMORIES, "none"}
    assert [task["name"] for task in told["tasks"]] == list(TASKS)
    assert told["tasks"][1] == {"name": "reverse", "summary": "The source read from its end."}
    assert told["models"][0]["parameters"] == sum(
        parameter.numel() for parameter in MODELS["reverse-stack"].model.parameters()
    )


def test_a_model_is_offered_tasks_that_it_can_read(client: TestClient) -> None:
    offered = {model["name"]: model for model in client.get("/api/models").json()["models"]}
    assert offered["reverse-stack"]["tasks"] == [
        "copy",
        "reverse",
        "flip",
        "duplicate",
        "odds-first",
    ]
    assert offered["svo-sov-deque"]["tasks"] == ["svo-sov"]
    assert offered["reverse-stack"]["separator"] == " "


def test_a_model_of_text_has_no_task_and_its_own_separator() -> None:
    own = {"own": Entry("own", text_model(), "pairs.tsv")}
    with TestClient(make_app(own), base_url="http://localhost") as client:
        (model,) = client.get("/api/models").json()["models"]
        assert (model["task"], model["tasks"], model["separator"]) == (None, [], "")
        assert model["example"] == "abc"
        told = ask(client, "trace", model="own", input="ab ca")
    assert told["source"] == ["a", "b", " ", "c", "a"]
    assert told["separators"] == ["", ""]


@pytest.fixture(scope="module")
def lines() -> Iterator[TestClient]:
    models = {"lines": Entry("lines", line_model(), None), "own": Entry("own", text_model(), None)}
    with TestClient(make_app(models), base_url="http://localhost") as found:
        yield found


def test_a_language_model_generates_a_line_that_is_then_traced(lines: TestClient) -> None:
    listed = {model["name"]: model for model in lines.get("/api/models").json()["models"]}
    assert (listed["lines"]["form"], listed["lines"]["separator"]) == ("lm", "")
    wish = {"model": "lines", "prefix": "C(", "temperature": 0.5, "seed": 4}
    drawn = ask(lines, "lines", **wish)
    options = {"prefix": "C(", "temperature": 0.5, "seed": 4, "max_length": LONGEST}
    assert drawn["line"] == line_model().generate(1, **options)[0]
    told = ask(lines, "trace", model="lines", input=drawn["line"])
    assert [step["symbol"] for step in told["steps"][1:]] == list(drawn["line"])
    assert {cell["symbol"] for cell in told["cells"]} == {"<s>", *drawn["line"]}
    assert len({told["hues"][symbol] for symbol in drawn["line"]}) == len(set(drawn["line"]))
    assert all(step["output"]["right"] is None for step in told["steps"])


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        ({"model": "own"}, 422, "own: no language model"),
        ({"model": "nobody"}, 404, "unknown model 'nobody'"),
        ({"model": "lines", "prefix": "C["}, 422, "prefix: unknown symbol '['"),
        ({"model": "lines", "prefix": "C" * 501}, 422, "prefix: 501 symbols"),
        ({"model": "lines", "temperature": 0}, 422, "temperature: Input should be greater"),
    ],
)
def test_what_cannot_be_generated_is_answered_in_words(
    lines: TestClient, body: dict[str, Any], status: int, words: str
) -> None:
    answer = lines.post("/api/lines", json=body)
    assert answer.status_code == status
    assert words in answer.json()["error"]


def test_a_typed_source_is_judged_by_the_models_own_task(client: TestClient) -> None:
    told = ask(client, "trace", model="reverse-stack", input="a1 a2 a3")
    assert told["target"] == ["a3", "a2", "a1"]
    told = ask(client, "trace", model="copy-queue", input="a1 a2 a3")
    assert told["target"] == ["a1", "a2", "a3"]
    told = ask(client, "trace", model="flip-none", input="a1 a2 a3")
    assert told["target"] is told["right"] is None


KINDS = {"html": b"<!doctype html>", "gif": b"GIF89a", "png": b"\x89PNG", "svg": b"<?xml",
         "json": b'{"format"'}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_trace_can_be_had_as_a_file(client: TestClient, kind: str) -> None:
    wish = {"model": "copy-queue", "input": "a1 a2", "kind": kind}
    answer = client.post("/api/export", json=wish)
    assert answer.status_code == 200
    assert answer.content.startswith(KINDS[kind])
    assert answer.headers["content-type"] == MEDIA_TYPES[kind]


def test_the_documentation_is_served_where_it_is_there(client: TestClient) -> None:
    assert "viewer.md" in client.get("/api/models").json()["docs"]
    answer = client.get("/docs/viewer.md")
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert '<h1 id="seeing-the-memory-work">Seeing the memory work</h1>' in answer.text
    assert "<th>extension</th>" in answer.text


def test_links_of_the_documentation_lead_to_pages_headings_and_pictures(client: TestClient) -> None:
    listed = client.get("/api/models").json()["docs"]
    texts = {name: client.get(f"/docs/{name}").text for name in listed}
    assert 'href="memory.md#from-zero"' in texts["viewer.md"]
    assert 'href="viewer.md"' in texts["README.md"]
    for text in texts.values():
        for link in re.findall(r'(?:href|src)="([^"]+)"', text.partition("<main>")[2]):
            page, _, heading = link.partition("#")
            if ":" in page:  # another site
                continue
            if page.endswith((".png", ".gif", ".svg")):
                assert client.get(f"/docs/{page}").headers["content-type"].startswith("image/")
            elif heading and page:
                assert f'id="{heading}"' in texts[page], link
            else:
                assert not page or page in texts


@pytest.mark.parametrize(
    "name", ["nothing.md", "..%2Fpyproject.toml", "figures", "%2Fetc%2Fpasswd"]
)
def test_only_pages_are_documentation(client: TestClient, name: str) -> None:
    answer = client.get(f"/docs/{name}")
    assert answer.status_code == 404
    assert answer.json()["error"]


@pytest.mark.parametrize("task", TASKS)
def test_an_example_is_the_tasks(client: TestClient, task: str) -> None:
    found = ask(client, "generate", task=task, length=10, seed=4)
    drawn = generate(task, 10, 4)
    assert found == {"source": list(drawn.source), "target": list(drawn.target or ())}


@pytest.mark.parametrize("name", MODELS)
def test_a_trace_is_the_models(client: TestClient, name: str) -> None:
    source = MODELS[name].model.vocabulary.source[:5]
    told = ask(client, "trace", model=name, input="  ".join(source), target=["x"])
    wanted = trace(MODELS[name].model, Example(source, ("x",)), name=name)
    assert told["output"] == list(wanted.output)
    assert len(told["steps"]) == len(wanted.steps)
    assert told["right"] is False
    for step, other in zip(told["steps"], wanted.steps, strict=True):
        assert step["push"] == pytest.approx(list(other.push), rel=1e-5)


def test_the_longest_source_is_traced(client: TestClient) -> None:
    told = ask(client, "trace", model="copy-queue", input=" ".join(["a1"] * LONGEST))
    assert len(told["steps"]) >= LONGEST + 2


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("trace", {"model": "nobody", "input": "a1"}, 404, "unknown model 'nobody'"),
        ("trace", {"model": "copy-quue", "input": "a1"}, 404, "did you mean 'copy-queue'?"),
        ("trace", {"model": "../../etc/passwd", "input": "a1"}, 404, "unknown model"),
        ("trace", {"model": "copy-queue", "input": "a1 b"}, 422, "unknown source symbol 'b'"),
        ("trace", {"model": "copy-queue", "input": "a1 " * 501}, 422, "501 symbols, expected at"),
        ("trace", {"model": "copy-queue", "input": 7}, 422, "input: Input should be a valid"),
        ("trace", {"model": "copy-queue"}, 422, "input: Field required"),
        ("trace", {"model": "copy-queue", "input": "", "more": 1}, 422, "more: Extra inputs"),
        ("trace", {"model": "copy-queue", "input": "a" * 20_001}, 422, "at most 20000 characters"),
        ("export", {"model": "copy-queue", "input": "a1", "kind": "pdf"}, 422, "kind: Input"),
        ("export", {"model": "copy-queue", "input": "b", "kind": "png"}, 422, "unknown source"),
        ("generate", {"task": "nothing"}, 404, "unknown task 'nothing'"),
        ("generate", {"task": "/etc/passwd.itg"}, 404, "unknown task"),
        ("generate", {"task": "flip", "length": 9}, 422, "none is a multiple of 2"),
        ("generate", {"task": "copy", "length": 501}, 422, "length: Input should be less than"),
        ("generate", {"task": "copy", "seed": -1}, 422, "seed: Input should be greater"),
    ],
)  # fmt: skip
def test_a_mistake_is_answered_in_words(
    client: TestClient, path: str, body: dict[str, Any], status: int, words: str
) -> None:
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == status
    assert list(answer.json()) == ["error"]
    assert words in answer.json()["error"]


def test_half_a_surrogate_pair_is_refused_not_crashed_on(client: TestClient) -> None:
    for body in ({"model": "\ud800", "input": ""}, {"model": "copy-queue", "input": "\udfff"}):
        answer = client.post("/api/trace", content=json.dumps(body).encode())
        assert answer.status_code in (404, 422)
        assert answer.json()["error"]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"model": NaN}'])
def test_what_is_not_a_request_is_refused(client: TestClient, body: bytes) -> None:
    answer = client.post("/api/trace", content=body)
    assert answer.status_code == 422
    assert answer.json()["error"]


def test_a_large_request_is_refused_before_it_is_read(client: TestClient) -> None:
    answer = client.post("/api/trace", content=b" " * (LARGEST_REQUEST + 1))
    assert answer.status_code == 413
    assert "larger than" in answer.json()["error"]


def test_a_request_that_hides_its_size_is_refused_all_the_same(client: TestClient) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(LARGEST_REQUEST // 1000 + 2):
            yield b" " * 1000

    answer = client.post("/api/trace", content=chunks())
    assert answer.status_code == 413


@pytest.mark.parametrize("path", ["/nothing", "/docs", "/../etc/passwd", "/api/trace"])
def test_other_addresses_are_answered_with_json(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code in (404, 405)
    assert answer.json()["error"]


# The codes of the API, which are fewer than the tool allows, and two more: a request that is not as
# described may be too large as well (413), and one that is as described may ask for what a task or
# a model cannot do, as pairs flipped in a source of odd length (422).
STATUSES = {
    "negative_data_rejection": {"expected-statuses": ["404", "405", "413", "422"]},
    "positive_data_acceptance": {"expected-statuses": ["200", "404", "422"]},
}
schema = schemathesis.openapi.from_asgi(
    "/openapi.json",
    APP,
    config=schemathesis.Config.from_dict({"checks": STATUSES}),
)


@schema.parametrize()
@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
def test_the_api_is_as_its_description_says(case: schemathesis.Case) -> None:
    case.call_and_validate()
