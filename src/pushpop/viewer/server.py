"""The server behind `pushpop serve`: its page, and the same as JSON under /api.

A request names models and tasks; what the names stand for was loaded before the first request, so
that nothing in a request ever reaches the file system. A request is refused that is too large, or
that asks for another host: a page of another site can have its own name lead to this machine (DNS
rebinding) and would then be allowed to read the answers. It cannot choose the Host header: that has
the site's name. (Starlette's TrustedHostMiddleware knows no IPv6 address and no server that listens
at all of its machine's addresses.)
"""

import os
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address
from threading import Lock
from typing import Annotated, Any, Literal

import torch
import uvicorn
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pushpop.devices import find_device
from pushpop.errors import InputError, did_you_mean, naming
from pushpop.models import LanguageModel
from pushpop.models.decoding import Sampling
from pushpop.tasks import Task
from pushpop.tasks.registry import TASKS
from pushpop.viewer.export import FORMATS, doc_page, local_docs, page_data, served_page
from pushpop.viewer.tracing import Entry, Example, Trace, generate, open_models, read_input, trace

LONGEST = 500  # symbols in a source
MOST_CHARACTERS = 20_000  # of an input
LARGEST_REQUEST = 200_000  # bytes
LOCAL = ("127.0.0.1", "localhost", "::1")
EVERYWHERE = ("0.0.0.0", "::", "")
"""Addresses that stand for all of a machine's own."""
HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"content-security-policy", b"frame-ancestors 'none'"),
)
MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "gif": "image/gif",
    "png": "image/png",
    "svg": "image/svg+xml",
    "json": "application/json",
}


def listen(
    models: Sequence[str],
    host: str,
    port: int,
    allowed: Sequence[str] = (),
    device: str = "cpu",
) -> None:
    """Serve these models, or the shipped ones, until the process is interrupted.

    It answers requests for this host, for the local ones and for those that are `allowed`.
    """
    torch.set_num_threads(1)
    where = find_device(device)
    entries = open_models(models)
    for entry in entries.values():
        entry.model.to(where)
    with _bind(host, port) as listener:
        for name, entry in entries.items():  # compiles the kernels before the first visitor comes
            vocabulary = entry.model.vocabulary
            first = vocabulary.blank or (*vocabulary.source, *vocabulary.target)[0]
            with naming(name):
                trace(entry.model, Example((first,)), max_length=1)
        app = make_app(entries, hosts=(host, *allowed))
        settings = uvicorn.Config(app, log_level="warning", timeout_keep_alive=10)
        shown = f"[{host}]" if ":" in host else host
        names = ", ".join(entries) or "no models, only the playground"
        print(f"serving {names}", file=sys.stderr)
        print(f"http://{shown}:{listener.getsockname()[1]}  (Ctrl-C stops)", flush=True)
        uvicorn.Server(settings).run(sockets=[listener])


def _bind(host: str, port: int) -> socket.socket:
    """Listen: who comes before the server has started waits instead of being refused."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address, family=family, backlog=128)
    except socket.gaierror as error:
        raise InputError(f"host {host!r}: {error.strerror or error}") from None
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise InputError(
            f"{host}:{port}: {reason}; choose another with --port, or --port 0"
        ) from None


def _whole(value: Any) -> Any:
    """To JSON, 1.0 is a whole number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


Whole = Annotated[int, BeforeValidator(_whole)]
Seed = Annotated[Whole, Field(ge=0, lt=2**53)]  # a JavaScript number
Symbols = list[Annotated[str, Field(max_length=100)]]
Name = Annotated[str, Field(max_length=200)]
Text = Annotated[str, Field(max_length=MOST_CHARACTERS)]


class Problem(BaseModel):
    """What was wrong with a request."""

    error: str


class TaskInfo(BaseModel):
    """A task that examples can be drawn from."""

    name: str
    summary: str


class ModelInfo(BaseModel):
    """A model that can be traced."""

    name: str
    memory: str
    form: str = Field(description="transducer, tagger or lm (a language model, which generates)")
    task: str | None = Field(description="the task it was trained on, if that can be generated")
    tasks: list[str] = Field(description="those whose sources it can read")
    parameters: int
    symbols: int = Field(description="how many source symbols it knows, or symbols of lines")
    separator: str = Field(description="what stands between the symbols of an input")
    example: str = Field(description="some of them, as they are typed")


class Models(BaseModel):
    """What can be asked for."""

    models: list[ModelInfo]
    tasks: list[TaskInfo]
    longest: int = Field(description="the most symbols in a source")
    docs: list[str] = Field(description="pages under /docs")


class Asked(BaseModel):
    """A request: exactly the fields that are described."""

    model_config = ConfigDict(extra="forbid", strict=True)


class GenerateRequest(Asked):
    """An example of a task to generate."""

    task: Name
    length: Whole = Field(default=12, ge=1, le=LONGEST)
    seed: Seed = 0


class LineRequest(Asked):
    """A line for a language model to generate."""

    model: Name
    prefix: Text = ""
    temperature: float = Field(default=1.0, gt=0, le=100)
    seed: Seed = 0


class Line(BaseModel):
    """What a language model generated."""

    line: str
    finished: bool = Field(description="false: it was cut off at the limit")


class TraceRequest(Asked):
    """A model to run on an input."""

    model: Name
    input: Text = Field(description="a source, or a language model's line, as it reads text")
    target: Symbols | None = Field(
        default=None, max_length=2 * LONGEST + 50,
        description="the right one; marks the errors. By default that of the model's task",
    )  # fmt: skip


class ExportRequest(TraceRequest):
    """A model to run, and the kind of file to write the trace into."""

    kind: Literal["html", "gif", "png", "svg", "json"]


def make_app(models: Mapping[str, Entry], hosts: Iterable[str] = ()) -> FastAPI:
    """The application, for these models; it answers for these hosts and for the local ones."""
    app = FastAPI(
        title="pushpop",
        description="Transduction with neural stacks, queues and deques, and what they did.",
        version="1",
        docs_url=None,  # its page would come from another host
        redoc_url=None,
        exception_handlers=PROBLEMS,
    )
    app.add_middleware(Guard, hosts=list(hosts))
    tasks = {name: make() for name, make in TASKS.items()}
    pages = local_docs()
    listed = Models(
        models=[_describe(entry, tasks) for entry in models.values()],
        tasks=[TaskInfo(name=name, summary=task.summary) for name, task in tasks.items()],
        longest=LONGEST,
        docs=[name for name in pages if name.endswith(".md")],
    )
    computing = Lock()  # threads of torch and Python would only get in each other's way
    drawing = Lock()  # matplotlib's settings are the process's
    reasons = {
        404: "no such model or task",
        413: f"more than {LARGEST_REQUEST} bytes",
        422: "the request is not as described",
    }
    wrong: dict[int | str, dict[str, Any]] = {
        code: {"model": Problem, "description": text} for code, text in reasons.items()
    }

    @app.get("/", response_class=HTMLResponse, summary="The page")
    def index() -> HTMLResponse:
        return HTMLResponse(served_page())

    @app.get("/favicon.ico", include_in_schema=False)  # browsers ask for it
    def no_icon() -> Response:
        return Response(status_code=204)

    @app.get("/api/models", summary="What can be asked for")
    def list_models() -> Models:
        return listed

    @app.get("/docs/{name:path}", summary="A page of the documentation", responses=wrong)
    def read_docs(name: Name) -> Response:
        content = _find("page", name, pages)
        kind = name.rpartition(".")[2]
        if kind == "md":
            return HTMLResponse(doc_page(name))
        return Response(content, media_type=MEDIA_TYPES[kind])

    @app.post("/api/generate", summary="An example of a task", responses=wrong)
    def generate_example(request: GenerateRequest) -> Example:
        _find("task", request.task, tasks)
        with computing:
            return generate(request.task, request.length, request.seed)

    @app.post("/api/lines", summary="A line of a language model", responses=wrong)
    def generate_line(request: LineRequest) -> Line:
        model = _find("model", request.model, models).model
        if not isinstance(model, LanguageModel):
            raise InputError(f"{request.model}: no language model: it reads a source")
        sampling = Sampling(request.temperature, max_length=LONGEST)
        with computing:
            (drawn,) = model.draw(1, sampling, prefix=request.prefix, seed=request.seed)
        return Line(line=drawn.text, finished=drawn.finished)

    @app.post(
        "/api/trace", summary="Run a model and tell what its memory did",
        responses={**wrong, 200: {"content": {"application/json": {"schema": {"type": "object"}}}}},
    )  # fmt: skip
    def trace_model(request: TraceRequest) -> JSONResponse:
        return JSONResponse(page_data(traced(request)))

    @app.post(
        "/api/export", summary="The same as a file",
        responses={**wrong, 200: {"content": {kind: {} for kind in MEDIA_TYPES.values()}}},
    )  # fmt: skip
    def export_trace(request: ExportRequest) -> Response:
        trace_of_request = traced(request)
        with drawing:
            data = FORMATS[f".{request.kind}"](trace_of_request)
        return Response(data, media_type=MEDIA_TYPES[request.kind])

    def traced(request: TraceRequest) -> Trace:
        entry = _find("model", request.model, models)
        source = read_input(entry.model, request.input)
        if len(source) > LONGEST:
            raise InputError(f"the input has {len(source)} symbols, expected at most {LONGEST}")
        target = None if request.target is None else tuple(request.target)
        task = entry.task if entry.task in tasks else None
        example = Example(source, target).judged_by(task)
        with computing:
            return trace(entry.model, example, name=entry.name, task=task)

    return app


def _http_error(request: Request, error: Any) -> JSONResponse:
    if error.status_code == 400:  # FastAPI's answer to a body that is no text at all
        return problem(422, "the request is not JSON in UTF-8")
    answer = problem(error.status_code, str(error.detail))
    answer.headers.update(error.headers or {})
    return answer


def problem(status: int, text: str) -> JSONResponse:
    """An error as JSON. Half a surrogate pair is valid in JSON and cannot be sent as UTF-8."""
    clean = text.encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": clean}, status_code=status)


PROBLEMS: dict[int | type[Exception], Any] = {
    InputError: lambda _, error: problem(422, str(error)),
    RequestValidationError: lambda _, error: problem(422, _explain(error.errors())),
    HTTPException: _http_error,
}
"""Each is answered with {"error": what is wrong and what was expected}."""


def _explain(errors: Sequence[Any]) -> str:
    said = []
    for error in errors[:3]:
        place, text = ".".join(str(part) for part in error["loc"][1:]), error["msg"]
        if error["type"] == "json_invalid":
            place, text = "the request is not JSON", error.get("ctx", {}).get("error", text)
        said.append(f"{place or 'the request'}: {text}")
    return "; ".join(said)


def _find(what: str, name: str, known: Mapping[str, Any]) -> Any:
    """What goes by this name; status 404 if nothing does."""
    if name not in known:
        hint, names = did_you_mean(name, known), ", ".join(known) or "none"
        raise HTTPException(404, f"unknown {what} {name!r}{hint} ({what}s: {names})")
    return known[name]


def _describe(entry: Entry, tasks: Mapping[str, Task]) -> ModelInfo:
    model, vocabulary = entry.model, entry.model.vocabulary
    form, generates = model.text, isinstance(model, LanguageModel)
    known = vocabulary.target if generates else vocabulary.source
    symbols = [symbol for symbol in known if symbol not in (vocabulary.unknown, " ")]
    side = "spaces" if form is None else form.target if generates else form.source
    separator = "" if side == "chars" else " "
    fitting = [
        name for name, task in tasks.items()
        if form is None and not generates and set(task.vocabulary.source) <= {*vocabulary.source}
    ]  # fmt: skip
    return ModelInfo(
        name=entry.name,
        memory=model.config.memory,
        form=model.form,
        task=entry.task if entry.task in fitting else None,
        tasks=fitting,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        symbols=len(symbols),
        separator=separator,
        example=separator.join(symbols[:4]),
    )


class Guard:
    """Answers 421 to a request for a host that is not allowed, and 413 to one whose body is larger
    than the limit, of which it reads no more."""

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self.app = app
        self.hosts = {_plain(host) for host in (*LOCAL, *hosts)}
        self.everywhere = not self.hosts.isdisjoint(EVERYWHERE)
        if self.everywhere:
            self.hosts.add(_plain(socket.gethostname()))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or refuse it."""
        seen = 0

        async def counted() -> Message:
            nonlocal seen
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > LARGEST_REQUEST:
                text = f"the request is larger than {LARGEST_REQUEST} bytes"
                raise HTTPException(413, text, headers={"Connection": "close"})
            return message

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        host = dict(scope.get("headers", ())).get(b"host", b"").decode("latin-1")
        if scope["type"] != "http" or self.allows(host):
            await self.app(scope, counted, sent)
            return
        error = f"this server does not answer for host {host!r}; --allow-host makes it do so"
        await problem(421, error)(scope, receive, send)

    def allows(self, host: str) -> bool:
        """Whether a Host header, with or without a port, names this server.

        A server that listens at all addresses of its machine is asked for by any of them: a
        number leads where it says, so no other site can stand behind it.
        """
        name = _plain(host)
        if name in self.hosts or not self.everywhere:
            return name in self.hosts
        with suppress(ValueError):
            ip_address(name)
            return True
        return False


def _plain(host: str) -> str:
    """Without the port, the brackets of an IPv6 address and a full stop at the end."""
    name = host.strip().lower()
    if name.startswith("["):
        return name[1:].partition("]")[0]
    if name.count(":") == 1:
        name = name.partition(":")[0]
    return name.removesuffix(".")
