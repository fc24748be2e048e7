"""The options of a run: the paper's by default, and refused by name when they make no sense."""

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from pushpop import TransducerConfig
from pushpop.errors import InputError
from pushpop.training import TrainConfig, read_config_file


def test_the_defaults_are_the_papers() -> None:
    config = TrainConfig()
    assert (config.optimiser, config.learning_rate, config.batch_size) == ("rmsprop", 1e-3, 10)
    assert (config.clip, config.rmsprop_alpha, config.epsilon) == (1.0, 0.9, 1e-8)
    assert (config.training_range, config.testing_range) == ((8, 64), (65, 128))
    assert (config.report_every, config.evaluate_every) == (100, 1000)
    assert (config.evaluate_sequences, config.steps) == (1000, 10_000)
    assert (config.decay, config.curriculum_start, config.until_solved) == (1, 0, False)
    assert config.model == TransducerConfig()


def test_every_option_says_what_it_is() -> None:
    for each in fields(TrainConfig):
        assert each.metadata["help"]


def test_text_is_read_as_what_the_option_is() -> None:
    config = TrainConfig(
        memory="deque",
        hidden="1_28",  # type: ignore[arg-type]
        learning_rate="1e-4",  # type: ignore[arg-type]
        until_solved="yes",  # type: ignore[arg-type]
        push_bias="[1, -3]",  # type: ignore[arg-type]
        pop_bias="none",  # type: ignore[arg-type]
        train_lengths="16",
        test_lengths=[20, 30],  # type: ignore[arg-type]
    )
    assert (config.hidden, config.learning_rate, config.until_solved) == (128, 1e-4, True)
    assert (config.push_bias, config.pop_bias) == ((1.0, -3.0), None)
    assert TrainConfig(memory="deque", push_bias="drift").push_bias == "drift"
    two = TrainConfig(memory="deque", memories="2", push_bias="[[0, 0], [0.66, -1.61]]")  # type: ignore[arg-type]
    assert two.push_bias == ((0.0, 0.0), (0.66, -1.61))
    assert TrainConfig.from_dict(two.to_dict()) == two
    assert (config.train_lengths, config.test_lengths) == ("16-16", "20-30")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"task": "revrese"}, "unknown task 'revrese'; did you mean 'reverse'"),
        ({"task": "gone.itg"}, "gone.itg: cannot be read"),
        ({"memory": "stak"}, "memory is 'stak', expected stack, .*, none; did you mean 'stack'"),
        ({"cell": 3}, "cell is 3, expected text"),
        ({"hidden": 0}, "hidden is 0, expected a whole number of 1 or more"),
        ({"hidden": "many"}, "hidden is 'many', expected a whole number"),
        ({"hidden": 2.5}, "hidden is 2.5, expected a whole number"),
        ({"hidden": True}, "hidden is True, expected a whole number"),
        ({"hidden": 10**6}, "hidden is 1000000, expected a whole number from 1 to 65536"),
        ({"memory": "none", "heads": 2}, "heads is 2 with memory 'none'"),
        ({"learning_rate": 0}, "learning_rate is 0, expected a number above 0"),
        ({"learning_rate": "nan"}, "learning_rate is 'nan', expected a number above 0"),
        ({"clip": -1}, "clip is -1, expected a number of 0 or more"),
        ({"decay": 1.5}, "decay is 1.5, expected at most 1"),
        ({"rmsprop_alpha": 2}, "rmsprop_alpha is 2.0, expected at most 1"),
        ({"train_lengths": "64-8"}, "train_lengths: lengths 64-8: expected"),
        ({"test_lengths": "long"}, "test_lengths: lengths 'long': expected"),
        ({"curriculum_start": 65}, "curriculum_start is 65 with train_lengths 8-64"),
        ({"pop_bias": "low"}, "pop_bias is 'low', expected a number"),
        ({"pop_bias": [1, 2]}, "pop_bias of a stack must be one number; got "),
        ({"until_solved": "maybe"}, "until_solved is 'maybe', expected true or false"),
        ({"optimiser": "sgd"}, "optimiser is 'sgd', expected rmsprop, adam"),
        ({"hiden": 3}, "unknown option 'hiden'; did you mean 'hidden'"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused_by_name(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        TrainConfig.from_dict(options)


def test_a_config_comes_back_from_json() -> None:
    config = TrainConfig("reverse", "deque", push_bias=(1, -3), learning_rate=3e-3)
    assert TrainConfig.from_dict(json.loads(json.dumps(config.to_dict()))) == config


def test_a_file_lies_between_the_defaults_and_what_overrides_it(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("memory: queue\nlearning_rate: 1e-4\nhidden: 32\n")
    config = TrainConfig.from_dict(read_config_file(path)).override({"hidden": "64"})
    assert (config.memory, config.learning_rate, config.hidden) == ("queue", 1e-4, 64)
    assert config.embedding == 64


def test_json_and_an_empty_file_are_config_files_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    path.write_text(json.dumps(TrainConfig("flip").to_dict()))
    assert TrainConfig.from_dict(read_config_file(path)) == TrainConfig("flip")
    path.write_text("# nothing\n")
    assert read_config_file(path) == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memry: queue", "mine.yaml: unknown option 'memry'; did you mean 'memory'"),
        ("- a\n- b", "mine.yaml: list, expected option: value lines"),
        ("a: [", "mine.yaml: not YAML"),
        (None, "mine.yaml: cannot be read"),
    ],
)
def test_a_broken_file_is_refused_by_name(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "mine.yaml").write_text(text)
    with pytest.raises(InputError, match=message):
        read_config_file(tmp_path / "mine.yaml")
