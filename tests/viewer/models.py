"""Small random models for the viewer's tests."""

import torch

from pushpop import LanguageModel, Transducer, TransducerConfig
from pushpop.tasks import Vocabulary, get_task
from pushpop.tasks.pairs_text import TextForm
from pushpop.viewer.tracing import Entry


def random_model(memory: str, task: str = "copy", seed: int = 0) -> Transducer:
    """Twelve units with large weights, so that gates and outputs move."""
    torch.manual_seed(seed)
    config = TransducerConfig(memory=memory, hidden=12, memory_width=8, embedding=8)
    model = Transducer(config, get_task(task).vocabulary, {"task": task})
    with torch.no_grad():
        for parameter in model.body.parameters():
            parameter *= 3
        model.output_table.weight.normal_(std=2)
    return model


def text_model(memory: str = "queue", attention: bool = True, push: float = 0.0) -> Transducer:
    """A model of a file of pairs: its symbols are characters, and it attends to its source.

    `push` is added to what its gates are made of: far below 0, its memory stays empty.
    """
    torch.manual_seed(1)
    sizes = {"hidden": 12, "memory_width": 8, "embedding": 8}
    config = TransducerConfig(memory=memory, attention=attention, **sizes)
    symbols = ("<unk>", "a", "b", "c", " ")
    vocabulary = Vocabulary(symbols, symbols, unknown="<unk>")
    model = Transducer(config, vocabulary, {"task": "pairs.tsv"}, TextForm())
    with torch.no_grad():
        model.output_table.weight.normal_(std=2)
        for name, parameter in model.body.named_parameters():
            if "gate" in name and "bias" in name:
                parameter += push
    return model


WORDS = ("counterrevolutionary", "internationalisation", "a")


def two_memories() -> Transducer:
    """A model of long words with two memories under one controller."""
    torch.manual_seed(0)
    sizes = {"hidden": 12, "memory_width": 8, "embedding": 8, "memories": 2}
    model = Transducer(TransducerConfig(memory="deque", **sizes), Vocabulary(WORDS, WORDS))
    with torch.no_grad():
        for parameter in model.body.parameters():
            parameter *= 3
    return model


def line_model() -> LanguageModel:
    """A language model of lines of brackets and ring digits."""
    torch.manual_seed(2)
    config = TransducerConfig(memory="stack", hidden=12, memory_width=8, embedding=8)
    vocabulary = Vocabulary((), tuple("()1CO="))
    model = LanguageModel(config, vocabulary, {"task": "lines.txt"}, TextForm())
    with torch.no_grad():
        model.output_table.weight.normal_(std=2)
    return model


def entries() -> dict[str, Entry]:
    """A model of each kind."""
    tasks = {"stack": "reverse", "queue": "copy", "deque": "svo-sov", "none": "flip"}
    tasks |= {"superposition": "reverse", "tape": "copy"}
    return {
        f"{task}-{memory}": Entry(f"{task}-{memory}", random_model(memory, task), task)
        for memory, task in tasks.items()
    }
