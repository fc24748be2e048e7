"""Tasks by name."""

from pathlib import Path

import pytest

from pushpop.commands.listing import EXAMPLES
from pushpop.errors import InputError
from pushpop.tasks import TASKS, get_task
from pushpop.tasks.registry import answers_at_blanks

FAMILIES = {
    "the paper's": "copy reverse flip svo-sov gender",
    "more transductions": "duplicate odds-first brackets",
    "Chomsky hierarchy": """
        even-pairs parity cycle-navigation modular-arithmetic stack-manipulation reverse
        modular-arithmetic-brackets solve-equation duplicate missing-duplicate odds-first
        binary-addition binary-multiplication square-root bucket-sort
    """,
}


def test_every_task_has_its_name() -> None:
    assert [get_task(name).name for name in TASKS] == list(TASKS)


def test_tasks_stand_in_families() -> None:
    families: dict[str, list[str]] = {}
    for name in TASKS:
        families.setdefault(get_task(name).family, []).append(name.removeprefix("chomsky/"))
    assert families == {family: names.split() for family, names in FAMILIES.items()}


@pytest.mark.parametrize("name", TASKS)
def test_every_task_says_in_a_line_what_it_is(name: str) -> None:
    assert get_task(name).summary.endswith(".")
    assert len(get_task(name).summary) <= 40


@pytest.mark.parametrize("name", TASKS)
def test_every_task_shows_an_example(name: str) -> None:
    assert " ||| " in EXAMPLES[name]


@pytest.mark.parametrize(("given", "meant"), [("revrese", "reverse"), ("svo_sov", "svo-sov")])
def test_an_unknown_name_is_answered_with_the_nearest(given: str, meant: str) -> None:
    with pytest.raises(InputError, match=f"unknown task '{given}'; did you mean '{meant}'"):
        get_task(given)


def test_a_name_far_from_any_is_answered_with_all() -> None:
    with pytest.raises(InputError, match=r"unknown task 'zzz' \(tasks: copy, reverse, .*\)"):
        get_task("zzz")


def test_a_path_that_ends_in_itg_is_a_grammar_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.itg"
    path.write_text("1 A -> x | y")
    assert get_task(str(path)).vocabulary.target == ("y",)


def test_tasks_whose_answers_are_written_at_blanks_are_known_by_name() -> None:
    for name in TASKS:
        assert answers_at_blanks(name) == (get_task(name).vocabulary.blank is not None)
