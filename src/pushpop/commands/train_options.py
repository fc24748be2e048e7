"""The options of `pushpop train` and their help: the fields of `TrainConfig`, in groups."""

from argparse import ArgumentParser
from dataclasses import Field, fields
from typing import Any

from pushpop.training.config import DEFAULTS, TrainConfig
from pushpop.training.recipes import FEW_PAIRS, RECIPES, pairs_of

RUN_OPTIONS = {
    "--run": ("DIR", "the run's directory; by default runs/TASK-MEMORY-seedN"),
    "--resume": ("DIR", "go on with the run in this directory; --steps and the like may be new"),
    "--config": ("FILE", "a YAML or JSON file of options; the command line goes before it"),
}
GROUPS: dict[str, tuple[str, ...]] = {
    "recipe, task and data": (
        "recipe", "seed", "train_lengths", "test_lengths", "uniform_lengths",
    ),
    "files of pairs": (
        "valid", "hold_out", "columns", "source_symbols", "target_symbols", "normalise", "skip_bad",
    ),
    "model": (
        "memory", "form", "cell", "layers", "heads", "embedding", "hidden", "memory_width",
        "memories", "encoder", "attention", "dropout", "push_bias", "pop_bias", "input_scale",
        "output_scale",
    ),
    "training": (
        "batch_size", "optimiser", "learning_rate", "rmsprop_alpha", "epsilon", "clip",
        "label_smoothing", "warmup", "cooldown", "plateau",
    ),
    "schedule: short sources first, a race of starts, decay, noise": (
        "window", "curriculum_start", "curriculum_below", "starts", "race_steps", "decay",
        "decay_below", "gate_noise", "controller_noise", "noise_rise", "guard",
    ),
    "when to stop, and what is kept": (
        "steps", "epochs", "minutes", "until_solved", "until_faded", "converged_after", "patience",
        "keep",
    ),
    "reports, checkpoints and the machine": (
        "report_every", "evaluate_every", "evaluate_sequences", "checkpoint_every", "tensorboard",
        "device", "threads",
    ),
}  # fmt: skip
"""The options of `TrainConfig` but for the task; what is left out comes last."""
METAVARS: dict[Any, str] = {int: "N", float: "X", bool: "true|false"}


def add_options(parser: ArgumentParser) -> None:
    """An option for every field of `TrainConfig`, which reads the text; and what is about runs."""
    known = {each.name: each for each in fields(TrainConfig)}
    parser.usage = "pushpop train [TASK] [--recipe RECIPE] [--memory MEMORY] [options]"
    parser.add_argument("task", nargs="?", metavar="TASK", help=known["task"].metadata["help"])
    run = parser.add_argument_group("run")
    for option, (metavar, text) in RUN_OPTIONS.items():
        run.add_argument(option, metavar=metavar, help=text)
    run.add_argument(
        "--print-config", action="store_true", help="print all options as YAML and leave"
    )
    listed = {"task", *(name for names in GROUPS.values() for name in names)}
    others = {"others": tuple(name for name in known if name not in listed)}
    for title, names in {**GROUPS, **others}.items():
        group = parser.add_argument_group(title)
        for name in names:
            each = known[name]
            switch: dict[str, Any] = {"nargs": "?", "const": "true"} if each.type is bool else {}
            metavar = METAVARS.get(each.type, name.rpartition("_")[2].upper())
            metavar = "FILE" if name == "valid" else metavar
            option = f"--{name.replace('_', '-')}"
            group.add_argument(option, metavar=metavar, help=option_help(each), **switch)


def option_help(each: "Field[Any]") -> str:
    """What an option is for, and its values: by default, and where a recipe has others."""
    values = "; ".join(f"{who}: {value}" for who, value in option_values(each.name).items())
    return f"{each.metadata['help']} ({values})".replace("%", "%%")


def option_values(name: str) -> dict[str, str]:
    """The default of an option, and what it is under the recipes that have another value: of a
    stack and the default lengths, of the Chomsky-hierarchy tasks, of few pairs in a file and of
    many."""
    default = DEFAULTS[name]
    longest = int(DEFAULTS["train_lengths"].partition("-")[2])
    pushpop = RECIPES["pushpop"]("", DEFAULTS["memory"], longest).get(name, default)
    chomsky = {"recipe": "chomsky", **RECIPES["chomsky"]("", "", longest)}.get(name, default)
    few, many = (
        {"recipe": "pairs", **pairs_of(few=few)}.get(name, default) for few in (True, False)
    )
    labels = {**RECIPES["labels"]("", "", longest), "recipe": "labels"}.get(name, default)
    found = {"default": _shown(default)}
    if pushpop != default:
        found["recipe pushpop"] = _shown(pushpop)
    if chomsky != default:
        found["chomsky/ tasks"] = _shown(chomsky)
    if few != default:
        found["a file"] = _shown(few)
    if many != few:
        found["a file"] += f", from {FEW_PAIRS:,} pairs on {_shown(many)}"
    if labels != few:
        found["a file of labels"] = _shown(labels)
    return found


def _shown(value: Any) -> str:
    return "none" if value is None or value == "" else str(value).lower()
