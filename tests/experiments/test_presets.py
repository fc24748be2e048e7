"""Presets: small files that stand for many runs."""

from pathlib import Path
from typing import Any

import pytest

from pushpop.errors import InputError
from pushpop.experiments.paper import PAPER_MODELS, PAPER_TASKS, paper_results
from pushpop.experiments.presets import load_preset, preset_names, read_preset, select

PAIRS = {(task, model) for task in PAPER_TASKS for model in PAPER_MODELS}


def runs(data: dict[str, Any], **override: Any) -> dict[str, Any]:
    return {run.name: run.config for run in read_preset(data, "mine.yaml", override).runs}


def test_the_papers_table_has_35_rows() -> None:
    rows = paper_results()
    assert set(rows) == PAIRS
    assert rows["copy", "lstm1"].test_fine == 0.38
    assert rows["flip", "deque"].test_coarse == 0.53


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("paper", 180),
        ("paper-grid", 350),
        ("table", 35),
        ("mini", 210),
        ("drift", 300),
        ("natural", 10),
        ("ours", 50),
        ("unseen", 18),
        ("ours-lstm", 10),
        ("smoke", 35),
    ],
)
def test_built_in_presets_have_the_runs_that_they_say(name: str, count: int) -> None:
    preset = load_preset(name)
    assert preset.name == name
    assert preset.description
    assert len(preset.runs) == len({run.name for run in preset.runs}) == count


@pytest.mark.parametrize("name", ["paper-grid", "table", "smoke"])
def test_every_pair_of_task_and_model_is_there(name: str) -> None:
    found = select(load_preset(name).runs, "")
    bodies = {(run.config.task, run.config.memory, run.config.layers) for run in found}
    assert len(bodies) == 35


def test_the_whole_grid_is_the_papers() -> None:
    configs = [run.config for run in load_preset("paper-grid").runs]
    assert {config.hidden for config in configs} == {256, 512}
    assert {config.memory_width for config in configs} == {256}
    assert sorted({config.learning_rate for config in configs}) == [5e-5, 1e-4, 5e-4, 1e-3, 5e-3]
    assert load_preset("paper-grid").runs[0].name == "copy-stack-hidden256-lr0.005"


def test_the_candidates_of_a_row_stand_together_in_a_preset_with_rungs() -> None:
    preset = load_preset("paper")
    assert preset.halving is not None
    assert preset.halving.stages(12) == [(12, 1500), (3, 3500), (1, 15000)]
    rows = [run.row for run in preset.runs]
    assert rows[:13] == [("copy", "deque")] * 12 + [("reverse", "stack")]
    assert {run.config.steps for run in preset.runs} == {20_000}


def test_mini_begins_with_the_35_rows_at_one_size_and_rate() -> None:
    first = [run.config for run in load_preset("mini").runs[:35]]
    assert len({(config.task, config.memory, config.layers) for config in first}) == 35
    assert {(config.hidden, config.learning_rate) for config in first} == {(64, 1e-3)}
    assert {config.converged_after for config in first} == {5000}


def test_the_table_starts_with_what_the_paper_has_at_1() -> None:
    perfect = [
        (task, model) for (task, model), row in paper_results().items() if row.test_coarse == 1
    ]
    first = [(run.config.task, run.config.memory) for run in load_preset("table").runs]
    assert set(first[: len(perfect)]) == set(perfect)
    layers = [run.config.layers for run in load_preset("table").runs if run.config.memory == "none"]
    assert layers == sorted(layers)


def test_every_built_in_preset_is_readable() -> None:
    assert {"paper", "table", "smoke"} <= set(preset_names())
    for name in preset_names():
        assert load_preset(name).runs


def test_rows_and_grid_are_multiplied() -> None:
    found = runs(
        {
            "base": {"hidden": 8, "memory_width": 4},
            "rows": [{"task": "copy", "model": "queue"}, {"task": "reverse", "model": "lstm2"}],
            "grid": {"pop_bias": [-1, 0], "seed": [3]},
        }
    )
    assert list(found) == [
        "copy-queue-pop_bias-1-seed3",
        "reverse-lstm2-pop_bias-1-seed3",
        "copy-queue-pop_bias0-seed3",
        "reverse-lstm2-pop_bias0-seed3",
    ]
    assert found["reverse-lstm2-pop_bias0-seed3"].layers == 2
    assert found["reverse-lstm2-pop_bias0-seed3"].memory == "none"


def test_a_name_can_hold_the_biases_of_several_memories() -> None:
    base = {"task": "copy", "model": "deque", "memories": 2, "hidden": 8}
    (name,) = runs({"base": base, "grid": {"push_bias": [[[0, 0.5], [1, -2]]]}})
    assert name == "copy-deque-push_bias0,0.5;1,-2"


def test_names_say_what_varies_and_nothing_else() -> None:
    grid = {
        "recipe": ["pushpop"],
        "learning_rate": ["5e-4"],
        "memory_width": [4],
        "train_lengths": ["8-16"],
        "push_bias": [[1, -3]],
        "steps": [10],
    }
    base = {"task": "copy", "model": "deque", "hidden": 3}
    assert list(runs({"base": base, "grid": grid})) == [
        "copy-deque-pushpop-lr0.0005-width4-train_lengths8-16-push_bias1,-3"
    ]


def test_a_recipe_fills_in_what_a_preset_leaves_open() -> None:
    config = runs({"base": {"task": "copy", "model": "queue", "recipe": "pushpop", "hidden": 7}})
    assert config["copy-queue"].hidden == 7
    assert config["copy-queue"].curriculum_start > 0


def test_a_preset_can_be_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text("base: {task: copy, model: stack}\ngrid: {seed: [0, 1]}\n")
    preset = load_preset(str(path), {"steps": 9})
    assert preset.name == "mine"
    assert [run.config.steps for run in preset.runs] == [9, 9]


def test_only_selects_by_option() -> None:
    every = load_preset("paper-grid").runs
    assert len(select(every, "task=copy,model=queue,model=deque")) == 20
    assert len(select(every, "memory=queue,learning_rate=1e-3,hidden=256")) == 5
    for text, message in (
        ("task=cpy", "only 'task=cpy': none of the 350 runs is like that"),
        ("tsk=copy", "only: unknown option 'tsk'; did you mean 'task'?"),
        ("copy", "only: 'copy', expected option=value"),
    ):
        with pytest.raises(InputError, match=message.replace("?", "\\?")):
            select(every, text)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "mine.yaml: [], expected key: value lines"),
        ({"gird": {}}, "mine.yaml: unknown key 'gird'; did you mean 'grid'?"),
        ({"name": 3}, "mine.yaml: name is 3, expected text"),
        ({"rows": {}}, "mine.yaml: rows is {}, expected a list of options"),
        ({"rows": [3]}, "mine.yaml: row 1: 3, expected key: value lines"),
        ({"base": {1: 2}}, "mine.yaml: base: key 1, expected text"),
        ({"grid": {"seed": 3}}, "mine.yaml: grid: seed is 3, expected a list of values"),
        ({"grid": {"seed": []}}, "mine.yaml: grid: seed is [], expected a list of values"),
        ({"base": {"model": "stack"}}, "mine.yaml: a run without a task"),
        ({"halving": {"rungs": [5, 5], "keep": 0.5}}, "mine.yaml: halving: rungs is [5, 5], exp"),
        ({"halving": {"rungs": [5], "keep": 0}}, "mine.yaml: halving: keep is 0, expected a share"),
        ({"halving": {"rungs": [5], "kep": 1}}, "unknown key 'kep'; did you mean 'keep'?"),
        (
            {"base": {"task": "copy", "steps": 9}, "halving": {"rungs": [5], "keep": 1}},
            "mine.yaml: steps beside halving",
        ),
        (
            {"base": {"task": "copy", "cooldown": 9}, "halving": {"rungs": [5], "keep": 1}},
            "mine.yaml: cooldown beside halving",
        ),
        ({"base": {"task": "copy", "model": "lstm0"}}, "mine.yaml: model is 'lstm0', expected"),
        ({"base": {"task": "copy", "hiden": 3}}, "mine.yaml: unknown option 'hiden'; did you mean"),
        ({"base": {"task": "copy", "hidden": 0}}, "mine.yaml: hidden is 0, expected a whole"),
        ({"base": {"task": "copy"}, "grid": {"seed": [1, 1]}}, "copy-stack-seed1 is in it twice"),
        (
            {"base": {"task": "copy", "model": "stack", "memory": "queue"}},
            "mine.yaml: memory is 'queue' beside a model: leave one out",
        ),
        (
            {"rows": [{"task": "copy", "seed": 1}], "grid": {"seed": [1]}},
            "mine.yaml: seed is both in grid and in rows",
        ),
        ({"measure": 8}, "mine.yaml: measure: 8, expected key: value lines"),
        (
            {"measure": {"lenghts": [8]}},
            "mine.yaml: measure: unknown key 'lenghts'; did you mean 'lengths'?",
        ),
        ({"measure": {"lengths": "8,9"}}, "measure: lengths is '8,9', expected a list of numbers"),
        ({"measure": {"lengths": [8, 0]}}, "measure: lengths: 0, expected a number, at least 1"),
        ({"measure": {"sequences": 2.5}}, "measure: sequences: 2.5, expected a number, at least 1"),
        (
            {"base": {"task": "words.tsv"}, "measure": {"lengths": [8]}},
            "mine.yaml: measure: words.tsv is a file of pairs; expected tasks",
        ),
    ],
)
def test_a_mistake_is_named_with_file_key_and_value(data: Any, message: str) -> None:
    with pytest.raises(InputError) as error:
        read_preset(data, "mine.yaml", {})
    assert message in str(error.value)


def test_a_file_that_is_not_there_or_no_yaml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    with pytest.raises(InputError, match=r"mine\.yaml: cannot be read: No such file"):
        load_preset(str(path))
    path.write_text("base: [")
    with pytest.raises(InputError, match=r"(?s)mine\.yaml: not YAML: .*line 1"):
        load_preset(str(path))
    with pytest.raises(InputError, match="no preset 'tabel'; did you mean 'table'"):
        load_preset("tabel")
