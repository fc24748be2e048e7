"""The commands, a function each; its parameters are its options, its docstring their help.

Heavy imports stand inside the functions, so that `pushpop --help` is quick.
"""

from collections.abc import Callable

from pushpop.commands.evaluate import evaluate
from pushpop.commands.inspect import sample, sizes, version
from pushpop.commands.serve import serve
from pushpop.commands.sweep import sweep
from pushpop.commands.trace import trace
from pushpop.commands.train import train

COMMANDS: dict[str, Callable[..., None]] = {
    "version": version,
    "sample": sample,
    "sizes": sizes,
    "train": train,
    "evaluate": evaluate,
    "sweep": sweep,
    "trace": trace,
    "serve": serve,
}
SHORT_OPTIONS = {
    "sample": {"count": ("-n", "how many pairs")},
    "trace": {"out": ("-o", "the file to write: .html (to step through), .png, .svg or .json")},
}
OPTIONAL_ARGUMENTS = {
    "trace": {"input": ("?", "symbols separated by spaces; by default a source of the task")},
    "serve": {"models": ("*", "shipped models by name, or folders; by default all shipped ones")},
}
