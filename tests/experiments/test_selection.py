"""Which run stands for a model on a task."""

from pathlib import Path

from pushpop.experiments.paper import Choice, choose
from pushpop.experiments.runs import read_results, read_run
from tests.experiments.fabricated import fabricate


def chosen(folder: Path, recipe: str = "paper") -> Choice:
    found = [c for c in choose(read_results(folder)) if c.run and c.recipe == recipe]
    assert len(found) == 1
    return found[0]


def test_the_lowest_training_perplexity_wins_whatever_the_test_says(tmp_path: Path) -> None:
    fabricate(tmp_path / "a", [(9.0, 0.2, 0.1), (1.02, 1.0, 1.0)], learning_rate=0.001)
    fabricate(tmp_path / "b", [(9.0, 0.2, 0.1), (1.01, 1.0, 0.3)], learning_rate=0.005)
    fabricate(tmp_path / "c", [(9.0, 0.2, 0.1), (1.03, 1.0, 1.0)], hidden=512)
    choice = chosen(tmp_path)
    assert choice.run is not None
    assert choice.run.name == "b"
    assert [run.name for run in choice.candidates] == ["b", "a", "c"]


def test_a_finished_run_counts_with_the_model_that_it_kept(tmp_path: Path) -> None:
    fabricate(tmp_path / "kept", [(1.2, 1, 1), (5.0, 0, 0)], kept=1000)
    fabricate(tmp_path / "last", [(1.1, 1, 1), (1.3, 1, 1)], seed=1)
    assert read_run(tmp_path / "kept").perplexity == 1.2
    assert read_run(tmp_path / "last").perplexity == 1.3


def test_an_unfinished_run_counts_with_its_best_so_far(tmp_path: Path) -> None:
    run = read_run(fabricate(tmp_path / "a", [(1.2, 1, 1), (5.0, 0, 0)], finished=False))
    assert (run.perplexity, run.step, run.report) == (1.2, 2000, None)
    assert run.accuracies is not None
    assert run.accuracies["test"]["coarse"] == 0


def test_perplexity_on_short_sources_of_a_curriculum_does_not_count(tmp_path: Path) -> None:
    path = fabricate(tmp_path / "a", [(1.01, 1, 0), (3.0, 0, 0)], finished=False)
    log = path / "metrics.jsonl"
    log.write_text(log.read_text().replace('"longest": 64', '"longest": 10', 1))
    assert read_run(path).perplexity == 3.0


def test_other_sizes_lengths_and_schedules_are_no_candidates_beside_the_papers(
    tmp_path: Path,
) -> None:
    fabricate(tmp_path / "a", [(3.0, 1, 1)])
    fabricate(tmp_path / "small", [(1.0, 1, 1)], hidden=128)
    fabricate(tmp_path / "narrow", [(1.0, 1, 1)], memory_width=64)
    fabricate(tmp_path / "short", [(1.0, 1, 1)], train_lengths="8-16")
    fabricate(tmp_path / "steadied", [(1.0, 1, 1)], decay=0.998)
    fabricate(tmp_path / "stopped-by-a-test", [(1.0, 1, 1)], until_solved=True)
    choice = chosen(tmp_path)
    assert [run.name for run in choice.candidates] == ["a"]


def test_without_any_run_of_the_papers_protocol_all_are_candidates(tmp_path: Path) -> None:
    fabricate(tmp_path / "small", [(2.0, 1, 1)], hidden=16)
    fabricate(tmp_path / "short", [(1.0, 1, 1)], train_lengths="8-16")
    assert len(chosen(tmp_path).candidates) == 2


def test_recipes_are_chosen_apart_and_the_papers_comes_first(tmp_path: Path) -> None:
    fabricate(tmp_path / "a", [(3.0, 1, 1)], memory="queue")
    fabricate(tmp_path / "b", [(1.0, 1, 1)], memory="queue", recipe="pushpop", hidden=48)
    choices = choose(read_results(tmp_path))
    assert [choice.recipe for choice in choices] == ["paper"] * 35 + ["pushpop"]
    assert choices[-1].run is not None
    assert choices[-1].run.name == "b"
    assert [(choice.task, choice.model) for choice in choices[:2]] == [
        ("copy", "lstm1"),
        ("copy", "lstm2"),
    ]


def test_solved_is_the_first_test_at_99_per_cent_of_training_and_test_lengths(
    tmp_path: Path,
) -> None:
    tests = [(2, 1, 0.98), (2, 0.98, 1), (2, 0.99, 0.99), (2, 0, 0.5)]
    assert read_run(fabricate(tmp_path / "a", tests)).solved_at == 3000
    assert read_run(fabricate(tmp_path / "b", [(2, 1, 0.98)])).solved_at is None


def test_a_row_that_a_sweep_has_not_finished_stays_with_the_folder_that_has(tmp_path: Path) -> None:
    good, drift = [(3.0, 0, 0), (1.5, 0.5, 0.2), (1.1, 1, 1)], {"push_bias": "drift"}
    for task, rungs in (("copy", (1, 1, 3)), ("flip", (1, 1, 2))):
        fabricate(tmp_path / "table" / task, [(2.0, 0.1, 0.1)], task=task, memory="queue")
        for seed, rung in enumerate(rungs):
            run, options = tmp_path / "paper" / f"{task}{seed}", {"task": task, "seed": seed}
            fabricate(run, good[:rung], memory="queue", **options, **drift)
    rows = {c.task: c for c in choose(read_results(tmp_path)) if c.run}
    names = {task: (c.run.name, c.status, c.rung) for task, c in rows.items() if c.run}
    assert names == {
        "copy": ("paper/copy2", "finished", 3),
        "flip": ("table/flip", "finished", None),
    }
    assert len(rows["flip"].candidates) == 4
