"""One step of a transducer as an ONNX graph, with everything it carries as tensors in and out.

A memory is what its equations have: of the paper's, values [B, N, D] and strengths [B, N], to which
every step adds one row (two for a deque); N is free, and so is B. A host feeds SOS, the source and
SEP, takes the likeliest symbol of the logits, feeds it back, and so on until EOS
(`examples/onnx_decoding.py`). Of a tagger it feeds the source alone, and takes a label at every
step.

A model that reads the whole source first (an encoder) has a second graph for that. Its vectors are
fed to the step in place of symbols. Attention is over `keys` [S, B, K]: what the second graph
gives, or the steps' own outputs `key` of the reading, one below the other.
"""

import json
import logging
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from pushpop.errors import InputError, writing
from pushpop.files import write_file
from pushpop.layers import LSTMState, MemoryRNN
from pushpop.models.body import MemoryBody, PlainBody, PlainState, SourceEncoder
from pushpop.models.tagger import Tagger
from pushpop.models.transducer import Transducer

OPSET = 17
"""Of the graph of an encoder, which is written by hand."""


class TransducerStep(nn.Module):
    """A transducer's step in plain operations: (symbol, [vector], [keys], state) -> (logits, [key],
    state)."""

    def __init__(self, model: Transducer) -> None:
        super().__init__()
        self.model, source = model, model.source
        self.encodes = source is not None and source.encoder is not None
        self.attends = source is not None and source.attention is not None
        body = model.body
        self.heads = body.all_heads() if isinstance(body, MemoryBody) else []
        if isinstance(body, MemoryRNN):
            self.heads = [body]
        for head in self.heads:
            if not head.memory.export_state():
                raise InputError(f"memory {head.memory.kind!r} cannot be exported")

    def start(self, batch: int) -> dict[str, tuple[Tensor, str]]:
        """The state before the first step by name, a memory without cells; of the tensors of
        memories also the name of the axis along which they grow."""
        if isinstance(self.model.body, PlainBody):
            first = self.model.body.first_state(batch)._asdict()
            return {name: (tensor, "") for name, tensor in first.items()}
        state = {}
        for number, head in enumerate(self.heads):
            of_head, cells = head.first_state(batch), head.memory.export_state()
            tensors = [*(part.clone() for part in of_head.parts), of_head.read.flatten(1)]
            tensors += _by_row(head, head.memory.export_tensors(of_head.memory), batch)
            names = ["h", *(["c"] if head.has_c else []), "read", *cells]
            suffix = number if len(self.heads) > 1 else ""
            for name, tensor in zip(names, tensors, strict=True):
                state[f"{name}{suffix}"] = tensor, f"N{number}" if name in cells else ""
        return state

    def forward(self, symbol: Tensor, *rest: Tensor) -> tuple[Tensor, ...]:
        """symbol [B] int64; where there is an encoder, -1 takes `vector` [B, E] instead."""
        tensors, model = list(rest), self.model
        x = model.input_table(symbol.clamp(min=0))
        if self.encodes:
            x = torch.where((symbol < 0)[:, None], tensors.pop(0), x)
        keys = tensors.pop(0) if self.attends else None
        o, after = self._body(x, tensors)
        extra = []
        if keys is not None:
            source = model.source
            assert source is not None
            assert source.attention is not None
            if not self.encodes:
                extra = [o]
            present = torch.ones_like(keys[..., 0], dtype=torch.bool)
            o = source.attention(o[None], keys, present)[0]
        return (model.logits(o), *extra, *after)

    def _body(self, x: Tensor, state: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
        body = self.model.body
        if isinstance(body, PlainBody):
            o, after = body.step(x, (PlainState if body.lstm is None else LSTMState)(*state))
            return o, list(after)
        if isinstance(body, MemoryRNN):
            return _head(body, x, state)
        tensors = iter(state)
        sizes = [2 + head.has_c + len(head.memory.export_state()) for head in self.heads]
        o, by_head = body.run(x, [list(islice(tensors, size)) for size in sizes], _head)
        return o, [tensor for carried in by_head for tensor in carried]


def _head(head: MemoryRNN, x: Tensor, state: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    """One step by the memory's equations."""
    parts, (read, *before) = state[: 1 + head.has_c], state[1 + head.has_c :]
    controller = head.cell(torch.cat([x, read], dim=-1), tuple(parts) if head.has_c else parts[0])
    h = controller[0] if head.has_c else controller
    if head.num_memories > 1:
        before = [tensor.flatten(0, 1) for tensor in before]
    reads, after = head.memory.export_step(*head.controls(h), before)
    read = reads.reshape(x.shape[0], -1)
    carried = [*(controller if head.has_c else [h]), read, *_by_row(head, after, x.shape[0])]
    return torch.tanh(head.output(h)), carried


def _by_row(head: MemoryRNN, tensors: Iterable[Tensor], batch: int) -> list[Tensor]:
    """Part the cells of several memories [B M, N, ...] by the rows of the batch, [B, M, N, ...]."""
    if head.num_memories == 1:
        return list(tensors)
    return [tensor.reshape(batch, head.num_memories, *tensor.shape[1:]) for tensor in tensors]


def export_onnx(model: Transducer, path: str | Path) -> list[Path]:
    """Write the step, and beside it NAME-source.onnx if the model has an encoder; what was written.

    Everything that a host needs besides is in the step's metadata, as JSON under `pushpop`.
    """
    try:
        import onnx  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise InputError(
            f"export needs the package {error.name}: install pushpop with its extra onnx, as in "
            "pip install 'pushpop[onnx]'"
        ) from None
    path = Path(path)
    training = model.training
    model.eval()
    try:
        written = {path: _step_graph(model)}
        if model.source is not None and model.source.encoder is not None:
            name = path.with_name(f"{path.stem}-source{path.suffix}")
            written[name] = source_graph(model.input_table.weight, model.source.encoder)
    finally:
        model.train(training)
    for name, graph in written.items():
        with writing(name):
            write_file(name, graph.SerializeToString())
    return list(written)


def _step_graph(model: Transducer) -> Any:
    step = TransducerStep(model)
    dtype = model.output_table.weight.dtype
    B, S = 2, 4
    inputs: dict[str, tuple[Tensor, dict[int, str]]] = {
        "symbol": (torch.zeros(B, dtype=torch.int64), {0: "B"})
    }
    if step.encodes:
        width = model.config.embedding
        inputs["vector"] = torch.zeros(B, width, dtype=dtype), {0: "B"}
    if step.attends:
        assert model.source is not None
        assert model.source.attention is not None
        width = model.source.attention.query.out_features
        inputs["keys"] = torch.zeros(S, B, width, dtype=dtype), {0: "S", 1: "B"}
    state = step.start(B)
    for name, (tensor, axis) in state.items():
        if axis:  # some cells: 0 or 1 would not be taken for free
            place = 2 if model.config.memories > 1 else 1
            shape = (*tensor.shape[:place], 3, *tensor.shape[place + 1 :])
            inputs[name] = torch.zeros(shape, dtype=dtype), {0: "B", place: axis}
        else:
            inputs[name] = tensor.detach(), {1 if tensor.dim() == 3 else 0: "B"}
    keys_out = ["key"] if step.attends and not step.encodes else []
    tensors, axes = zip(*inputs.values(), strict=True)
    with _silent_exporter(), torch.no_grad():
        program = torch.onnx.export(
            step,
            tensors,
            input_names=list(inputs),
            output_names=["logits", *keys_out, *(f"{name}_after" for name in state)],
            dynamic_shapes=(axes[0], axes[1:]),
            dynamo=True,
            verbose=False,
        )
    assert program is not None
    graph = program.model_proto
    tags = isinstance(model, Tagger)  # it reads the source alone, and never says it has finished
    about = {
        "form": model.form,
        "vocabulary": model.vocabulary.to_dict(),
        "text": None if model.text is None else model.text.to_dict(),
        "SOS": None if tags else model.vocabulary.SOS,
        "SEP": None if tags or not model.vocabulary.source else model.vocabulary.SEP,
        "EOS": None if tags else model.vocabulary.EOS,
        "source_input_start": model.vocabulary.source_input_start,
        "target_input_start": model.vocabulary.target_input_start,
        "target_output_start": 0 if tags else model.vocabulary.target_output_start,
        "state": {
            name: {"shape": list(tensor.shape), "values": tensor.flatten().tolist()}
            for name, (tensor, _) in step.start(1).items()
        },
    }
    entry = graph.metadata_props.add()
    entry.key, entry.value = "pushpop", json.dumps(about, ensure_ascii=False)
    return graph


@contextmanager
def _silent_exporter() -> Iterator[None]:
    """Silence the exporter about itself and about torchvision, which is not needed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def source_graph(table: Tensor, encoder: SourceEncoder) -> Any:
    """An encoder as a graph: source ids [S, B] -> vectors [S, B, E] and keys [S, B, K].

    Rows of a batch have one length, SOS and SEP included. Written by hand, because torch's exporter
    fixes the length of an LSTM's input.
    """
    from onnx import TensorProto, helper, numpy_helper

    lstm = encoder.lstm
    by_name = {name: _onnx_gates(weight) for name, weight in lstm.named_parameters()}
    ways = ("l0", "l0_reverse")
    weights = {
        "table": table,
        "W": torch.stack([by_name[f"weight_ih_{way}"] for way in ways]),
        "R": torch.stack([by_name[f"weight_hh_{way}"] for way in ways]),
        "B": torch.stack(
            [torch.cat([by_name[f"bias_ih_{way}"], by_name[f"bias_hh_{way}"]]) for way in ways]
        ),
        "by_keys": encoder.output.weight.T,
        "bias": encoder.output.bias,
    }
    constants = [
        numpy_helper.from_array(np.ascontiguousarray(tensor.detach().cpu().numpy()), name)
        for name, tensor in weights.items()
    ]
    constants.append(numpy_helper.from_array(np.array([0, 0, -1]), "joined"))
    node = helper.make_node
    nodes = [
        node("Gather", ["table", "source"], ["x"]),
        node("LSTM", ["x", "W", "R", "B"], ["ends"], direction="bidirectional",
             hidden_size=lstm.hidden_size),
        node("Transpose", ["ends"], ["turned"], perm=[0, 2, 1, 3]),  # [S, 2, B, H] -> [S, B, 2, H]
        node("Reshape", ["turned", "joined"], ["keys"]),
        node("MatMul", ["keys", "by_keys"], ["context"]),
        node("Add", ["context", "bias"], ["shifted"]),
        node("Add", ["x", "shifted"], ["vectors"]),
    ]  # fmt: skip
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(str(table.dtype).removeprefix("torch.")))
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "source",
        [value("source", TensorProto.INT64, ["S", "B"])],
        [
            value("vectors", kind, ["S", "B", table.shape[1]]),
            value("keys", kind, ["S", "B", encoder.width]),
        ],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=9)


def _onnx_gates(weight: Tensor) -> Tensor:
    """Reorder torch's gates (input, forget, cell, output) to input, output, forget, cell."""
    i, f, g, o = weight.chunk(4)
    return torch.cat([i, o, f, g])
