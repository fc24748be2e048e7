"""The paper's tasks, models and results, under the names that presets and reports use."""

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from pushpop.errors import InputError
from pushpop.memory import MEMORIES
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
    if model in MEMORIES:
        return {"memory": model, "layers": 1}
    match = re.fullmatch(r"(lstm|gru|rnn)([1-9]\d?)", model) if isinstance(model, str) else None
    if match is None:
        benchmarks = (name for name in PAPER_MODELS if name not in MEMORIES)
        known = ", ".join([*MEMORIES, *benchmarks, "gru1", "rnn1"])
        raise InputError(f"model is {model!r}, expected {known}")
    found: dict[str, Any] = {"memory": "none", "layers": int(match[2])}
    return found if match[1] == "lstm" else {**found, "cell": match[1]}


def model_name(config: TrainConfig) -> str:
    """The name of the model that options describe: what is in its memory's place."""
    return f"{config.cell}{config.layers}" if config.memory == "none" else config.memory
