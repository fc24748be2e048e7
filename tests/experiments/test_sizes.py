"""The sizes of the paper's models."""

import pytest
import torch

from pushpop import Transducer, TransducerConfig
from pushpop.cli import main
from pushpop.experiments.paper import (
    HIDDEN,
    MEMORY_WIDTH,
    PAPER_MODELS,
    PAPER_SIZES,
    count_parameters,
    model_options,
)
from pushpop.tasks import get_task

CORES = {
    "lstm1": (328_704, 1_181_696),
    "lstm2": (919_552, 3_411_968),
    "lstm4": (2_101_248, 7_872_512),
    "lstm8": (4_464_640, 16_793_600),
    "stack": (673_602, 1_871_170),
    "queue": (673_602, 1_871_170),
    "deque": (1_002_052, 2_527_812),
}


@pytest.mark.parametrize("which", [0, 1], ids=["256", "512"])
@pytest.mark.parametrize("model", PAPER_MODELS)
def test_the_core_has_the_size_that_the_paper_prints(model: str, which: int) -> None:
    size = count_parameters(model, HIDDEN[which], get_task("copy").vocabulary)
    layers = model_options(model)["layers"]
    assert size.core == CORES[model][which]
    assert abs(size.core / PAPER_SIZES[model][which] - 1) < 0.016  # two digits are printed
    assert size.start == 2 * layers * HIDDEN[which]
    projection = 0 if not model.startswith("lstm") else (HIDDEN[which] + 1) * 64
    assert size.total == size.core + size.start + projection + (258 + 129) * 64


@pytest.mark.parametrize("model", PAPER_MODELS)
def test_sizes_are_those_of_a_real_model(model: str) -> None:
    vocabulary = get_task("svo-sov").vocabulary
    options = {**model_options(model), "embedding": 24, "hidden": 40, "memory_width": MEMORY_WIDTH}
    with torch.device("meta"):
        built = Transducer(TransducerConfig(**options), vocabulary)
    counts = {name: parameter.numel() for name, parameter in built.named_parameters()}
    size = count_parameters(model, 40, vocabulary, embedding=24)
    assert size.total == sum(counts.values())
    assert size.start == sum(count for name, count in counts.items() if name.endswith(("h0", "c0")))
    outside = ("input_table", "output_table", *(["body.output"] if "lstm" in model else []))
    core = sum(count for name, count in counts.items() if not name.startswith(outside))
    assert size.core == core - size.start


def test_the_command_prints_every_figure_within_80_columns(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    main(["sizes"])
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 80
    assert "…" not in printed
    for model, cores in CORES.items():
        rows = [line for line in printed.splitlines() if PAPER_MODELS[model] in line]
        assert [f"{core:,}" in row for core, row in zip(cores, rows, strict=True)] == [True, True]
    assert "9.1e5" in printed


def test_other_embeddings_give_other_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    main(["sizes", "--embedding", "32"])
    printed = capsys.readouterr().out
    assert f"{4 * 256 * (32 + 256 + 1):,}" in printed


def test_an_impossible_embedding_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["sizes", "--embedding", "0"])
    assert "embedding is 0, expected" in capsys.readouterr().err
