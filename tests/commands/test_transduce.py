"""`pushpop transduce` as it is met: in a terminal, behind a slow pipe, on files; beside `trace`."""

import gzip
import io
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from pushpop import Transducer
from pushpop.cli import main
from tests.commands.test_pairs import SMALL, refused

pty = pytest.importorskip("pty")
COMMAND = [sys.executable, "-m", "pushpop.cli", "transduce", "reverse-stack"]
PATIENCE = 120
"""Seconds until something that is due has come, on a machine with much else to do."""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("words")
    rows = (f"{n:04b}\t{' '.join(f'{n:04b}')}\n" for n in range(16))
    (folder / "pairs.tsv").write_text("".join(rows))
    main(["train", str(folder / "pairs.tsv"), "--run", str(folder / "run"), *SMALL])
    return folder / "run"


class Terminal:
    """A command in a terminal of its own."""

    def __init__(self, **environment: str) -> None:
        self.ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            COMMAND, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
            env={**os.environ, "TERM": "dumb", **environment},
        )  # fmt: skip
        os.close(theirs)

    def read_to(self, mark: bytes) -> str:
        """What is shown up to a mark."""
        shown, due = b"", time.monotonic() + PATIENCE
        while mark not in shown and time.monotonic() < due:
            if select.select([self.ours], [], [], 1)[0]:
                try:
                    shown += os.read(self.ours, 1000)
                except OSError:  # the other side is closed
                    break
        assert mark in shown, shown
        return shown.decode()

    def type(self, text: bytes) -> None:
        """Press some keys."""
        os.write(self.ours, text)


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    found = Terminal()
    yield found
    found.process.kill()
    found.process.wait()
    os.close(found.ours)


@pytest.mark.slow
def test_in_a_terminal_every_line_is_answered_when_it_is_typed(terminal: Terminal) -> None:
    shown = terminal.read_to(b"\n> ")
    assert "reverse-stack reads symbols between spaces, as in a1 a2 a3; Ctrl-D ends" in shown
    terminal.type(b"a1 a2 a3\n")
    assert terminal.read_to(b"\n> ").split("\r\n")[1] == "a3 a2 a1"
    terminal.type(b"a1 \xc3\xa9\n")
    shown = terminal.read_to(b"\n> ")
    assert "pushpop: input: unknown source symbol" in shown
    assert "Traceback" not in shown
    terminal.type(b"\n")
    terminal.read_to(b"> ")
    terminal.type(b"a7\n")
    assert terminal.read_to(b"\n> ").split("\r\n")[1] == "a7"
    terminal.type(b"\x04")
    assert terminal.process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_a_slow_pipe_is_answered_line_by_line() -> None:
    with subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line, answer in ((b"a1 a2\n", b"a2 a1\n"), (b"\n", b"\n"), (b"a3 a4\n", b"a4 a3\n")):
            process.stdin.write(line)
            process.stdin.flush()
            assert select.select([process.stdout], [], [], PATIENCE)[0]
            assert process.stdout.readline() == answer
        process.stdin.close()
        assert process.wait(PATIENCE) == 0


def test_a_file_is_read_packed_or_not(
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = Transducer.from_pretrained(run).transduce(["0101", "11"])
    plain, packed = tmp_path / "words.txt", tmp_path / "words.txt.gz"
    plain.write_bytes(b"0101\n\n11\n")
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    for path in (plain, packed):
        capsys.readouterr()
        main(["transduce", str(run), str(path)])
        assert capsys.readouterr().out == f"{answers[0]}\n\n{answers[1]}\n"
    with open(packed, encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        main(["transduce", str(run)])
    assert capsys.readouterr().out == f"{answers[0]}\n\n{answers[1]}\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO()))
    main(["transduce", str(run)])
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("gone.txt", None, "gone.txt: no such file; expected a file of sources"),
        ("words.csv", b"a,b\n", "words.csv: a .csv file; expected text with a source a line"),
        ("words.txt.gz", b"0101\n", "words.txt.gz: its name ends in .gz, and it is no gzip file"),
        (
            "words.txt.gz",
            gzip.compress(b"01\n", mtime=0)[:-9],
            "a gzip file that is cut off or damaged",
        ),
        ("words.txt", b"01\n0\xff\n", "words.txt:2:2: byte 0xff at offset 4 is not UTF-8"),
        ("words.txt", b"01\n\t\n", "words.txt:2: '\\t': a tab"),
    ],
)
def test_a_bad_file_is_named(
    name: str,
    data: bytes | None,
    message: str,
    run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if data is not None:
        (tmp_path / name).write_bytes(data)
    assert message in refused(capsys, "transduce", str(run), str(tmp_path / name))


def test_lines_before_a_bad_one_are_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sources.txt"
    path.write_text("a1 a2\n\na1 a999\na3\n")
    with pytest.raises(SystemExit):
        main(["transduce", "reverse-stack", str(path)])
    printed = capsys.readouterr()
    assert printed.out == "a2 a1\n\n"
    assert "sources.txt:3: unknown source symbol 'a999'" in printed.err


def test_a_line_of_10_000_symbols_is_answered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    symbols = [f"a{100 + n % 28}" for n in range(10_000)]
    (tmp_path / "sources.txt").write_text(" ".join(symbols))
    main(["transduce", "reverse-stack", str(tmp_path / "sources.txt")])
    assert capsys.readouterr().out.split() == symbols[::-1]


@pytest.mark.parametrize(
    ("scale", "what"),
    [
        (float("nan"), "model.safetensors: .* has values that are no numbers: NaN or infinity"),
        (float("inf"), "model.safetensors: .* has values that are no numbers: NaN or infinity"),
        (1e30, "the model's (outputs|gates) are not numbers: its weights are damaged"),
    ],
)
def test_a_model_of_damaged_weights_is_named_by_every_command(
    scale: float, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, folder = Transducer.from_pretrained("reverse-stack"), str(tmp_path / "model")
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(scale)
    model.save_pretrained(folder)
    (tmp_path / "sources.txt").write_text("a1 a2\n")
    sources = str(tmp_path / "sources.txt")
    for arguments in (
        ["transduce", folder, sources],
        ["transduce", folder, sources, "--nbest", "2"],
        ["evaluate", folder, "--lengths", "4", "--sequences", "3"],
        ["trace", folder, "a1 a2", "-o", str(tmp_path / "trace.json")],
    ):
        assert re.search(f"{folder}.*{what}", refused(capsys, *arguments)), arguments
    assert re.search(f"model.*{what}", refused(capsys, "serve", folder, "--port", "0"))
    assert not (tmp_path / "trace.json").exists()


def test_trace_refuses_what_it_cannot_write_or_draw_before_it_works(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "missing" / "trace.html"
    assert f"{path.parent}: no such folder to write trace.html into" in refused(
        capsys, "trace", "reverse-stack", "a1", "-o", str(path)
    )
    told = refused(
        capsys, "trace", "reverse-stack", "--length", "10000", "-o", str(tmp_path / "t.html")
    )
    assert "the source has 10,000 symbols, expected at most 2,000 to draw every step" in told


@pytest.mark.parametrize("text", ["a1 foo", "a\u0301 a1", "a1\x07"])
def test_trace_refuses_what_transduce_refuses_in_the_same_words(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    traced = refused(capsys, "trace", "reverse-stack", text, "-o", str(tmp_path / "trace.json"))
    path = tmp_path / "sources.txt"
    path.write_text(f"{text}\n", "utf-8")
    told = refused(capsys, "transduce", "reverse-stack", str(path))
    assert traced.startswith("pushpop: input:")
    assert traced.replace("input:", f"{path}:1:") == told
    assert not (tmp_path / "trace.json").exists()


def test_trace_answers_unknown_symbols_as_transduce_does(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "words.txt").write_text("01ñ\n", "utf-8")
    capsys.readouterr()
    main(["transduce", str(run), str(tmp_path / "words.txt")])
    printed = capsys.readouterr()
    unread = "01ñ".encode().decode("ascii", "surrogateescape")  # as an argument in a C locale
    main(["trace", str(run), unread, "-o", str(tmp_path / "trace.json")])
    traced = capsys.readouterr()
    assert printed.err == traced.err == "pushpop: 1 symbol is unknown to the model: 'ñ' (1)\n"
    assert traced.out.startswith(f"01ñ ||| {printed.out.rstrip()}")
    told = refused(capsys, "trace", str(run), "0\udcff", "-o", str(tmp_path / "trace.json"))
    assert "input:2: half a character (U+DCFF)" in told
