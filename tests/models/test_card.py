"""The model card beside saved weights, and models in repositories of a hub."""

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import yaml

from pushpop import Tagger, Transducer
from pushpop.errors import InputError
from pushpop.models.saving import MODEL_FILES, find_model
from tests.models.examples import small_model


def test_a_card_tells_what_was_trained_how_and_with_what_success(tmp_path: Path) -> None:
    model = Transducer.from_pretrained("reverse-stack")
    model.metadata["license"] = "apache-2.0"
    model.save_pretrained(tmp_path)
    _, front, text = (tmp_path / "README.md").read_text("utf-8").split("---\n", 2)
    assert yaml.safe_load(front) == {
        "library_name": "pushpop",
        "license": "apache-2.0",
        "tags": ["pushpop", "stack", "reverse"],
    }
    for row in (
        "| task | reverse |",
        "| train_lengths | 1-64 |",
        "| test: lengths | [65, 128] |",
        "| test: coarse | 1.0 |",
        "| recipe | pushpop |",
        "| license | apache-2.0 |",
        "| parameters | 123970 |",
    ):
        assert row in text


def test_a_model_that_says_nothing_of_itself_has_a_card_too(tmp_path: Path) -> None:
    small_model().save_pretrained(tmp_path)
    card = (tmp_path / "README.md").read_text("utf-8")
    assert "license: unknown" in card
    assert "# unknown: a transducer with memory stack" in card
    assert "None" not in card


def test_only_a_card_that_was_written_by_hand_is_kept(tmp_path: Path) -> None:
    model = small_model()
    model.save_pretrained(tmp_path)
    model.metadata["task"] = "mine"
    model.save_pretrained(tmp_path)
    assert "# mine: a transducer" in (tmp_path / "README.md").read_text("utf-8")
    (tmp_path / "README.md").write_text("by hand")
    model.save_pretrained(tmp_path)
    assert (tmp_path / "README.md").read_text("utf-8") == "by hand"


class LocalHub:
    """The calls of huggingface_hub that are used, with folders in place of repositories."""

    class HfHubHTTPError(Exception):
        """What the hub answers if a repository is not there."""

    def __init__(self, shelf: Path) -> None:
        self.shelf = shelf
        self.errors = SimpleNamespace(
            HfHubHTTPError=self.HfHubHTTPError, HFValidationError=ValueError
        )

    def create_repo(self, repo_id: str, *, exist_ok: bool, **options: Any) -> SimpleNamespace:
        assert exist_ok
        (self.shelf / repo_id).mkdir(parents=True, exist_ok=True)
        return SimpleNamespace(repo_id=repo_id)

    def upload_folder(
        self, *, repo_id: str, folder_path: str, commit_message: str, token: Any = None
    ) -> None:
        shutil.copytree(folder_path, self.shelf / repo_id, dirs_exist_ok=True)

    def snapshot_download(self, repo_id: str, *, allow_patterns: list[str], **options: Any) -> str:
        if not (self.shelf / repo_id).is_dir():
            raise self.HfHubHTTPError("404 Client Error: Repository Not Found")
        there = self.shelf / "cache" / options.get("revision", "main")
        there.mkdir(parents=True)
        for name in allow_patterns:
            shutil.copy(self.shelf / repo_id / name, there)
        return str(there)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LocalHub:
    monkeypatch.chdir(tmp_path)
    local = LocalHub(tmp_path / "hub")
    monkeypatch.setitem(sys.modules, "huggingface_hub", local)  # type: ignore[arg-type]
    return local


def test_a_model_that_was_pushed_comes_back_by_the_name_of_its_repository(hub: LocalHub) -> None:
    model = small_model()
    model.push_to_hub("somebody/small-stack", private=True)
    names = sorted(path.name for path in (hub.shelf / "somebody" / "small-stack").iterdir())
    assert names == sorted([*MODEL_FILES, "README.md"])
    again = Transducer.from_pretrained("somebody/small-stack", revision="v1")
    assert [p.name for p in (hub.shelf / "cache").iterdir()] == ["v1"]
    for name, tensor in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor)
    with pytest.raises(InputError, match="expected 'pushpop tagger'"):
        Tagger.from_pretrained("somebody/small-stack")


def test_a_folder_goes_before_a_repository(hub: LocalHub) -> None:
    small_model(seed=1).push_to_hub("somebody/model")
    mine = small_model(seed=2)
    mine.save_pretrained("somebody/model")
    again = Transducer.from_pretrained("somebody/model")
    assert torch.equal(again.output_table.weight, mine.output_table.weight)


def test_a_repository_that_is_not_there_is_an_error_that_says_where_was_looked(
    hub: LocalHub,
) -> None:
    with pytest.raises(
        InputError, match=r"^runs/mine: no such folder, .*; as a repository of the hub: 404 Client"
    ):
        Transducer.from_pretrained("runs/mine")
    with pytest.raises(InputError, match=r"no such folder, and no model .*svo-sov-queue\)$"):
        Transducer.from_pretrained("nothing")
    with pytest.raises(InputError, match=r"no such folder, and no model .*svo-sov-queue\)$"):
        find_model("runs/mine")  # commands ask no hub


def test_without_the_extra_no_hub_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(InputError, match=r"no such folder, and no model .*svo-sov-queue\)$"):
        Transducer.from_pretrained("somebody/model")
    with pytest.raises(InputError, match=r"pip install 'pushpop\[hub\]'"):
        small_model().push_to_hub("somebody/model")


def test_the_hubs_package_has_what_is_called(tmp_path: Path) -> None:
    hub = pytest.importorskip("huggingface_hub")
    assert callable(hub.create_repo)
    assert callable(hub.upload_folder)
    assert callable(hub.snapshot_download)
    assert issubclass(hub.errors.HfHubHTTPError, Exception)
    assert issubclass(hub.errors.HFValidationError, ValueError)
    pushed = small_model()
    pushed.save_pretrained(tmp_path)
    card = hub.ModelCard.load(tmp_path / "README.md")
    assert card.data.library_name == "pushpop"
    assert card.data.license == "unknown"
