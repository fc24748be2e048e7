"""Small transducers and the symbols they know."""

from collections.abc import Sequence
from typing import Any

import torch

from pushpop import Transducer, TransducerConfig
from pushpop.tasks import Batch, Pairs, Vocabulary, make_batch

BODIES: dict[str, dict[str, Any]] = {
    "stack": {"memory": "stack"},
    "queue-gru": {"memory": "queue", "cell": "gru"},
    "deque": {"memory": "deque"},
    "stack-rnn": {"memory": "stack", "cell": "rnn"},
    "lstm-1": {"memory": "none"},
    "lstm-3": {"memory": "none", "layers": 3},
    "gru-2": {"memory": "none", "cell": "gru", "layers": 2},
    "rnn-1": {"memory": "none", "cell": "rnn"},
    "heads-2": {"memory": "queue", "heads": 2},
    "layers-2": {"memory": "stack", "layers": 2},
    "memories-2": {"memory": "deque", "memories": 2},
    "superposition": {"memory": "superposition"},
    "tape": {"memory": "tape"},
}
READERS: dict[str, dict[str, Any]] = {  # models that read the whole source at once
    "encoder": {"memory": "queue", "encoder": "bidirectional"},
    "attention": {"memory": "stack", "attention": True},
    "both": {"memory": "deque", "encoder": "bidirectional", "attention": True},
    "both-lstm-2": {
        "memory": "none", "layers": 2, "encoder": "bidirectional", "attention": True,
    },
}  # fmt: skip
VOCABULARY = Vocabulary(("a", "b", "c"), ("x", "y"))


def small_model(
    body: str = "stack", vocabulary: Vocabulary = VOCABULARY, seed: int = 0, sharp: float = 4.0
) -> Transducer:
    """Sizes of a few units; a larger output table makes the model surer of what it says."""
    torch.manual_seed(seed)
    config = TransducerConfig(embedding=5, hidden=7, memory_width=4, **(BODIES | READERS)[body])
    model = Transducer(config, vocabulary)
    with torch.no_grad():
        model.output_table.weight.normal_(std=sharp)
    return model


def lively_model(body: str = "stack") -> Transducer:
    """A model with large weights whose targets have many lengths."""
    seeds = {"stack": 23, "queue-gru": 21, "deque": 1, "stack-rnn": 27, "lstm-1": 23, "lstm-3": 4}
    seeds |= {
        "gru-2": 10,
        "rnn-1": 0,
        "heads-2": 0,
        "layers-2": 0,
        "memories-2": 1,
        "superposition": 23,
        "tape": 23,
    }
    seeds |= {"encoder": 19, "attention": 0, "both": 8, "both-lstm-2": 6}
    model = small_model(body, seed=seeds[body]).double()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith("_table.weight"):
                parameter *= 6
    return model


def batch_of(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]], vocabulary: Vocabulary = VOCABULARY
) -> Batch:
    """Pairs of symbol numbers as tensors."""
    return make_batch(Pairs.of(pairs), vocabulary)
