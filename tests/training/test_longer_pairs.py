"""Longer pairs tell whether a model carries to longer inputs: those of a file, and given ones."""

from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

from pushpop.errors import InputError
from pushpop.training import TrainConfig, train
from pushpop.training.data import PairsFileData, make_data
from pushpop.training.schedule import Progress
from pushpop.training.view import PlainView
from tests.training.runs import remains, train_in_parts
from tests.training.test_pairs import tiny

ATTENDING: dict[str, Any] = {"encoder": "bidirectional", "attention": True, "skip_attention": 0.5}


def copies(path: Path, count: int, low: int, high: int) -> str:
    """Write pairs of equal sides."""
    rng = Random(0)
    words = ("".join(rng.choices("abcd", k=rng.randint(low, high))) for _ in range(count))
    path.write_text("".join(f"{word}\t{word}\n" for word in words))
    return str(path)


def config_on(folder: Path, **options: Any) -> TrainConfig:
    file = copies(folder / "pairs.tsv", 600, 1, 10)
    return tiny(file, **{"hold_out": 0.2, "shorter_first": 5, **options})


def test_the_first_batches_are_of_pairs_up_to_a_share_of_the_longest(tmp_path: Path) -> None:
    data = make_data(config_on(tmp_path))
    assert isinstance(data, PairsFileData)
    assert data.trained_to == 6
    steps = [len(batch.inputs) for batch in islice(data.batches((1, 1), 0), 40)]
    assert max(steps[:5]) <= 2 * 6 + 2 < max(steps[5:])  # both sides, and two signs


def test_a_resumed_stream_of_batches_is_the_same(tmp_path: Path) -> None:
    data = make_data(config_on(tmp_path))
    whole = list(islice(data.batches((1, 1), 0), 9))
    for start in (3, 5, 7):
        batch = next(data.batches((1, 1), start))
        assert batch.inputs.equal(whole[start].inputs)


def test_what_the_longer_pairs_told_is_in_the_log_the_report_and_on_the_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = train(config_on(tmp_path, **ATTENDING, epochs=1), tmp_path / "run", PlainView())
    carried = report["carried"]
    assert carried["batches"] == 5
    assert carried["trained_to"] == 6
    assert carried["lengths"] == [7, 10]
    assert carried["pairs"] > 100
    assert {"shorter", "longer", "without_attention"} <= carried.keys()
    assert '"carried"' in (tmp_path / "run" / "metrics.jsonl").read_text()
    said = "after 5 batches on sources of up to 6 symbols: 0% right on such sources, 0% on longer"
    assert capsys.readouterr().out.count(said) == 2


@pytest.mark.parametrize("stop", [4, 5, 6])
def test_a_run_stopped_around_that_moment_goes_on_bit_for_bit(
    stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = config_on(tmp_path, **ATTENDING, epochs=1)
    train(config, tmp_path / "whole")
    train_in_parts(config, tmp_path / "parts", stop, monkeypatch, saves=True)
    assert remains(tmp_path / "parts") == remains(tmp_path / "whole")


def test_few_pairs_are_all_trained_on_from_the_start(tmp_path: Path) -> None:
    file = copies(tmp_path / "few.tsv", 40, 1, 10)
    report = train(tiny(file, shorter_first=5, epochs=1), tmp_path / "run")
    assert "carried" not in report


@pytest.mark.parametrize(("alone", "share"), [(0.0, 0.0), (0.55, 0.0), (0.57, 0.5), (0.8, 0.5)])
def test_attention_is_left_out_further_if_the_memory_alone_has_learnt(
    alone: float, share: float
) -> None:
    config = TrainConfig(attention=True, skip_attention=0.5)
    progress = Progress.start(config, epoch=5)
    assert progress.skipped_attention(config) == 0.5
    progress.carried = {"shorter": 0.8, "without_attention": alone}
    assert progress.skipped_attention(config) == share


def test_patience_begins_after_the_shorter_pairs() -> None:
    config = TrainConfig(plateau=2)
    progress = Progress.start(config, epoch=2)
    progress.shorter_first = 10
    for progress.step in (2, 4, 6, 8, 10):
        progress.validated(config, 0.5, 2.0)
    assert (progress.waited, progress.rate) == (0, config.learning_rate)
    progress.step = 12
    progress.validated(config, 0.5, 2.0)
    assert progress.waited == 1


def test_given_longer_pairs_are_told_of_and_choose_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    longer = copies(tmp_path / "longer.tsv", 50, 20, 30)
    plain = train(config_on(tmp_path, epochs=1), tmp_path / "plain")
    report = train(
        config_on(tmp_path, epochs=1, valid_longer=longer), tmp_path / "run", PlainView()
    )
    assert report["longer"]["lengths"][0] >= 20
    assert report["longer"]["pairs"] == 50
    assert "longer, 20-30" in capsys.readouterr().out
    assert {**report, "longer": 0, "seconds": 0} == {**plain, "longer": 0, "seconds": 0}


@pytest.mark.parametrize("options", [{"valid_longer": "x.tsv"}, {"shorter_first": 5}])
def test_tasks_have_no_longer_pairs(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(InputError, match=f"{name} is .* with task 'copy': expected a file"):
        TrainConfig(**options)


@pytest.mark.parametrize(
    ("options", "memories", "push_bias", "skip_attention"),
    [
        ({}, 2, ((0.0, 0.0), (0.66, -1.61)), 0.5),
        ({"memory": "deque"}, 2, ((0.0, 0.0), (0.66, -1.61)), 0.5),
        ({"memory": "queue"}, 1, None, 0.5),
        ({"push_bias": "drift"}, 1, "drift", 0.5),
        ({"memories": 3}, 3, None, 0.5),
        ({"memory": "none"}, 1, None, 0.0),
        ({"attention": False}, 2, ((0.0, 0.0), (0.66, -1.61)), 0.0),
        ({"form": "tagger"}, 1, None, 0.0),
    ],
)
def test_a_file_has_two_deques_unless_another_memory_or_start_is_asked_for(
    options: dict[str, Any], memories: int, push_bias: Any, skip_attention: float, tmp_path: Path
) -> None:
    config = TrainConfig.from_dict({"task": copies(tmp_path / "a.tsv", 9, 1, 9), **options})
    assert (config.memories, config.skip_attention) == (memories, skip_attention)
    assert config.push_bias == push_bias
