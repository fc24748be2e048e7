"""The commands, a function each; its parameters are its options, its docstring their help.

Heavy imports stand inside the functions, so that `pushpop --help` is quick.
"""

from collections.abc import Callable

from pushpop.commands.check import check
from pushpop.commands.evaluate import evaluate
from pushpop.commands.export import export
from pushpop.commands.inspect import sample, sizes, tasks, version
from pushpop.commands.models import models
from pushpop.commands.report import report
from pushpop.commands.serve import serve
from pushpop.commands.sweep import sweep
from pushpop.commands.trace import trace
from pushpop.commands.train import train
from pushpop.commands.transduce import transduce

COMMANDS: dict[str, Callable[..., None]] = {
    "version": version,
    "tasks": tasks,
    "models": models,
    "sample": sample,
    "sizes": sizes,
    "train": train,
    "evaluate": evaluate,
    "transduce": transduce,
    "export": export,
    "sweep": sweep,
    "report": report,
    "trace": trace,
    "serve": serve,
    "check": check,
}
SHORT = {("sample", "count"): "-n", ("trace", "out"): "-o"}
"""Options that have a letter too."""
OPTIONAL = {
    ("evaluate", "pairs"): "?",
    ("transduce", "file"): "?",
    ("trace", "input"): "?",
    ("serve", "models"): "*",
}
"""Arguments that are not options and may be left out; "*": or be many."""
