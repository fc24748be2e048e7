"""An encoder as an ONNX graph: source ids [S, B] -> vectors [S, B, E] and keys [S, B, K].

Written by hand, because torch's exporter fixes the length of an LSTM's input. ONNX has the gates in
the order input, output, forget, cell; torch in the order input, forget, cell, output.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from pushpop.models.source import SourceEncoder

OPSET = 17


def source_graph(table: Tensor, encoder: SourceEncoder) -> Any:
    """The graph; rows of a batch have one length, SOS and SEP included."""
    from onnx import TensorProto, helper, numpy_helper

    lstm = encoder.lstm
    by_name = {name: _gates(weight) for name, weight in lstm.named_parameters()}
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


def _gates(weight: Tensor) -> Tensor:
    i, f, g, o = weight.chunk(4)
    return torch.cat([i, o, f, g])
