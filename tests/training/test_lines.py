"""Runs that train a language model on a file of lines."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pushpop import LanguageModel, Transducer
from pushpop.errors import InputError
from pushpop.tasks import batch_rng
from pushpop.training import TrainConfig, train
from pushpop.training.view import View

TINY: dict[str, Any] = {
    "embedding": 6, "hidden": 10, "memory_width": 4, "batch_size": 8, "epochs": 2, "dropout": 0.0,
}  # fmt: skip


class RecordingView(View):
    """Keeps the messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


def nested(count: int, seed: int = 0) -> list[str]:
    """Lines such as (x(xx)) with one to six brackets inside each other."""
    depths = 1 + 6 * batch_rng(seed, "nested", 0).random(count)
    return ["(x" * int(depth) + ")" * int(depth) for depth in depths]


def written(folder: Path, lines: list[str], name: str = "lines.txt") -> str:
    data = "".join(f"{line}\n" for line in lines).encode()
    (folder / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(folder / name)


@pytest.mark.parametrize("name", ["lines.txt", "lines.smi", "lines.csv", "lines.txt.gz"])
def test_a_file_with_one_column_is_for_a_language_model(tmp_path: Path, name: str) -> None:
    config = TrainConfig(written(tmp_path, nested(9), name))
    assert (config.form, config.recipe) == ("lm", "lm")
    named = {"form": "transducer", "recipe": "pairs"}
    assert TrainConfig(config.task, **named).form == "transducer"  # type: ignore[arg-type]


def test_a_column_of_several_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, [f"{number},{line}" for number, line in enumerate(nested(9))], "a.csv")
    assert TrainConfig(path).form == "transducer"
    config = TrainConfig(path, form="lm", columns="2", **TINY)
    view = RecordingView()
    train(config, tmp_path / "run", view)
    assert f"{path}: 9 lines; column 2; characters, 3 different ones; NFC" in view.messages


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"form": "lm", "columns": "1,2"}, "columns is '1,2', expected the number of the column"),
        ({"form": "lm", "attention": True}, "attention is true: a language model has no source"),
        ({"form": "tagger", "recipe": "lm"}, "form is 'tagger' with recipe 'lm', expected lm"),
        ({"form": "lm", "cooldown": 5}, "cooldown is 5 with cosine, expected 0"),
    ],
)
def test_options_that_lines_cannot_have_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TrainConfig.from_dict({"task": "lines.txt", **options})


def test_lines_are_not_drawn_from_a_task(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="form is 'lm' with task 'copy': expected a file of lines"):
        train(TrainConfig("copy", form="lm", **TINY), tmp_path / "run")


def test_short_files_are_seen_often_and_long_ones_once(tmp_path: Path) -> None:
    short = TrainConfig(written(tmp_path, ["a"] * 4000), form="lm")
    assert (short.epochs, short.dropout) == (50, 0.2)
    long = TrainConfig(written(tmp_path, ["a"] * 200_000), form="lm")
    assert (long.epochs, long.dropout) == (1, 0.0)


def test_the_rate_falls_along_half_a_cosine(tmp_path: Path) -> None:
    config = TrainConfig(written(tmp_path, nested(80)), report_every=1, hold_out=0.1, **TINY)
    train(config, tmp_path / "run")
    log = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    rates = [json.loads(line)["learning_rate"] / config.learning_rate for line in log]
    assert len(rates) == 18
    assert rates == sorted(rates, reverse=True)
    assert rates[8] == pytest.approx(0.5)  # of the batch after half of them
    assert rates[-1] == pytest.approx(0)


def test_a_run_says_what_it_read_and_validates_by_perplexity(tmp_path: Path) -> None:
    view = RecordingView()
    config = TrainConfig(written(tmp_path, nested(80)), **TINY)
    report = train(config, tmp_path / "run", view)
    assert f"{config.task}: 80 lines; characters, 3 different ones; NFC" in view.messages
    assert "no --valid given: 8 lines are held out to validate on, 72 are trained on" in (
        view.messages
    )
    assert report["valid"].keys() == {"lines", "perplexity", "bits"}
    assert 2 ** report["valid"]["bits"] == pytest.approx(report["valid"]["perplexity"])
    assert report["epochs"] == 2
    model = Transducer.from_pretrained(tmp_path / "run")
    assert isinstance(model, LanguageModel)
    assert model.vocabulary.target == ("(", ")", "x")
    assert len(model.generate(3, seed=0, max_length=20)) == 3


def test_a_symbol_to_validate_on_that_no_line_has_is_named(tmp_path: Path) -> None:
    options = {**TINY, "valid": written(tmp_path, ["(x)", "", "[x]"], "valid.txt")}
    path = written(tmp_path, nested(20))
    with pytest.raises(InputError, match=r"valid.txt:3: unknown symbol '\['"):
        train(TrainConfig(path, **options), tmp_path / "run")
    report = train(TrainConfig(path, skip_bad=True, **options), tmp_path / "run")
    assert report["valid"]["lines"] == 1


def test_a_stopped_run_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    path = written(tmp_path, nested(80))
    options = {**TINY, "checkpoint_every": 4, "report_every": 1}
    train(TrainConfig(path, **options), tmp_path / "whole")

    class Stop(RecordingView):
        def step(self, progress: Any, loss: float) -> None:
            if progress.step == 10:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(TrainConfig(path, **options), tmp_path / "stopped", Stop())
    train(TrainConfig(path, **options), tmp_path / "stopped")
    whole, stopped = (
        (tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "stopped")
    )
    assert whole == stopped


def test_lines_in_memory_are_fitted(tmp_path: Path) -> None:
    model = LanguageModel.fit(nested(80), valid=nested(10, seed=1), memory="stack", **TINY)
    assert isinstance(model, LanguageModel)
    assert model.config.memory == "stack"
    short, wrong = model.log_probability(["(x)", ")x("])
    assert short > wrong
    run = tmp_path / "run"
    LanguageModel.fit(nested(80), run=run, **TINY)
    assert json.loads((run / "report.json").read_text())["valid"]["lines"] == 8
    for lines, message in (
        (["a", ""], "lines: line 1 is '', expected a string with letters"),
        (["a\nb"], "lines: line 0: a line feed"),
        (["a\tb"], "lines: line 0: a tab in"),
        ("ab", "lines is the string 'ab', expected a list of strings"),
        ([], "lines: no lines"),
    ):
        with pytest.raises(InputError, match=message):
            LanguageModel.fit(lines, **TINY)
