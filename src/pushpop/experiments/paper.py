"""The paper's tasks, models, results and model sizes, under the names that presets and reports use.

Results and sizes are those of the tables in Grefenstette, Hermann, Suleyman and Blunsom, "Learning
to Transduce with Unbounded Memory" (2015).
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from pushpop.errors import InputError
from pushpop.memory.kinds import MEMORY_NAMES
from pushpop.models.config import WIDEST
from pushpop.tasks import Vocabulary, get_task
from pushpop.training import TrainConfig

PAPER_TASKS = {
    "copy": "Sequence copying",
    "reverse": "Sequence reversal",
    "flip": "Bigram flipping",
    "svo-sov": "SVO to SOV",
    "gender": "Gender conjugation",
}
PAPER_MODELS = {
    "lstm1": "1-layer LSTM",
    "lstm2": "2-layer LSTM",
    "lstm4": "4-layer LSTM",
    "lstm8": "8-layer LSTM",
    "stack": "Stack-LSTM",
    "queue": "Queue-LSTM",
    "deque": "DeQue-LSTM",
}
HIDDEN = (256, 512)
MEMORY_WIDTH = 256
PAPER_SIZES: dict[str, tuple[float, float]] = {  # at hidden 256 and 512
    "lstm1": (3.3e5, 1.2e6),
    "lstm2": (9.1e5, 3.4e6),
    "lstm4": (2.1e6, 7.8e6),
    "lstm8": (4.5e6, 1.7e7),
    "stack": (6.7e5, 1.9e6),
    "queue": (6.7e5, 1.9e6),
    "deque": (1.0e6, 2.5e6),
}


@dataclass(frozen=True)
class Accuracies:
    """A row of the paper's table."""

    train_coarse: float
    train_fine: float
    test_coarse: float
    test_fine: float


@cache
def paper_results() -> dict[tuple[str, str], Accuracies]:
    """The paper's 35 rows by (task, model)."""
    text = (files("pushpop.experiments") / "paper.json").read_text("utf-8")
    rows = json.loads(text)["rows"]
    return {
        (task, model): Accuracies(*figures)
        for task, models in rows.items()
        for model, figures in models.items()
    }


def model_options(model: object) -> dict[str, Any]:
    """The options of training that a model's name stands for."""
    if model in MEMORY_NAMES:
        return {"memory": model, "layers": 1}
    match = re.fullmatch(r"(lstm|gru|rnn)([1-9]\d?)", model) if isinstance(model, str) else None
    if match is None:
        benchmarks = (name for name in PAPER_MODELS if name not in MEMORY_NAMES)
        known = ", ".join([*MEMORY_NAMES, *benchmarks, "gru1", "rnn1"])
        raise InputError(f"model is {model!r}, expected {known}")
    options: dict[str, Any] = {"memory": "none", "layers": int(match[2])}
    return options if match[1] == "lstm" else {**options, "cell": match[1]}


def model_name(config: TrainConfig) -> str:
    """The name of the model that options describe: what is in its memory's place."""
    return f"{config.cell}{config.layers}" if config.memory == "none" else config.memory


@dataclass(frozen=True)
class Size:
    """Numbers of parameters."""

    core: int  # what the paper counts
    start: int  # learned initial states
    total: int  # everything, embeddings included


@dataclass(frozen=True)
class SizeRow:
    """A model of the paper: its figure, as it is printed there, beside ours."""

    model: str
    hidden: int
    paper: str
    size: Size
    off: str  # our core against the paper's figure, in per cent


def size_rows(embedding: int = 64) -> Iterator[SizeRow]:
    """The paper's models for the copy task, the narrow ones first."""
    vocabulary = get_task("copy").vocabulary
    for column, hidden in enumerate(HIDDEN):
        for model, figures in PAPER_SIZES.items():
            size = count_parameters(model, hidden, vocabulary, embedding)
            paper = f"{figures[column]:.1e}".replace("e+0", "e")
            off = f"{size.core / figures[column] - 1:+.1%}"
            yield SizeRow(PAPER_MODELS[model], hidden, paper, size, off)


def count_parameters(model: str, hidden: int, vocabulary: Vocabulary, embedding: int = 64) -> Size:
    """The size of one of the paper's models as a transducer, without making it.

    The core has no embeddings, no learned initial states, and the projection to the output
    embedding only where a memory is.
    """
    if not 1 <= embedding <= WIDEST:
        raise InputError(f"embedding is {embedding}, expected a whole number from 1 to {WIDEST}")
    layers = model_options(model)["layers"]
    projection = (hidden + 1) * embedding
    if model in MEMORY_NAMES:
        ends, width = (2 if model == "deque" else 1), MEMORY_WIDTH
        gates_and_values = (hidden + 1) * (2 * ends + ends * width)
        core = _lstm(embedding + ends * width, hidden) + gates_and_values + projection
        outside = 0
    else:  # layers above the first read the input too
        core = _lstm(embedding, hidden) + (layers - 1) * _lstm(embedding + hidden, hidden)
        outside = projection
    start = 2 * layers * hidden
    tables = (vocabulary.input_size + vocabulary.output_size) * embedding
    return Size(core, start, core + start + outside + tables)


def _lstm(inputs: int, hidden: int) -> int:
    """An LSTM layer: weights of the input and of h, and a bias, for each of four gates."""
    return 4 * hidden * (inputs + hidden + 1)
