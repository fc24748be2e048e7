"""A memory of one's own, defined here, through everything that a memory can be used for."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from pushpop import MemoryAttention, MemoryRNN, NeuralStack, Transducer, TransducerConfig
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
        assert state is not None
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


def test_reads_of_a_wrong_shape_are_refused_in_words() -> None:
    class Wide(Averager):
        def run_step(self, *given: Any) -> tuple[Tensor, TensorState]:
            reads, state = super().run_step(*given)
            return torch.cat([reads, reads], dim=-1), state

    with pytest.raises(
        ValueError, match=r"Wide: reads must be \[B, R, D\] = \[4, 2, 3\]; got \[4, 2, 6\]"
    ):
        MemoryRNN(5, 8, Wide(3))(torch.randn(6, 4, 5))


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
    torch.testing.assert_close(layer.step(x[0])[0], whole[0])
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
    with pytest.raises(ValueError, match="memory 'averager' has no push_bias: its starting"):
        MemoryRNN(5, 8, Averager(3), push_bias=1.0)
    with pytest.raises(ValueError, match="'fused' of memory 'averager' does not exist: use"):
        MemoryRNN(5, 8, Averager(3), backend="fused")
    given = Averager(3)
    assert MemoryRNN(5, 8, given).memory is given
    assert MemoryRNN(5, 8, given, backend="reference").memory.backend == "reference"
    assert given.backend == "auto"
    with pytest.raises(ValueError, match="'parallel' and that of the given memory 'ref"):
        MemoryRNN(5, 8, NeuralStack(3, "reference"), backend="parallel")


def test_gates_are_told_apart_by_name_whatever_they_are_called() -> None:
    class Named(Averager):
        gate_names = ("value fast", "step slow")

    layer = MemoryAttention(6, Named(6))
    assert {"value_gate", "step_gate", "value"} <= dict(layer.named_modules()).keys()
    layer(torch.randn(3, 2, 6))

    class Mixed(Averager):
        gate_names = ("push top", "pop top", "push bottom", "pop bottom")

    with pytest.raises(ValueError, match="must stand side by side in gate_names; got push"):
        Mixed(6)


class Sticky(NeuralStack):
    """A stack under another name, whose gates start elsewhere and whose values are doubled."""

    kind = "sticky"
    biases = {"push_bias": 2.0, "pop_bias": -3.0}  # noqa: RUF012

    def run_step(self, values: Tensor, gates: Tensor, state: Any) -> Any:
        return super().run_step(2 * values, gates, state)


@pytest.mark.parametrize("backend", ["auto", "reference", "parallel"])
def test_a_subclass_of_a_known_memory_does_what_it_says(backend: str) -> None:
    values, push, pop = torch.randn(4, 2, 3), torch.rand(4, 2), torch.rand(4, 2)
    wanted, _ = NeuralStack(3)(2 * values, push, pop)
    sticky = Sticky(3, backend)
    torch.testing.assert_close(sticky(values, push, pop)[0], wanted)
    state = None
    for t in range(4):
        read, state = sticky.step(values[t], push[t], pop[t], state)
        torch.testing.assert_close(read, wanted[t])
    rnn, plain = MemoryRNN(5, 8, sticky), MemoryRNN(5, 8, "stack", 3)
    assert rnn.gates.bias.tolist() == [2, -3]
    plain.load_state_dict(rnn.state_dict())
    x = torch.randn(4, 2, 5)
    assert not torch.allclose(rnn(x)[1].read, plain(x)[1].read)


def test_a_registered_memory_keeps_its_own_starting_biases() -> None:
    register_memory(Sticky)
    try:
        config = TransducerConfig("sticky", hidden=8, memory_width=4)
        assert (config.push_bias, config.pop_bias) == (2.0, -3.0)
        model = Transducer(config, get_task("copy").vocabulary)
        assert model.get_parameter("body.gates.bias").tolist() == [2, -3]
    finally:
        del MEMORIES["sticky"]
