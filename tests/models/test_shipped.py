"""The models that come with the package, by name."""

from pathlib import Path

import pytest

from pushpop import Transducer
from pushpop.errors import InputError
from pushpop.evaluation import evaluate
from pushpop.models import saving
from pushpop.models.saving import find_model, shipped_models
from pushpop.tasks import get_task
from tests.models.examples import small_model

LIMIT = 1_000_000  # bytes a model


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installed package with two models and something else beside them."""
    monkeypatch.setattr(saving, "PACKAGE", tmp_path)
    for name in ("reverse-stack", "copy-queue"):
        small_model().save_pretrained(tmp_path / "shipped" / name)
    (tmp_path / "shipped" / "notes").mkdir()
    return tmp_path / "shipped"


def test_every_shipped_model_loads_says_its_task_and_is_small() -> None:
    for name, folder in shipped_models().items():
        model = Transducer.from_pretrained(folder)
        assert folder.name == name
        assert "task" in model.metadata or "task" in model.metadata["training"]
        assert sum(file.stat().st_size for file in folder.iterdir()) < LIMIT


@pytest.mark.parametrize("name", list(shipped_models()))
def test_shipped_models_say_how_they_were_made_and_are_right_on_what_anybody_types_first(
    name: str,
) -> None:
    model = Transducer.from_pretrained(find_model(name))
    training = model.metadata["training"]
    assert training["recipe"] == "pushpop"
    assert model.metadata["report"]["test"]["coarse"] >= 0.99
    found = evaluate(model, get_task(training["task"]), lengths=(1, 16), sequences=200)
    assert found["coarse"] >= 0.99


def test_folders_without_a_model_are_left_out(shelf: Path) -> None:
    assert list(shipped_models()) == ["copy-queue", "reverse-stack"]


def test_a_name_finds_a_shipped_model(shelf: Path) -> None:
    assert find_model("copy-queue") == shelf / "copy-queue"


def test_a_path_goes_before_a_name(
    shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "copy-queue").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_model("copy-queue") == Path("copy-queue")


def test_an_unknown_name_is_answered_with_the_nearest(shelf: Path) -> None:
    with pytest.raises(InputError, match=r"copy-quue: .*did you mean 'copy-queue'\? \(models: "):
        find_model("copy-quue")
