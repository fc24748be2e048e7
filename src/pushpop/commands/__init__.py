"""The commands: a dataclass each, whose fields are its options and whose docstring is its help.

Heavy imports stand inside the methods, so that `pushpop --help` is quick.
"""

from pushpop.commands.check import Check
from pushpop.commands.evaluate import Evaluate
from pushpop.commands.experiments import Report, Sweep
from pushpop.commands.generate import Generate
from pushpop.commands.listing import Sample, Sizes, Tasks, Version
from pushpop.commands.models import Export, Models
from pushpop.commands.trace import Serve, Trace
from pushpop.commands.train import Train
from pushpop.commands.transduce import Transduce
from pushpop.options import Command

COMMANDS: dict[str, type[Command]] = {
    "version": Version,
    "tasks": Tasks,
    "models": Models,
    "sample": Sample,
    "sizes": Sizes,
    "train": Train,
    "evaluate": Evaluate,
    "transduce": Transduce,
    "generate": Generate,
    "export": Export,
    "sweep": Sweep,
    "report": Report,
    "trace": Trace,
    "serve": Serve,
    "check": Check,
}
