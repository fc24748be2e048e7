"""A memory of one's own, defined here, through everything that a memory can be used for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pushpop import MemoryAttention, MemoryRNN, Transducer, TransducerConfig
from pushpop.errors import InputError
from pushpop.memory import MEMORIES, Memory, TensorState, register_memory
from pushpop.models.export import export_onnx
from pushpop.tasks import batch_rng, get_task, make_batch


class Averager(Memory[TensorState]):
    """Two running means, one fast and one slow: M <- (1 - a) M + a v for each; reads both."""

    kind = "averager"
    gate_names = ("rate fast", "rate slow")
    reads = 2

    def empty(self, batch: int, *, device: Any = None, dtype: Any = None) -> TensorState:
        return TensorState(torch.zeros(batch, 2, self.width, device=device, dtype=dtype))

    def run_step(
        self, values: Tensor, gates: Tensor, state: TensorState | None
    ) -> tuple[Tensor, TensorState]:
        state = state or self.empty(len(values), device=values.device, dtype=values.dtype)
        rates = gates[..., None]
        cells = (1 - rates) * state.cells + rates * values
        return cells, TensorState(cells)


@pytest.fixture
def registered() -> Iterator[None]:
    register_memory(Averager)
    yield
    del MEMORIES["averager"]


@pytest.mark.parametrize("lengths", [None, [6, 2, 4]])
def test_it_drives_a_memory_rnn(lengths: list[int] | None) -> None:
    rnn = MemoryRNN(5, 8, Averager(3), num_layers=2, bidirectional=True, num_memories=2)
    x = torch.randn(6, 3, 5)
    output, state = rnn(x, lengths=lengths)
    output.sum().backward()
    assert output.shape == (6, 3, 16)
    assert state[0].read.shape == (3, 2, 2, 3)
    assert all(p.grad is not None and p.grad.isfinite().all() for p in rnn.parameters())


def test_steps_equal_the_sequence() -> None:
    rnn = MemoryRNN(5, 8, Averager(3), num_layers=2)
    x = torch.randn(6, 3, 5)
    whole, _ = rnn(x)
    state = None
    for t in range(6):
        output, state = rnn.step(x[t], state)
        torch.testing.assert_close(output, whole[t])


def test_it_is_a_head_of_an_attention() -> None:
    layer = MemoryAttention(6, Averager(3), num_heads=2)
    x = torch.randn(5, 2, 6)
    whole, _ = layer(x)
    first, state = layer(x[:2])
    second, _ = layer(x[2:], state)
    torch.testing.assert_close(torch.cat([first, second]), whole)
    with pytest.raises(ValueError, match="'averager' has no step that changes nothing"):
        layer(x, key_padding_mask=torch.zeros(2, 5, dtype=torch.bool))


@pytest.mark.usefixtures("registered")
def test_it_trains_decodes_and_is_saved_as_part_of_a_transducer(tmp_path: Path) -> None:
    task = get_task("copy")
    config = TransducerConfig("averager", hidden=8, memory_width=4, embedding=6)
    model = Transducer(config, task.vocabulary)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = make_batch(task.sample(batch_rng(0, "train", 0), 8, (2, 5)), task.vocabulary)
    before = model.loss(batch)
    before.backward()
    optimiser.step()
    assert model.loss(batch) < before
    sources = ["a1 a2 a3", "a4"]
    greedy, beams = model.transduce(sources), model.transduce(sources, nbest=2, beam=3)
    model.save_pretrained(tmp_path)
    loaded = Transducer.from_pretrained(tmp_path)
    assert loaded.transduce(sources) == greedy
    assert loaded.transduce(sources, nbest=2, beam=3) == beams
    with pytest.raises(InputError, match="memory 'averager' cannot be exported"):
        export_onnx(model, tmp_path / "model.onnx")


def test_a_model_of_a_memory_that_nobody_registered_says_so() -> None:
    with pytest.raises(InputError, match=r"memory is 'averager', expected stack, .*, tape, none"):
        TransducerConfig("averager")
    with pytest.raises(ValueError, match="there is a memory 'stack' already"):
        register_memory(type("Mine", (Averager,), {"kind": "stack"}))


def test_a_given_memory_must_fit() -> None:
    with pytest.raises(ValueError, match="the given memory is 3 wide; expected 4"):
        MemoryRNN(5, 8, Averager(3), 4)
    with pytest.raises(TypeError, match="memory must be a name or a Memory; got Linear"):
        MemoryRNN(5, 8, torch.nn.Linear(2, 2))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="memory 'averager' has no push_bias: its gates are rate"):
        MemoryRNN(5, 8, Averager(3), push_bias=1.0)
    with pytest.raises(ValueError, match="'fused' and that of the given memory 'auto': expected"):
        MemoryRNN(5, 8, Averager(3), backend="fused")
