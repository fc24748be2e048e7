"""`pushpop trace` and `pushpop serve` as a user meets them."""

import json
import re
import shlex
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pushpop import Tagger, Transducer, TransducerConfig
from pushpop.cli import main
from pushpop.models.saving import shipped_models
from pushpop.tasks import Vocabulary, get_task
from pushpop.viewer.export import export
from pushpop.viewer.tracing import Example, open_models, trace
from tests.models.examples import lively_model
from tests.viewer.models import random_model, text_model


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two saved models in the working directory: `mine`, with a queue, and `plain`, without."""
    monkeypatch.chdir(tmp_path)
    random_model("queue").save_pretrained("mine")
    random_model("none").save_pretrained("plain")
    return tmp_path


@pytest.mark.parametrize("kind", ["html", "png", "svg", "gif", "json"])
def test_trace_writes_the_kind_of_file_that_is_asked_for(
    folder: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    main(["trace", "mine", "a1 a2 a3", "-o", f"out.{kind}"])
    said = random_model("queue").transduce(["a1 a2 a3"])[0]
    printed = capsys.readouterr().out
    assert printed.startswith(f"a1 a2 a3 ||| {said}  (expected a1 a2 a3)\n")
    assert printed.endswith(f"wrote out.{kind}\n")
    starts = {"html": b"<!doctype html>", "png": b"\x89PNG", "svg": b"<?xml", "json": b'{"format"',
              "gif": b"GIF89a"}  # fmt: skip
    assert (folder / f"out.{kind}").read_bytes().startswith(starts[kind])


def test_a_models_own_way_of_writing_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    model = text_model()
    model.save_pretrained("mine")
    main(["trace", "mine", "abca", "-o", "out.json"])
    assert capsys.readouterr().out.startswith(f"abca ||| {model.transduce(['abca'])[0]}\n")
    told = json.loads((tmp_path / "out.json").read_text())
    assert told["source"] == ["a", "b", "c", "a"]
    assert told["separators"] == ["", ""]


def test_trace_draws_a_source_of_the_models_task(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["trace", "mine", "--length", "5", "--seed", "2", "-o", "out.json"])
    told = json.loads((folder / "out.json").read_text())
    main(["sample", "copy", "-n", "1", "--lengths", "5", "--seed", "2"])
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == f"{' '.join(told['source'])} ||| {' '.join(told['target'])}"
    assert "(expected " in printed[0]
    assert told["right"] is False


def test_a_model_without_a_memory_is_run_but_not_traced(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["trace", "plain", "a1"])
    assert left.value.code == 2
    printed = capsys.readouterr()
    assert printed.out.startswith("a1 ||| ")
    assert "plain: the model has no memory, so there is nothing to trace" in printed.err
    assert not (folder / "trace.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("trace min", "min: no such folder, and no model of that name"),
        ("trace mine 'a1 b'", "unknown source symbol"),
        ("trace mine a1 -o out.pdf", "out.pdf: expected a name that ends in .html, .png, .svg,"),
        ("trace mine a1 -o no/out.json", "no: no such folder to write out.json into"),
        ("trace mine --task revrese", "did you mean 'reverse'?"),
        ("trace mine --length 0", "lengths 0-0: expected"),
        ("trace mine --target a1", "--target is the answer to an INPUT"),
        ("trace", "model"),
        ("serve nobody", "nobody: no such folder"),
        ("serve mine --port 70000", "port 70000: expected"),
        ("serve mine --host no.such.host.invalid", "host 'no.such.host.invalid'"),
    ],
)
def test_a_mistake_is_one_line(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: str, message: str
) -> None:
    with pytest.raises(SystemExit) as left:
        main(shlex.split(arguments))
    assert left.value.code == 2
    printed = capsys.readouterr()
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_the_same_trace_gives_the_same_bytes(tmp_path: Path) -> None:
    told = trace(lively_model("deque"), Example(tuple("abc"), ("x",)), name="m", max_length=3)
    for kind in ("html", "svg", "png", "json"):
        for name in ("one", "two"):
            export(told, tmp_path / f"{name}.{kind}")
        assert (tmp_path / f"one.{kind}").read_bytes() == (tmp_path / f"two.{kind}").read_bytes()


def test_a_dollar_is_a_symbol_like_any_other(tmp_path: Path) -> None:
    symbols = ("$", "$x", "a_b", "^", "\\")
    config = TransducerConfig(memory="stack", hidden=4, memory_width=4, embedding=4)
    model = Transducer(config, Vocabulary(symbols, symbols))
    told = trace(model, Example(symbols, symbols), max_length=5)
    export(told, tmp_path / "out.png")
    export(told, tmp_path / "out.svg")


def test_models_of_the_same_name_are_told_apart(folder: Path) -> None:
    random_model("stack").save_pretrained(folder / "other" / "mine")
    assert list(open_models(["mine", "other/mine", "mine"])) == ["mine", "mine-2", "mine-3"]


def test_without_names_the_shipped_models_are_opened() -> None:
    opened = open_models([])
    assert list(opened) == list(shipped_models())
    for entry in opened.values():
        assert trace(entry.model, Example(())).source == ()


@contextmanager
def serving(*arguments: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "pushpop.cli", "serve", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as server:
        try:
            yield server
        finally:
            server.kill()


@pytest.mark.slow
def test_serve_says_where_answers_and_stops_at_ctrl_c(folder: Path) -> None:
    config = TransducerConfig(memory="stack", hidden=4, memory_width=4, embedding=4)
    Tagger(config, Vocabulary(("a", "b"), ("x",))).save_pretrained("labels")
    Tagger(config, get_task("chomsky/reverse").vocabulary).save_pretrained("answers")
    with serving("mine", "labels", "answers", "--port", "0") as server:
        assert server.stdout is not None
        address = re.match(r"http://127\.0\.0\.1:\d+", server.stdout.readline())
        assert address
        with urllib.request.urlopen(f"{address[0]}/api/models", timeout=60) as answer:
            names = [model["name"] for model in json.load(answer)["models"]]
        assert names == ["mine", "labels", "answers"]
        server.send_signal(signal.SIGINT)
        _, problems = server.communicate(timeout=60)
    assert server.returncode in (0, 130)
    assert "Traceback" not in problems


def test_more_hosts_can_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[object, ...]] = []
    monkeypatch.setattr("pushpop.viewer.server.listen", lambda *given: asked.append(given))
    main(["serve", "mine", "--allow-host", "viewer.example,10.0.0.7"])
    assert asked == [(["mine"], "127.0.0.1", 8000, ["viewer.example", "10.0.0.7"], "cpu")]


def test_a_port_in_use_is_reported(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SystemExit) as left:
            main(["serve", "mine", "--port", str(port)])
    assert left.value.code == 2
    assert f"127.0.0.1:{port}: Address already in use; choose another" in capsys.readouterr().err
