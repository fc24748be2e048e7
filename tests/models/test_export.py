"""A step as an ONNX graph, run by onnxruntime in a loop of the host's."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

from pushpop import Tagger, Transducer, TransducerConfig
from pushpop.errors import InputError
from pushpop.models.export import export_onnx, source_graph
from pushpop.tasks import Vocabulary
from pushpop.tasks.pairs_text import TextForm
from tests.models.examples import lively_model

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
onnxruntime = pytest.importorskip("onnxruntime")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "onnx_decoding", ROOT / "examples/onnx_decoding.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["onnx_decoding"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def deque(tmp_path_factory: pytest.TempPathFactory) -> tuple[Transducer, Path]:
    model = lively_model("deque")
    path = tmp_path_factory.mktemp("onnx") / "step.onnx"
    assert export_onnx(model, path) == [path]
    return model, path


@pytest.mark.slow
def test_steps_from_the_empty_memory_on_equal_torch_at_any_batch_and_length(
    deque: tuple[Transducer, Path],
) -> None:
    model, path = deque
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    about = json.loads(session.get_modelmeta().custom_metadata_map["pushpop"])
    names = [each.name for each in session.get_outputs()]
    for batch, steps in ((1, 1), (3, 40)):  # it was traced with a batch of 2 and 3 cells
        inputs = torch.randint(7, (steps, batch), generator=torch.Generator().manual_seed(0))
        wanted, _ = model(inputs)
        state = {
            name: np.repeat(np.array(start["values"]).reshape(start["shape"]), batch, axis=0)
            for name, start in about["state"].items()
        }
        for t in range(steps):
            found = session.run(None, {"symbol": inputs[t].numpy(), **state})
            named: dict[str, Any] = dict(zip(names, found, strict=True))
            np.testing.assert_allclose(named["logits"], wanted[t].detach().numpy(), atol=1e-9)
            state = {name: named[f"{name}_after"] for name in state}
        assert state["values"].shape == (batch, 2 * steps, 4)
        assert state["strengths"].shape == (batch, 2 * steps)


@pytest.mark.slow
@pytest.mark.parametrize(
    "body", ["deque", "memories-2", "both", "attention", "superposition", "tape"]
)
def test_a_host_decodes_what_torch_decodes(
    body: str, example: ModuleType, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if body == "deque":
        model, path = request.getfixturevalue("deque")
    else:
        model = lively_model(body).float()  # onnxruntime has no LSTM in double precision
        path = tmp_path / "step.onnx"
        export_onnx(model, path)
    decoder = example.Decoder(path)
    for source in ("", "a", "a b c", "c c a b a b a a c b a c"):
        (best,) = model.decode([source], max_length=20)[0]
        assert decoder.decode(source.split(), most=20) == list(best.symbols)


def test_export_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(InputError, match=r"pip install 'pushpop\[onnx\]'"):
        export_onnx(lively_model("stack"), tmp_path / "step.onnx")


@pytest.mark.parametrize(("length", "batch"), [(2, 1), (9, 3)])
def test_an_encoder_equals_torch_at_any_length_and_batch(length: int, batch: int) -> None:
    model = lively_model("both").float()
    assert model.source is not None
    encoder = model.source.encoder
    assert encoder is not None
    graph = source_graph(model.input_table.weight, encoder)
    session = onnxruntime.InferenceSession(
        graph.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    ids = torch.randint(7, (length, batch), generator=torch.Generator().manual_seed(0))
    wanted = encoder(model.input_table(ids), torch.full((batch,), length))
    for found, tensor in zip(session.run(None, {"source": ids.numpy()}), wanted, strict=True):
        np.testing.assert_allclose(found, tensor.detach().numpy(), atol=1e-5)


@pytest.mark.slow
def test_the_example_reads_and_writes_text_as_the_model_does(
    example: ModuleType, tmp_path: Path
) -> None:
    vocabulary = Vocabulary(("a", "é", " ", "<PST>"), ("x", "y"))
    form = TextForm("chars", "chars", features=True)
    config = TransducerConfig(memory="stack", embedding=5, hidden=7, memory_width=4)
    model = Transducer(config, vocabulary, text=form)
    export_onnx(model, tmp_path / "step.onnx")
    decoder = example.Decoder(tmp_path / "step.onnx")
    line = " e\u0301 a\tPST"
    symbols = decoder.read(line)
    assert symbols == form.read_line(line) == ["<PST>", "é", " ", "a"]
    (best,) = model.decode([line], max_length=20)[0]
    assert decoder.write(decoder.decode(symbols, most=20)) == best.text


@pytest.mark.slow
def test_a_tagger_without_a_memory_is_run_by_the_example_too(
    example: ModuleType, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    config = TransducerConfig(memory="none", cell="gru", layers=2, embedding=5, hidden=7)
    for blank in (None, "_"):
        model = Tagger(config, Vocabulary(("a", "b", "_"), ("x", "y"), blank=blank))
        with torch.no_grad():
            model.output_table.weight.normal_(std=4)
        export_onnx(model, tmp_path / "step.onnx")
        decoder = example.Decoder(tmp_path / "step.onnx")
        assert decoder.about["form"] == "tagger"
        assert [decoder.about[name] for name in ("SOS", "SEP", "EOS")] == [None] * 3
        source = "a b b a _ _"
        assert " ".join(decoder.decode(source.split())) == model.transduce([source])[0]
