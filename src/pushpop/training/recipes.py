"""Recipes: values for options that neither the command line nor a file gives.

What a recipe leaves out keeps the default, which is the paper's.
"""

from collections.abc import Callable
from typing import Any, Literal

from pushpop.tasks.pairs_text import count_lines

RecipeName = Literal["paper", "pushpop", "chomsky", "pairs", "labels", "lm"]
FORMER_RECIPE = "by-task"
"""A recipe that is no more: saved runs have its name, and all of its values."""
Recipe = Callable[[str, str, int], dict[str, Any]]
"""A function of the task's name or file, the memory, and the longest source in training."""

FEW_PAIRS = 2000
"""Lines of a file below which the recipe `pairs` takes small batches."""

SEEN_LINES = 200_000
"""Lines that a run of the recipe `lm` sees at least: of a shorter file, each several times."""

IN_ORDER = {
    "stack": "push_bias=1",
    "queue": "push_bias=1",
    "deque": "push_bias=1,-8 pop_bias=-8,-1",
}
"""Biases with which a memory at first keeps what it is given: pushes open, pops shut. A deque has
one end to push at and the other to pop at, as a queue: if both ends push, the first symbol lies in
the middle, out of reach."""


CARRYING: dict[str, Any] = {
    "memories": 2,
    "push_bias": [[0.0, 0.0], [0.66, -1.61]],
    "skip_attention": 0.5,
    "shorter_first": 600,
}
"""What makes a model with attention learn to use its memory, and so carry to longer inputs: two
deques, one that starts as two stacks and one that starts as a queue, and batches without attention,
for as long as the memory learns (docs/own-data.md)."""


def pushpop(memory: str, longest: int) -> dict[str, Any]:
    """One setting for all tasks: it knows the memory and the training lengths, and nothing else.

    A small controller with quiet inputs cannot hold much by itself. Two starts race: one has short
    sources first and keeps them in order; the other has longer sources, which no controller holds,
    and gates as they are drawn. Sources of every length from 1 on are trained on, equally often.
    Once full length is learnt, noise rises on the gates of the memory and of the controller, so
    that only gates near 0 and 1 keep working, and the learning rate fades; a fall takes back the
    last good weights. When the rate has faded, training is over.
    """
    in_order = f"curriculum_start={min(10, longest)} {IN_ORDER.get(memory, '')}".strip()
    return {
        "hidden": 96,
        "memory_width": 64,
        "input_scale": 0.2,
        "train_lengths": f"1-{longest}",
        "uniform_lengths": True,
        "learning_rate": 3e-3,
        "curriculum_start": min(10, longest),
        "curriculum_below": 2.0,
        "starts": f"{in_order}; curriculum_start={min(24, longest)}",
        "decay": 0.9993,
        "decay_below": 1.05,
        "gate_noise": 2.0,
        "controller_noise": 2.0,
        "noise_rise": 300,
        "guard": 4.0,
        "steps": 20_000,
        "until_faded": 0.01,
    }


def chomsky() -> dict[str, Any]:
    """One setting for the tasks of the Chomsky-hierarchy benchmark: its lengths, small models.

    Short sources of few symbols can be guessed or counted, so there is no curriculum. Gradients are
    means over many symbols, so that holding their elements to 1 would hold nothing.
    """
    return {
        "embedding": 16,
        "hidden": 64,
        "memory_width": 32,
        "train_lengths": "1-40",
        "test_lengths": "41-500",
        "batch_size": 128,
        "optimiser": "adam",
        "learning_rate": 3e-3,
        "clip": 0.01,
        "decay": 0.999,
        "decay_below": 1.05,
        "gate_noise": 2.0,
        "noise_rise": 300,
        "guard": 4.0,
        "steps": 10_000,
        "cooldown": 3000,
        "until_faded": 0.01,
    }


def pairs(count: int) -> dict[str, Any]:
    """For hundreds to tens of thousands of given pairs, so many: much help, and much
    regularisation."""
    return {
        "memory": "deque",
        "embedding": 64,
        "hidden": 128,
        "memory_width": 64,
        "input_scale": 0.2,
        "output_scale": 1.0,
        "encoder": "bidirectional",
        "attention": True,
        **CARRYING,
        "dropout": 0.3,
        "label_smoothing": 0.1,
        "optimiser": "adam",
        "learning_rate": 3e-3,
        "warmup": 100,
        "epochs": 100,
        "steps": 1_000_000,
        **by_count(count),
    }


def by_count(count: int) -> dict[str, Any]:
    """What depends on the number of pairs.

    Hundreds of pairs make few updates an epoch, so they are seen in small batches and often;
    thousands need neither, and would take too long.
    """
    few = count < FEW_PAIRS
    return {
        "batch_size": 8 if few else 32,
        "plateau": 5 if few else 2,
        "patience": 15 if few else 6,
    }


def labels(count: int) -> dict[str, Any]:
    """For files whose targets are labels, one for each source symbol: `pairs` for a tagger, which
    reads its source once."""
    values = {**pairs(count), "form": "tagger"}
    without = {"encoder": "none", "attention": False}
    return {name: values[name] for name in values if name not in CARRYING} | without


def lm(count: int) -> dict[str, Any]:
    """For lines to generate more of, from hundreds to millions."""
    return {
        "form": "lm",
        "memory": "deque",
        "embedding": 64,
        "hidden": 256,
        "memory_width": 64,
        "batch_size": 64,
        "optimiser": "adam",
        "learning_rate": 2e-3,
        "cosine": True,
        "steps": 1_000_000,
        **by_lines(count),
    }


def by_lines(count: int) -> dict[str, Any]:
    """What depends on the number of lines. Every line of a long file is new, so that there is
    nothing to learn by heart, and nothing is dropped."""
    epochs = min(100, max(1, round(SEEN_LINES / max(1, count))))
    return {"epochs": epochs, "dropout": 0.2 if epochs > 1 else 0.0}


RECIPES: dict[RecipeName, Recipe] = {
    "paper": lambda task, memory, longest: {},
    "pushpop": lambda task, memory, longest: pushpop(memory, longest),
    "chomsky": lambda task, memory, longest: chomsky(),
    "pairs": lambda task, memory, longest: pairs(count_lines(task, FEW_PAIRS)),
    "labels": lambda task, memory, longest: labels(count_lines(task, FEW_PAIRS)),
    "lm": lambda task, memory, longest: lm(count_lines(task, SEEN_LINES)),
}
