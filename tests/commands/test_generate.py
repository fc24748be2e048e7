"""`pushpop generate`, and the other commands with a language model."""

import json
from math import log
from pathlib import Path

import pytest

from pushpop import LanguageModel
from pushpop.cli import main
from pushpop.commands import models
from tests.training.test_lines import TINY, nested


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that is trained on nested brackets."""
    folder = tmp_path_factory.mktemp("lines") / "run"
    LanguageModel.fit(nested(200), run=folder, **{**TINY, "epochs": 4})
    return folder


def test_lines_are_written_one_by_one(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["generate", str(run), "--count", "20", "--seed", "3", "--max-length", "40"])
    lines = capsys.readouterr().out.splitlines()
    model = LanguageModel.from_pretrained(run)
    assert lines == model.generate(20, seed=3, max_length=40)


def test_lines_begin_with_a_prefix_and_say_how_many_are_cut_off(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["generate", str(run), "-n", "9", "--prefix", "(x(x(x", "--max-length", "7"])
    shown = capsys.readouterr()
    assert all(line.startswith("(x(x(x") for line in shown.out.splitlines())
    assert "of 9 lines are cut off at 7 symbols" in shown.err


def test_how_far_it_is_is_told_on_stderr(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "SECONDS", 0)
    main(["generate", str(run), "-n", "3", "--max-length", "1"])
    shown = capsys.readouterr()
    assert len(shown.out.splitlines()) == 3
    told = shown.err.splitlines()
    assert told[0].startswith("pushpop: 1 of 3 lines, about ")
    assert "of 3 lines" in told[-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prefix", "(y"], "prefix: unknown symbol 'y'"),
        (["--temperature", "0"], "temperature is '0', expected a number above 0"),
        (["--top-p", "2"], "top_p is 2.0, expected a number above 0, 1 at most"),
        (["--unique", "--max-length", "1", "--count", "9"], "RUN: 4 different lines among"),
    ],
)
def test_what_cannot_be_generated_is_refused_in_a_line(
    run: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["generate", str(run), *arguments])
    assert stopped.value.code == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert told.startswith(f"pushpop: {message}".replace("RUN", str(run)))


def test_a_model_of_another_form_does_not_generate(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["generate", "reverse-stack"])
    assert "reverse-stack: a transducer, expected a language model" in capsys.readouterr().err


def test_the_perplexity_of_a_file_is_that_of_its_lines(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "test.txt"
    path.write_text("(x)\n(x(x))\n")
    main(["evaluate", str(run), str(path), "--as-json"])
    figures = json.loads(capsys.readouterr().out)
    model = LanguageModel.from_pretrained(run)
    total = -sum(model.log_probability(["(x)", "(x(x))"]))
    assert (figures["lines"], figures["symbols"]) == (2, 11)
    assert figures["nats_a_line"] == pytest.approx(total / 2, rel=1e-5)
    assert log(figures["perplexity"]) == pytest.approx(total / 11, rel=1e-5)
    assert figures["bits"] == pytest.approx(total / 11 / log(2), rel=1e-5)
    main(["evaluate", str(run), str(path)])
    shown = capsys.readouterr().out
    assert "2 lines, 11 symbols, ends included" in shown
    assert f"\nbits a symbol {figures['bits']:9.4f}\n" in shown


def test_a_line_is_traced_as_it_is_read(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "trace.json"
    main(["trace", str(run), "(x(x))", "-o", str(out)])
    assert capsys.readouterr().out.splitlines()[0] == "(x(x))"
    traced = json.loads(out.read_text())
    assert [step["symbol"] for step in traced["steps"][1:]] == list("(x(x))")
    expected = [step["output"]["expected"] for step in traced["steps"]]
    assert expected[:-1] == list("(x(x))")
    assert traced["source"] == []
    main(["trace", str(run), "--seed", "5", "-o", str(out)])
    line = LanguageModel.from_pretrained(run).generate(1, seed=5)[0]
    assert capsys.readouterr().out.splitlines()[0] == line


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["transduce", "RUN"], "a language model has no source: expected pushpop generate"),
        (["evaluate", "RUN"], "expected lines to test it on, as in pushpop evaluate"),
        (["trace", "RUN", "(y)"], "input: unknown symbol 'y'"),
        (["trace", "RUN", "(x)", "--target", "x"], "expected neither --target nor --task"),
    ],
)
def test_what_a_language_model_cannot_do_is_said_in_a_line(
    run: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([part.replace("RUN", str(run)) for part in arguments])
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
