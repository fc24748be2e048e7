"""The server behind `pushpop serve`: its page, and the same as JSON under /api.

A request names models and tasks; what the names stand for was loaded before the first request, so
that nothing in a request ever reaches the file system.
"""

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import Annotated, Any, Literal

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from starlette.exceptions import HTTPException

import pushpop.viewer.page as page
from pushpop.errors import InputError, did_you_mean
from pushpop.models.text import source_symbols
from pushpop.tasks import Task
from pushpop.tasks.registry import TASKS
from pushpop.viewer.catalogue import Entry
from pushpop.viewer.export import FORMATS
from pushpop.viewer.guard import Guard
from pushpop.viewer.limits import LARGEST_REQUEST, LONGEST, MOST_CHARACTERS, SizeLimit
from pushpop.viewer.local_docs import local_docs
from pushpop.viewer.trace import Example, Trace, generate, trace


def _whole(given: Any) -> Any:
    """To JSON, 1.0 is a whole number."""
    return int(given) if isinstance(given, float) and given.is_integer() else given


Whole = Annotated[int, BeforeValidator(_whole)]
Symbols = list[Annotated[str, Field(max_length=100)]]
Name = Annotated[str, Field(max_length=200)]
MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "gif": "image/gif",
    "png": "image/png",
    "svg": "image/svg+xml",
    "json": "application/json",
}


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
    task: str | None = Field(description="the task it was trained on, if that can be generated")
    tasks: list[str] = Field(description="those whose sources it can read")
    parameters: int
    symbols: int = Field(description="how many source symbols it knows")
    separator: str = Field(description="what stands between the symbols of an input")
    example: str = Field(description="some of them, as they are typed")


class Models(BaseModel):
    """What can be asked for."""

    models: list[ModelInfo]
    tasks: list[TaskInfo]
    longest: int = Field(description="the most symbols in a source")
    docs: list[str] = Field(description="pages under /docs")


class Wanted(BaseModel):
    """An example of a task to generate."""

    model_config = ConfigDict(extra="forbid", strict=True)
    task: Name
    length: Whole = Field(default=12, ge=1, le=LONGEST)
    seed: Whole = Field(default=0, ge=0, lt=2**53)  # a JavaScript number


class Pair(BaseModel):
    """A source and its right target."""

    source: list[str]
    target: list[str]


class Run(BaseModel):
    """A model to run on an input."""

    model_config = ConfigDict(extra="forbid", strict=True)
    model: Name
    input: str = Field(max_length=MOST_CHARACTERS, description="a source as the model reads text")
    target: Symbols | None = Field(
        default=None, max_length=2 * LONGEST + 50,
        description="the right one; marks the errors. By default that of the model's task",
    )  # fmt: skip


class Wish(Run):
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
    )
    app.add_middleware(SizeLimit, largest=LARGEST_REQUEST)
    app.add_middleware(Guard, hosts=list(hosts))  # the last one added is the first to be met
    _answer_problems(app)
    tasks = {name: make() for name, make in TASKS.items()}
    listed = Models(
        models=[_describe(entry, tasks) for entry in models.values()],
        tasks=[TaskInfo(name=name, summary=task.summary) for name, task in tasks.items()],
        longest=LONGEST,
        docs=list(pages := local_docs()),
    )
    computing = Lock()  # threads of torch and Python would only get in each other's way
    drawing = Lock()  # matplotlib's settings are the process's
    wrong: dict[int | str, dict[str, Any]] = {
        code: {"model": Problem, "description": text}
        for code, text in (
            (404, "no such model or task"),
            (413, f"more than {LARGEST_REQUEST} bytes"),
            (422, "the request is not as described"),
        )
    }

    @app.get("/", response_class=HTMLResponse, summary="The page")
    def index() -> HTMLResponse:
        return HTMLResponse(page.served_page())

    @app.get("/favicon.ico", include_in_schema=False)  # browsers ask for it
    def no_icon() -> Response:
        return Response(status_code=204)

    @app.get("/api/models", summary="What can be asked for")
    def list_models() -> Models:
        return listed

    @app.get("/docs/{name}", summary="A page of the documentation", responses=wrong)
    def read_docs(name: Name) -> Response:
        if name not in pages:
            raise HTTPException(404, _unknown("page", name, pages))
        content, media_type = pages[name]
        return Response(content, media_type=f"{media_type}; charset=utf-8")

    @app.post("/api/generate", summary="An example of a task", responses=wrong)
    def generate_example(wanted: Wanted) -> Pair:
        if wanted.task not in tasks:
            raise HTTPException(404, _unknown("task", wanted.task, tasks))
        with computing:
            drawn = generate(wanted.task, wanted.length, wanted.seed)
        return Pair(source=list(drawn.source), target=list(drawn.target or ()))

    @app.post(
        "/api/trace", summary="Run a model and tell what its memory did",
        responses={**wrong, 200: {"content": {"application/json": {"schema": {"type": "object"}}}}},
    )  # fmt: skip
    def trace_model(run: Run) -> JSONResponse:
        return JSONResponse(page.page_data(told(run)))

    @app.post(
        "/api/export", summary="The same as a file",
        responses={**wrong, 200: {"content": {kind: {} for kind in MEDIA_TYPES.values()}}},
    )  # fmt: skip
    def export_trace(wish: Wish) -> Response:
        found = told(wish)
        with drawing:
            data = FORMATS[f".{wish.kind}"](found)
        return Response(data, media_type=MEDIA_TYPES[wish.kind])

    def told(run: Run) -> Trace:
        if run.model not in models:
            raise HTTPException(404, _unknown("model", run.model, models))
        entry = models[run.model]
        source = tuple(source_symbols(entry.model, run.input))
        if len(source) > LONGEST:
            raise InputError(f"the input has {len(source)} symbols, expected at most {LONGEST}")
        target = None if run.target is None else tuple(run.target)
        task = entry.task if entry.task in tasks else None
        example = Example(source, target).judged_by(task)
        with computing:
            return trace(entry.model, example, name=entry.name, task=task)

    return app


def _answer_problems(app: FastAPI) -> None:
    """Everything that goes wrong is answered with {"error": what and what was expected}."""

    @app.exception_handler(InputError)
    def input_error(request: Request, error: InputError) -> JSONResponse:
        return problem(422, str(error))

    @app.exception_handler(RequestValidationError)
    def not_as_described(request: Request, error: RequestValidationError) -> JSONResponse:
        return problem(422, "; ".join(_explain(one) for one in error.errors()[:3]))

    @app.exception_handler(HTTPException)
    def http_error(request: Request, error: HTTPException) -> JSONResponse:
        if error.status_code == 400:  # FastAPI's answer to a body that is no text at all
            return problem(422, "the request is not JSON in UTF-8")
        answer = problem(error.status_code, str(error.detail))
        answer.headers.update(error.headers or {})
        return answer


def problem(status: int, text: str) -> JSONResponse:
    """An error as JSON. Half a surrogate pair is valid in JSON and cannot be sent as UTF-8."""
    clean = text.encode("utf-8", "backslashreplace").decode()
    return JSONResponse({"error": clean}, status_code=status)


def _explain(error: Mapping[str, Any]) -> str:
    place = ".".join(str(part) for part in error["loc"][1:])
    if error["type"] == "json_invalid":
        return f"the request is not JSON: {error.get('ctx', {}).get('error', error['msg'])}"
    return f"{place or 'the request'}: {error['msg']}"


def _unknown(what: str, name: str, known: Mapping[str, Any]) -> str:
    names = ", ".join(known) or "none"
    return f"unknown {what} {name!r}{did_you_mean(name, known)} ({what}s: {names})"


def _describe(entry: Entry, tasks: Mapping[str, Task]) -> ModelInfo:
    vocabulary, form = entry.model.vocabulary, entry.model.text
    symbols = [one for one in vocabulary.source if one not in (vocabulary.unknown, " ")]
    separator = "" if form is not None and form.source == "chars" else " "
    fitting = [
        name for name, task in tasks.items()
        if form is None and set(task.vocabulary.source) <= {*vocabulary.source}
    ]  # fmt: skip
    return ModelInfo(
        name=entry.name,
        memory=entry.model.config.memory,
        task=entry.task if entry.task in fitting else None,
        tasks=fitting,
        parameters=sum(parameter.numel() for parameter in entry.model.parameters()),
        symbols=len(symbols),
        separator=separator,
        example=separator.join(symbols[:4]),
    )
