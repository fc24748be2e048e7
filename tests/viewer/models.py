"""Small random models for the viewer's tests."""

import torch

from pushpop import Transducer, TransducerConfig
from pushpop.tasks import get_task
from pushpop.viewer.catalogue import Entry


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


def entries() -> dict[str, Entry]:
    """A model of each kind."""
    tasks = {"stack": "reverse", "queue": "copy", "deque": "svo-sov", "none": "flip"}
    tasks |= {"superposition": "reverse", "tape": "copy"}
    return {
        f"{task}-{memory}": Entry(f"{task}-{memory}", random_model(memory, task), task)
        for memory, task in tasks.items()
    }
