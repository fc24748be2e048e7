"""Batches in which a model with attention does without it."""

from pathlib import Path
from typing import Any

import pytest
import torch

from pushpop.errors import InputError
from pushpop.training import TrainConfig, train
from pushpop.training.data import make_data
from pushpop.training.parallel import Group
from pushpop.training.schedule import Progress
from pushpop.training.trainer import Trainer
from tests.training.runs import remains, train_in_parts
from tests.training.test_pairs import tiny, write_pairs

ATTENDING: dict[str, Any] = {"encoder": "bidirectional", "attention": True}


def trainer_on(folder: Path, **options: Any) -> Trainer:
    config = tiny(write_pairs(folder), **ATTENDING, **options)
    return Trainer(config, Group(), make_data(config))


def attention_gradients(trainer: Trainer) -> list[torch.Tensor | None]:
    named = trainer.model.named_parameters()
    return [weight.grad for name, weight in named if ".attention." in name]


def test_a_batch_without_attention_gives_its_weights_no_gradient(tmp_path: Path) -> None:
    trainer = trainer_on(tmp_path, skip_attention=0.5, dropout=0.0)
    attended = []
    for _ in range(12):
        attended.append(trainer._attends())
        trainer.step()
        gradients = attention_gradients(trainer)
        assert len(gradients) == 3
        assert [gradient is not None for gradient in gradients] == [attended[-1]] * 3
    assert 2 <= sum(attended) <= 10
    body = next(trainer.model.body.parameters())
    assert body.grad is not None


def test_without_attention_the_output_is_what_the_body_says(tmp_path: Path) -> None:
    trainer = trainer_on(tmp_path, dropout=0.0)
    model, batch = trainer.model.eval(), next(trainer.batches)
    without = model.scored_logits(batch, attend=False)
    assert not torch.equal(without, model.scored_logits(batch))
    assert model.source is not None
    model.source.attention = None
    assert torch.equal(without, model.scored_logits(batch))


@pytest.mark.parametrize("stop", [5, 11])
def test_a_stopped_run_goes_on_bit_for_bit(
    stop: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tiny(write_pairs(tmp_path), **ATTENDING, skip_attention=0.5, epochs=2)
    train(config, tmp_path / "whole")
    train_in_parts(config, tmp_path / "parts", stop, monkeypatch)
    assert remains(tmp_path / "parts") == remains(tmp_path / "whole")


def test_batches_without_attention_go_on_when_validation_stalls_and_when_the_task_is_learnt() -> (
    None
):
    config = TrainConfig(plateau=2, attention=True, skip_attention=0.5)
    progress = Progress.start(config, epoch=5)
    for accuracy in (0.1, 0.2, 0.2, 0.2, 0.9):
        progress.validated(config, accuracy, 9.0)
        assert progress.skipped_attention(config) == 0.5
    drawn = Progress.start(config)
    for _ in range(config.window):
        drawn.after_batch(config, 0.01, 1)
    assert drawn.skipped_attention(config) == 0.5


def test_it_is_refused_by_name_where_it_means_nothing(tmp_path: Path) -> None:
    told = "skip_attention is 0.5, and attention is false: expected 0, or attention true"
    with pytest.raises(InputError, match=told):
        TrainConfig("copy", skip_attention=0.5)
    with pytest.raises(InputError, match=told):
        TrainConfig(str(tmp_path / "pairs.tsv"), attention=False, skip_attention=0.5)
    with pytest.raises(InputError, match=r"skip_attention is 1\.0, expected less than 1"):
        TrainConfig("copy", attention=True, skip_attention=1)
