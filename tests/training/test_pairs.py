"""Training on a file of pairs: epochs, validation, the best model, and exact resume."""

import json
from pathlib import Path
from typing import Any

import pytest

from pushpop import Transducer
from pushpop.errors import InputError
from pushpop.training import TrainConfig, train
from pushpop.training.data import PairsFileData, make_data
from pushpop.training.run import default_directory, load_trained
from pushpop.training.schedule import Progress
from pushpop.training.view import PlainView, View
from tests.training.runs import remains, train_in_parts

TINY: dict[str, Any] = {
    "memory": "queue",
    "embedding": 6,
    "hidden": 8,
    "memory_width": 4,
    "batch_size": 4,
    "epochs": 4,
    "warmup": 3,
    "report_every": 3,
    "checkpoint_every": 5,
    "patience": 0,
}


def write_pairs(folder: Path, name: str = "pairs.tsv", count: int = 30) -> Path:
    path = folder / name
    rows = (f"{n:05b}\t{' '.join('ab'[int(bit)] for bit in f'{n:05b}')}\n" for n in range(count))
    path.write_text("".join(rows))
    return path


def tiny(path: Path, **options: Any) -> TrainConfig:
    return TrainConfig.from_dict({**TINY, "task": str(path), **options})


class Messages(View):
    def __init__(self) -> None:
        self.told: list[str] = []

    def message(self, text: str) -> None:
        self.told.append(text)


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def test_a_file_brings_its_recipe(tmp_path: Path) -> None:
    config = TrainConfig.from_dict({"task": str(write_pairs(tmp_path)), "hidden": 99})
    assert (config.recipe, config.optimiser, config.hidden) == ("pairs", "adam", 99)
    assert TrainConfig.from_dict({"task": "copy"}).recipe == "paper"
    plain = TrainConfig.from_dict({"task": str(tmp_path / "pairs.tsv"), "recipe": "paper"})
    assert plain.optimiser == "rmsprop"


def test_a_run_validates_every_epoch_and_keeps_the_best_model(tmp_path: Path) -> None:
    path, view = write_pairs(tmp_path), Messages()
    report = train(tiny(path, learning_rate=0.02, epochs=12), tmp_path / "run", view)
    assert any("3 pairs are held out to validate on, 27 are trained on" in t for t in view.told)
    assert "pairs.tsv: 30 pairs; source in column 1" in view.told[0]
    validated = {r["step"]: r["valid"] for r in records(tmp_path / "run") if "valid" in r}
    assert list(validated) == [7 * k for k in range(1, 13)]  # 27 pairs in batches of 4
    best = max(validated, key=lambda s: (validated[s]["accuracy"], -validated[s]["perplexity"]))
    assert (report["stopped_by"], report["step"], report["kept_step"]) == ("epochs", 84, best)
    assert report["valid"] == validated[best]
    assert report["epochs"] == 12
    model = Transducer.from_pretrained(tmp_path / "run")
    assert model.text is not None
    assert len(model.transduce(["01010", "11111"])) == 2


def test_the_end_of_a_run_says_how_right_it_is_by_length_and_without_its_memory(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, other = tmp_path / "pairs.tsv", tmp_path / "other.tsv"
    path.write_text("".join(f"{'ab' * n}\t{'ba' * n}\n" for n in range(1, 6)) * 4)
    other.write_text("".join(f"{'ab' * n}\t{'ba' * n}\n" for n in range(2, 10)))
    config = tiny(path, valid=str(other), epochs=2)
    report = train(config, tmp_path / "run", PlainView())
    assert report["trained_lengths"] == [2, 10]
    rows = report["by_length"]
    assert [row["lengths"] for row in rows] == [[4, 6], [8, 10], [12, 14], [16, 18]]
    assert [row["pairs"] for row in rows] == [2, 2, 2, 2]
    assert 0 <= report["without_memory"] <= 1
    printed = capsys.readouterr().out
    assert "trained on sources of 2 to 10 symbols" in printed
    assert "length 16-18" in printed
    assert "without memory" in printed
    alone = train(tiny(path, memory="none", epochs=1), tmp_path / "alone")
    assert "without_memory" not in alone


def test_validation_pairs_can_be_given(tmp_path: Path) -> None:
    path, other = write_pairs(tmp_path), write_pairs(tmp_path, "other.tsv", 5)
    view = Messages()
    report = train(tiny(path, valid=str(other), epochs=1), tmp_path / "run", view)
    assert report["valid"]["pairs"] == 5
    assert not any("held out" in text for text in view.told)
    assert any("other.tsv: 5 pairs" in text for text in view.told)


def test_a_target_that_cannot_be_spelt_counts_as_wrong(tmp_path: Path) -> None:
    path, other = write_pairs(tmp_path), tmp_path / "other.tsv"
    other.write_text("0\ta\n1\tz z\n")
    data = make_data(tiny(path, valid=str(other)))
    assert isinstance(data, PairsFileData)
    assert data.tested.spellable.tolist() == [True, False]


@pytest.mark.parametrize("stop", [3, 9, 14])
def test_a_run_stopped_anywhere_goes_on_bit_for_bit(
    stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(
        write_pairs(tmp_path), dropout=0.3, encoder="bidirectional", attention=True, plateau=1
    )
    train(config, tmp_path / "whole")
    train_in_parts(config, tmp_path / "parts", stop, monkeypatch)
    assert remains(tmp_path / "parts") == remains(tmp_path / "whole")


def test_patience_ends_a_run_and_a_plateau_halves_the_rate() -> None:
    config = TrainConfig(plateau=2, learning_rate=0.1)
    progress = Progress.start(config, epoch=5)
    for accuracy, perplexity, is_best, waited, rate in (
        (0.0, 9.0, True, 0, 0.1),
        (0.0, 8.0, True, 0, 0.1),  # as many right, and surer
        (0.5, 9.0, True, 0, 0.1),
        (0.5, 9.0, False, 1, 0.1),
        (0.4, 1.0, False, 2, 0.05),
        (0.4, 1.0, False, 3, 0.05),
        (0.4, 1.0, False, 4, 0.025),
        (0.6, 9.0, True, 0, 0.025),
    ):
        progress.step += 5
        assert progress.validated(config, accuracy, perplexity) == is_best
        assert (progress.waited, progress.rate) == (waited, rate)
    assert progress.best_step == 40
    assert Progress(**json.loads(json.dumps(progress.to_dict()))) == progress


def test_a_run_without_gains_stops(tmp_path: Path) -> None:
    config = tiny(write_pairs(tmp_path), learning_rate=1e-12, patience=3, epochs=50)
    report = train(config, tmp_path / "run")
    assert (report["stopped_by"], report["waited"]) == ("patience", 3)
    assert report["epochs"] <= 10
    more = train(config.override({"patience": 4}), tmp_path / "run")
    assert (more["stopped_by"], more["waited"]) == ("patience", 4)


def first_rates(config: TrainConfig, batches: int) -> list[float]:
    progress, rates = Progress.start(config), []
    for _ in range(batches):
        rates.append(progress.next_rate(config))
        progress.step += 1
    return rates


def test_the_rate_warms_up() -> None:
    config = TrainConfig(warmup=4, learning_rate=0.4)
    assert first_rates(config, 6) == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.4, 0.4])


def test_the_rate_cools_down_at_the_end_whatever_was_learnt() -> None:
    config = TrainConfig(steps=6, cooldown=4, learning_rate=0.4)
    assert first_rates(config, 6) == pytest.approx([0.4, 0.4, 0.4, 0.3, 0.2, 0.1])
    short = TrainConfig(steps=4, cooldown=10, learning_rate=0.4)
    assert first_rates(short, 4) == pytest.approx([0.4, 0.3, 0.2, 0.1])


def test_a_file_that_has_changed_is_refused(tmp_path: Path) -> None:
    path = write_pairs(tmp_path)
    train(tiny(path, steps=3), tmp_path / "run")
    path.write_text(path.read_text() + "11110\tb b b b a\n")
    with pytest.raises(InputError, match=r"pairs\.tsv: has changed since the run in .* began"):
        train(tiny(path, steps=6), tmp_path / "run")


def test_a_bad_file_leaves_no_run_behind(tmp_path: Path) -> None:
    path = write_pairs(tmp_path)
    path.write_text("a\tx\nb\n")
    with pytest.raises(InputError, match=r"pairs\.tsv:2:2: 1 column, expected 2"):
        train(tiny(path), tmp_path / "run")
    assert not (tmp_path / "run").exists()
    view = Messages()
    path.write_text("a\tx\nb\nc\tz\n")
    train(tiny(path, skip_bad=True, steps=1), tmp_path / "run", view)
    assert any("1 bad row skipped" in text for text in view.told)


def test_an_unfinished_run_is_a_model_that_reads_text(tmp_path: Path) -> None:
    path = write_pairs(tmp_path)
    config = tiny(path, epochs=50)
    train(config.override({"steps": 10}), tmp_path / "run")
    (tmp_path / "run" / "report.json").unlink()
    path.unlink()
    found = load_trained(tmp_path / "run", None, lambda text: None, "latest")
    assert found.model.text is not None
    assert found.model.vocabulary.source == ("<unk>", "0", "1")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"valid": "dev.tsv", "task": "copy"}, "valid is 'dev.tsv' with task 'copy'"),
        ({"columns": "1"}, "columns is '1', expected the numbers"),
        ({"source_symbols": "words"}, "source_symbols is 'words', expected guess, chars, spaces"),
        ({"normalise": "nfd"}, "normalise is 'nfd', expected nfc, nfkc, none"),
        ({"hold_out": 1}, "hold_out is 1.0, expected less than 1"),
        ({"label_smoothing": 1.5}, "label_smoothing is 1.5, expected less than 1"),
        ({"dropout": 1}, "dropout is 1.0, expected a number from 0 to below 1"),
        ({"epochs": -1}, "epochs is -1, expected a whole number of 0 or more"),
    ],
)
def test_options_that_cannot_be_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        TrainConfig.from_dict({"task": "pairs.tsv", **options})
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"curriculum_start": 5}, "curriculum_start is 5 with the file pairs.tsv: all of its"),
        ({"uniform_lengths": True}, "uniform_lengths is True with the file pairs.tsv: every pair"),
        ({"train_lengths": "2-9"}, "train_lengths is '2-9' with the file pairs.tsv: all of its"),
        ({"test_lengths": "2-9"}, "test_lengths is '2-9' with the file pairs.tsv: it is tested"),
        ({"evaluate_every": 5}, "evaluate_every is 5 with the file pairs.tsv: it is validated"),
        ({"evaluate_sequences": 5}, "evaluate_sequences is 5 with the file pairs.tsv: all pairs"),
        ({"starts": "seed=1; seed=2"}, "starts is 'seed=1; seed=2' with the file pairs.tsv: a"),
    ],
)
def test_options_that_mean_nothing_for_a_file_are_refused(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        TrainConfig.from_dict({"task": "pairs.tsv", **options})
    assert message in str(caught.value)
    with pytest.raises(InputError) as caught:
        TrainConfig("pairs.tsv").override(options)
    assert message in str(caught.value)
    saved = {**TrainConfig("pairs.tsv").to_dict(), **options}  # earlier versions took them
    assert TrainConfig.from_saved(saved).to_dict() == saved


def test_our_recipe_takes_files_without_a_race(tmp_path: Path) -> None:
    path = write_pairs(tmp_path)
    config = TrainConfig(str(path), recipe="pushpop")
    assert (config.starts, config.curriculum_start, config.uniform_lengths) == ("", 0, False)
    assert config.train_lengths == TrainConfig().train_lengths
    assert min(config.gate_noise, config.controller_noise, config.guard, 1 - config.decay) > 0
    report = train(tiny(path, recipe="pushpop", steps=3), tmp_path / "run")
    assert (report["stopped_by"], report["step"]) == ("steps", 3)


def test_on_a_file_noise_and_decay_go_by_validation() -> None:
    config = TrainConfig(gate_noise=1, noise_rise=2, decay=0.5, learning_rate=1, window=1)
    progress = Progress.start(config, epoch=3)
    noise, rates = [], []
    for perplexity in (9.0, 1.05, 9.0):
        progress.validated(config, 0.5, perplexity)
        for _ in range(3):
            progress.after_batch(config, 2.0, 1)  # in training it is large: dropout
            noise.append(progress.noise_share(config))
            rates.append(progress.rate)
    assert noise == [0, 0, 0, 0.5, 1, 1, 1, 1, 1]
    assert rates == [1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5]


def test_a_model_is_steady_that_is_as_sure_as_label_smoothing_wants_it() -> None:
    progress = Progress.start(TrainConfig(), epoch=3, choices=30)
    progress.valid_perplexity = 1.15
    assert progress.is_steady(TrainConfig(label_smoothing=0.1))  # at best 1.107
    assert not progress.is_steady(TrainConfig())


def test_of_equal_accuracies_the_later_weights_are_kept_once_there_is_noise() -> None:
    for noise, kept in ((0.0, 20), (1.0, 40)):
        config = TrainConfig(gate_noise=noise, noise_rise=10, window=1)
        progress = Progress.start(config, epoch=10)
        waited = []
        for perplexity in (1.02, 1.01, 1.05, 1.03):
            for _ in range(10):
                progress.after_batch(config, 0.01, 1)
            progress.validated(config, 1.0, perplexity)
            waited.append(progress.waited)
        assert progress.best_step == kept
        assert progress.best_valid == [1.0, 1.01]
        assert waited == [0, 0, 1, 2]


def test_where_nothing_is_right_the_smaller_perplexity_is_kept_even_under_noise() -> None:
    config = TrainConfig(gate_noise=1, window=1)
    progress = Progress.start(config, epoch=1)
    for perplexity in (1.02, 1.01, 1.05):
        progress.after_batch(config, 0.01, 1)
        progress.validated(config, 0.0, perplexity)
    assert progress.best_step == 2


def test_patience_waits_while_noise_rises() -> None:
    config = TrainConfig(gate_noise=1, noise_rise=25, window=1)
    progress = Progress.start(config, epoch=10)
    waited = []
    for perplexity in (1.01, 1.02, 1.02, 1.02, 1.02):
        progress.validated(config, 1.0, perplexity)
        waited.append(progress.waited)
        for _ in range(10):
            progress.after_batch(config, 0.01, 1)
    assert waited == [0, 0, 0, 1, 2]


SEEN = "validation pairs are also training pairs: validation accuracy says little about new ones"


def told(path: Path, **options: Any) -> list[str]:
    """The warnings about a file."""
    lines = PairsFileData(tiny(path, **options)).messages()
    return [line.removeprefix("warning: ") for line in lines if line.startswith("warning: ")]


def test_nothing_is_warned_of_in_a_good_file(tmp_path: Path) -> None:
    assert told(write_pairs(tmp_path)) == []
    few = PairsFileData(tiny(write_pairs(tmp_path), hold_out=0.01)).messages()[1]
    assert few.startswith("no --valid given: 1 pair is held out to validate on, ")
    assert told(write_pairs(tmp_path), valid=str(write_pairs(tmp_path, "v.tsv", 1))) == [
        f"1 of the 1 {SEEN}"
    ]


def test_a_few_shared_pairs_are_told_in_proportion(tmp_path: Path) -> None:
    path, valid = tmp_path / "pairs.tsv", tmp_path / "valid.tsv"
    path.write_text("".join(f"{n}\tx\n" for n in range(100)))
    valid.write_text("".join(f"{n}\tx\n" for n in range(98, 140)))
    (warning,) = told(path, valid=str(valid))
    assert warning.startswith("2 of the 42 validation pairs are also training pairs: validation ")
    assert warning.endswith(" accuracy is 4.8% too high at most")


def test_a_pair_too_long_for_the_machine_is_refused_before_training(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    long = "ab" * 20_000
    path.write_text(f"{long}\t{long}\n" + "ab\tba\n" * 50)
    with pytest.raises(InputError) as caught:
        PairsFileData(tiny(path, attention=True, hold_out=0.02, batch_size=64, seed=1))
    assert str(caught.value).startswith(f"{path}: the longest pair has 40,000 source and 40,000")
    assert "or try a smaller --batch-size or --attention false" in str(caught.value)


def test_a_column_that_is_dropped_is_warned_of_unless_it_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "three.tsv"
    path.write_text("".join(f"{n}\t{n}\tseen {n}\n" for n in range(10)))
    assert told(path) == [
        f"{path}: column 3 is not used; give --columns 1,2 if that is meant, or the columns to use"
    ]
    assert told(path, columns="1,2") == []
    path.write_text("".join(f"{n}\t{n}\tA;B\tseen\tx\n" for n in range(10)))
    assert "columns 4, 5 are not used; give --columns 1,2,3 if" in told(path)[0]


def test_pairs_that_are_repeated_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "same.tsv"
    path.write_text("a\tb\n" * 60)
    assert told(path) == [
        f"{path}: 1 of 60 pairs are distinct, the rest repeat",
        f"6 of the 6 {SEEN}",
    ]
    path.write_text("".join(f"{n % 19}\tx\n" for n in range(20)))  # now and then is nothing
    assert not any("are distinct" in line for line in told(path))


def test_a_packed_file_and_one_with_commas_are_trained_on(tmp_path: Path) -> None:
    import gzip

    plain = write_pairs(tmp_path)
    packed, commas = tmp_path / "packed.tsv.gz", tmp_path / "commas.csv"
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    commas.write_bytes(b"source,target\n" + plain.read_bytes().replace(b"\t", b","))
    reports = [
        train(tiny(path, epochs=1), tmp_path / name)
        for name, path in (("plain", plain), ("packed", packed), ("commas", commas))
    ]
    assert reports[0]["valid"] == reports[1]["valid"] == reports[2]["valid"]
    packed.write_bytes(gzip.compress(b"a\tb\n" * 2000))
    assert TrainConfig(str(packed)).batch_size == 32
    assert default_directory(TrainConfig(str(packed))) == "runs/packed-deque-seed0"
