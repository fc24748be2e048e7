"""Recipes: below what is given, above the defaults, and never applied twice."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args

import pytest
import yaml

from pushpop.cli import main
from pushpop.errors import InputError
from pushpop.memory import MEMORIES
from pushpop.training import RunDirectory, TrainConfig, train
from pushpop.training import config as config_module
from pushpop.training.recipes import RECIPES, RecipeName
from tests.training.runs import TINY


def test_every_recipe_has_a_name_and_options_that_exist() -> None:
    assert tuple(RECIPES) == get_args(RecipeName)
    names = {each.name for each in fields(TrainConfig)}
    for name in RECIPES:
        for memory in ("stack", "queue", "deque", "none"):
            assert set(RECIPES[name]("copy", memory, 64)) <= names - {"task", "recipe"}
            TrainConfig.from_dict({"recipe": name, "memory": memory})


def test_the_papers_recipe_is_the_defaults() -> None:
    assert TrainConfig.from_dict({"recipe": "paper"}) == TrainConfig.from_dict({}) == TrainConfig()


def test_a_recipe_lies_between_the_defaults_and_what_is_given() -> None:
    config = TrainConfig.from_dict({"recipe": "pushpop", "hidden": "99", "memory": "stack"})
    recipe = RECIPES["pushpop"]("copy", "stack", 64)
    assert config.hidden == 99
    assert (config.memory_width, config.decay) == (recipe["memory_width"], recipe["decay"])
    assert config.embedding == TrainConfig().embedding


TASKS = ("copy", "reverse", "flip", "svo-sov", "gender", "duplicate", "odds-first", "brackets")


@pytest.mark.parametrize("memory", [*MEMORIES, "none"])
def test_our_recipe_is_the_same_for_all_tasks(memory: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine.itg"  # a task that the package does not know
    mine.write_text("1/2 A -> x A[1] | A[1] z\n1/2 A -> x | z\n")
    first, *others = (
        TrainConfig.from_dict({"task": task, "memory": memory, "recipe": "pushpop"})
        for task in (*TASKS, str(mine))
    )
    for other in others:
        assert first.differences(other).keys() == {"task"}


def test_our_recipe_follows_the_training_lengths() -> None:
    short = TrainConfig("copy", "deque", recipe="pushpop", train_lengths="3-16")
    assert short.train_lengths == "3-16"
    assert [each.curriculum_start for each in short.start_configs()] == [10, 16]


def test_the_starts_of_our_recipe_leave_alone_what_is_given() -> None:
    config = TrainConfig("copy", "deque", recipe="pushpop", pop_bias=-2, curriculum_start=5)
    starts = config.start_configs()
    assert [each.pop_bias for each in starts] == [-2, -2]
    assert [each.curriculum_start for each in starts] == [5, 5]
    assert [each.push_bias for each in starts] == [(1, -8), None]
    assert TrainConfig("copy", "deque", recipe="pushpop", starts="none").start_configs() == []


def test_runs_of_the_recipe_that_is_no_more_are_read_and_no_new_ones_made(tmp_path: Path) -> None:
    saved = {**TrainConfig("copy", hidden=48).to_dict(), "recipe": "by-task"}
    assert TrainConfig.from_saved(saved).to_dict() == saved
    train(TrainConfig.from_saved({**saved, **TINY, "recipe": "by-task", "steps": 2}), tmp_path)
    main(["train", "--resume", str(tmp_path), "--steps", "4"])
    report = RunDirectory(tmp_path).report()
    assert report is not None
    assert report["step"] == 4
    with pytest.raises(InputError, match="recipe is 'by-task', which only earlier runs have"):
        TrainConfig("copy", recipe="by-task")


@pytest.mark.parametrize("cell", ["lstm", "gru", "rnn"])
def test_a_controller_that_keeps_a_verb_has_noise_too_whatever_its_cell(cell: str) -> None:
    given = {"recipe": "pushpop", "task": "svo-sov", "cell": cell}
    assert TrainConfig.from_dict(given).controller_noise > 0


def test_a_deque_starts_as_the_queue_does_with_its_other_gates_shut() -> None:
    given = {"recipe": "pushpop", "task": "copy"}
    queue, deque = (TrainConfig.from_dict(given | {"memory": each}) for each in ("queue", "deque"))
    queue, deque = (next(iter(each.start_configs()), each) for each in (queue, deque))
    assert isinstance(deque.push_bias, tuple)
    assert isinstance(deque.pop_bias, tuple)
    (top_push, bottom_push), (top_pop, bottom_pop) = deque.push_bias, deque.pop_bias
    assert (top_push, bottom_pop) == (queue.push_bias, queue.pop_bias)
    assert max(bottom_push, top_pop) < -5


def test_many_pairs_are_trained_on_in_larger_batches_and_fewer_epochs(tmp_path: Path) -> None:
    few, many = tmp_path / "few.tsv", tmp_path / "many.tsv"
    few.write_text("a\tb\n" * 800)
    many.write_text("a\tb\n" * 8000)
    of_few, of_many = (TrainConfig.from_dict({"task": str(path)}) for path in (few, many))
    assert of_few.batch_size < of_many.batch_size
    assert of_few.patience > of_many.patience
    assert of_few.model == of_many.model


def test_a_file_that_is_not_there_is_told_by_training_not_by_the_recipe(tmp_path: Path) -> None:
    config = TrainConfig.from_dict({"task": str(tmp_path / "none.tsv")})
    assert config.recipe == "pairs"
    with pytest.raises(InputError, match=r"none\.tsv"):
        train(config, tmp_path / "run")


def test_a_recipe_fits_short_sources() -> None:
    config = TrainConfig.from_dict({"recipe": "pushpop", "train_lengths": "3-6"})
    assert [each.curriculum_start for each in config.start_configs()] == [6, 6]


def test_the_constructor_applies_the_recipe_to_what_is_not_given() -> None:
    made = TrainConfig("flip", "queue", recipe="pushpop", hidden=99)
    assert made == TrainConfig.from_dict(
        {"task": "flip", "memory": "queue", "recipe": "pushpop", "hidden": 99}
    )
    assert made.hidden == 99
    assert made.memory_width == RECIPES["pushpop"]("flip", "queue", 64)["memory_width"]
    assert made.embedding == TrainConfig().embedding


def test_a_default_that_is_given_goes_before_the_recipe() -> None:
    default = TrainConfig().hidden
    assert TrainConfig(recipe="pushpop").hidden != default
    assert TrainConfig(recipe="pushpop", hidden=default).hidden == default


def test_a_file_has_the_recipe_for_pairs_unless_another_is_named(tmp_path: Path) -> None:
    path = str(tmp_path / "mine.tsv")
    assert (TrainConfig(path).recipe, TrainConfig(path).memory) == ("pairs", "deque")
    assert TrainConfig(path, recipe="paper").optimiser == "rmsprop"
    deque = TrainConfig(path, push_bias=(1, -8))  # two: the recipe's memory is a deque
    assert deque.push_bias == (1.0, -8.0)


def test_other_values_for_some_options_leave_all_others_as_they_are() -> None:
    config = TrainConfig("copy", "stack", recipe="chomsky", hidden=99)
    for changed in (replace(config, task="reverse"), config.override({"task": "reverse"})):
        assert config.differences(changed).keys() == {"task"}


def test_saved_options_are_read_as_they_were_whatever_the_recipe() -> None:
    saved = {**TrainConfig("copy").to_dict(), "recipe": "pushpop"}
    assert TrainConfig.from_saved(saved).to_dict() == saved
    del saved["hidden"]  # as if there had been no such option then
    assert TrainConfig.from_saved(saved).hidden == TrainConfig().hidden


def test_an_unknown_recipe_is_refused_by_name() -> None:
    told = (
        "mine.yaml: recipe is 'pushpp', expected paper, pushpop, chomsky, pairs, labels, lm; "
        "did you mean 'pushpop'"
    )
    with pytest.raises(InputError, match=told):
        TrainConfig.from_dict({"recipe": "pushpp"}, "mine.yaml")


def test_print_config_shows_what_the_recipe_gave(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("recipe: pushpop\nlearning_rate: 0.5\nhidden: 7\n")
    main(["train", "copy", "--config", str(path), "--hidden", "8", "--print-config"])
    shown = yaml.safe_load(capsys.readouterr().out)
    assert (shown["recipe"], shown["hidden"], shown["learning_rate"]) == ("pushpop", 8, 0.5)
    assert shown["memory_width"] == RECIPES["pushpop"]("copy", "stack", 64)["memory_width"]


def test_a_run_goes_on_as_it_began_when_the_recipe_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny = {k: v for k, v in TINY.items() if k not in ("decay", "decay_below")}
    given = tiny | {"recipe": "chomsky", "steps": 3}
    config = TrainConfig.from_dict(given)
    report = train(config, tmp_path)
    saved = json.loads((tmp_path / "training.json").read_text())
    assert saved["decay"] == config.decay != TrainConfig().decay
    other = {**RECIPES, "chomsky": lambda *_: {"decay": 0.5}}
    monkeypatch.setattr(config_module, "RECIPES", other)
    assert TrainConfig.from_dict(given).decay == 0.5
    assert RunDirectory(tmp_path).config() == config
    assert train(RunDirectory(tmp_path).config(), tmp_path) == report


def test_a_recipe_is_no_label_over_the_values_of_another(tmp_path: Path) -> None:
    config = TrainConfig("copy")
    with pytest.raises(InputError, match="recipe is 'pushpop', and these options were filled in"):
        config.override({"recipe": "pushpop"})
    file = tmp_path / "options.yaml"
    file.write_text(yaml.safe_dump(config.to_dict()))
    with pytest.raises(SystemExit):
        main(["train", "--config", str(file), "--recipe", "pushpop", "--print-config"])


def test_another_memory_brings_its_own_starting_biases() -> None:
    assert TrainConfig("copy").override({"memory": "tape"}).pop_bias is None
    assert TrainConfig("copy", "tape").override({"memory": "deque"}).pop_bias == -1
    with pytest.raises(InputError, match="memory 'tape' has no pop_bias"):
        TrainConfig("copy", pop_bias=-2).override({"memory": "tape"})
