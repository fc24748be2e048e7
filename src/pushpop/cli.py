"""The `pushpop` command: one function a sub-command, heavy imports inside them."""

import re
import sys
from argparse import Action
from collections.abc import Callable
from inspect import signature
from typing import Any

from jsonargparse import ArgumentError, ArgumentParser, DefaultHelpFormatter

from pushpop.errors import InputError, did_you_mean


def version() -> None:
    """Print the version of pushpop and of what it computes with."""
    from importlib.metadata import version as installed

    print(" ".join(f"{name} {installed(name)}" for name in ("pushpop", "torch", "numba", "numpy")))


def sample(task: str, count: int = 5, lengths: str = "8-12", seed: int = 0) -> None:
    """Print random pairs of a task, a line each: source ||| target.

    Args:
        task: copy, reverse, flip, svo-sov, gender, duplicate, odds-first, brackets, or the path
            of a grammar file (.itg)
        count: how many pairs, at least 1
        lengths: shortest and longest source, as in 8-12, or one length
        seed: the same seed gives the same pairs
    """
    from pushpop.tasks import batch_rng, get_task, parse_lengths

    chosen, bounds = get_task(task), parse_lengths(lengths)
    if count < 1:
        raise InputError(f"{count} pairs asked for: expected at least 1")
    for index in range(count):  # a batch a pair, so that more pairs begin with the same ones
        for source, target in chosen.sample(batch_rng(seed, "sample", index), 1, bounds):
            symbols = chosen.vocabulary.decode_source(source)
            print(*symbols, "|||", *chosen.vocabulary.decode_target(target))


def sizes(embedding: int = 64) -> None:
    """Print the numbers of parameters of the paper's models beside ours.

    Args:
        embedding: the width of the embeddings; the paper's figures are for 64
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    from pushpop.models.sizes import HIDDEN, PAPER, count_parameters, paper_config
    from pushpop.tasks import get_task

    vocabulary = get_task("copy").vocabulary
    table = Table(
        title=f"Parameters with embeddings of {embedding}, memories of 256",
        caption="paper, core: the recurrent core, without embeddings and initial states;\n"
        "off: core against paper; start: learned initial states;\n"
        "total: all of the transducer for the copy task",
        box=box.SIMPLE_HEAD,
    )
    for name in ("model", "hidden", "paper", "core", "off", "start", "total"):
        table.add_column(name, justify="left" if name == "model" else "right", no_wrap=True)
    for which, hidden in enumerate(HIDDEN):
        for model, figures in PAPER.items():
            size = count_parameters(paper_config(model, hidden, embedding), vocabulary)
            paper = figures[which]
            printed = f"{paper:.1e}".replace("e+0", "e")
            counts = (f"{count:,}" for count in (size.start, size.total))
            off = f"{size.core / paper - 1:+.1%}"
            table.add_row(model, str(hidden), printed, f"{size.core:,}", off, *counts)
        table.add_section()
    Console().print(table)


def train(
    task: str | None = None,
    run: str | None = None,
    resume: str | None = None,
    config: str | None = None,
    print_config: bool = False,
    **options: str | None,
) -> None:
    """Train a transducer; a run is a directory, and goes on where it was stopped."""
    import yaml

    from pushpop.training import Diverged, RunDirectory, TrainConfig, read_config_file
    from pushpop.training import train as run_training
    from pushpop.training.run import default_directory
    from pushpop.training.view import Plain, View

    given = {name: text for name, text in options.items() if text is not None}
    if task is not None:
        given["task"] = task
    if resume is not None:
        others = [*(f"--{name.replace('_', '-')}" for name in given if name != "task")]
        others += [name for name, value in (("--run", run), ("--config", config)) if value]
        others += ["TASK"] if task is not None else []
        if others:
            raise InputError(f"--resume goes on with a run's own options: leave out {others[0]}")
        settings, directory = RunDirectory(resume).config(), resume
    else:
        wanted = {**(read_config_file(config) if config else {}), **given}
        if "task" not in wanted and not print_config:
            raise InputError("no task given: expected pushpop train TASK, as in pushpop train copy")
        settings = TrainConfig.from_dict(wanted)
        directory = run or default_directory(settings)
    if print_config:
        print(yaml.safe_dump(settings.to_dict(), sort_keys=False), end="")
        return
    view: View = Plain()
    if sys.stdout.isatty():
        from pushpop.training.live import LiveView

        view = LiveView()
    try:
        run_training(settings, directory, view)
    except Diverged as error:
        print("pushpop:", error, file=sys.stderr)
        raise SystemExit(1) from None
    print(f"run: {directory}")


def evaluate(
    model: str, lengths: str = "65-128", sequences: int = 1000, seed: int = 0, task: str = ""
) -> None:
    """Print coarse and fine accuracy of a trained model.

    Args:
        model: a run directory (if the run is not finished, its latest checkpoint), or a saved model
        lengths: shortest and longest source, as in 65-128, or lengths one by one, as in 64,128,256
        sequences: how many pairs are drawn for each
        seed: the same seed gives the same pairs
        task: the task to draw from; by default the one that the model was trained on
    """
    from pushpop.evaluation import evaluate as accuracy
    from pushpop.tasks import get_task, parse_lengths
    from pushpop.training.trained import load_trained

    ranges = [parse_lengths(part) for part in lengths.split(",")]
    if sequences < 1:
        raise InputError(f"{sequences} sequences asked for: expected at least 1")
    found = load_trained(model, task, lambda text: print("pushpop:", text, file=sys.stderr))
    drawn = get_task(found.task)
    print(f"{found.what} on {drawn.name}, {sequences} sequences a row")
    print("  lengths  coarse    fine  perplexity")
    for low, high in ranges:
        row = accuracy(found.model, drawn, (low, high), sequences, seed=seed)
        name = f"{low}-{high}" if low < high else str(low)
        scores = f"{row['coarse']:6.3f}  {row['fine']:6.3f}  {row['perplexity']:10.4g}"
        print(f"{name:>9}  {scores}", flush=True)


COMMANDS: dict[str, Callable[..., None]] = {
    "version": version,
    "sample": sample,
    "sizes": sizes,
    "train": train,
    "evaluate": evaluate,
}
SHORT_OPTIONS = {"sample": {"count": ("-n", "how many pairs")}}


class HelpFormatter(DefaultHelpFormatter):
    """Adds type and default only where there is a default: the options of `train` are text or not
    given, and say themselves what they are."""

    def _get_help_string(self, action: Action) -> str:
        if action.default is None and not action.required:
            return action.help or ""
        return super()._get_help_string(action)


def build_parser() -> ArgumentParser:
    """A parser whose sub-commands have the options that their functions have parameters."""
    settings: dict[str, Any] = {"exit_on_error": False, "allow_abbrev": False}
    parser = ArgumentParser(prog="pushpop", formatter_class=HelpFormatter, **settings)
    commands = parser.add_subcommands()
    for name, function in COMMANDS.items():
        summary = (function.__doc__ or "").partition("\n")[0]
        command = ArgumentParser(description=summary, **settings)
        short = SHORT_OPTIONS.get(name, {})
        for parameter, (letter, text) in short.items():
            given = signature(function).parameters[parameter]
            kind, default = given.annotation, given.default
            command.add_argument(letter, f"--{parameter}", type=kind, default=default, help=text)
        if name == "train":
            add_train_options(command)
        else:
            command.add_function_arguments(
                function, as_group=False, as_positional=True, skip=set(short)
            )
        commands.add_subcommand(name, command, help=summary)
    return parser


def add_train_options(command: ArgumentParser) -> None:
    """An option for every field of `TrainConfig`, which reads the text; and what is about runs."""
    from dataclasses import fields

    from pushpop.training import TrainConfig

    metavars: dict[Any, str] = {int: "N", float: "X", bool: "true|false"}
    about_runs = {
        "--run": "the run's directory; by default runs/TASK-MEMORY-seedN",
        "--resume": "go on with the unfinished run in this directory",
        "--config": "a YAML or JSON file of options; the command line goes before it",
    }
    for field in fields(TrainConfig):
        text = field.metadata["help"]
        if field.name == "task":
            command.add_argument("task", nargs="?", type=str, help=text)
            for option, about in about_runs.items():
                metavar = "FILE" if option == "--config" else "DIR"
                command.add_argument(option, type=str, help=about, metavar=metavar)
            command.add_argument(
                "--print-config", action="store_true", help="print all options as YAML and leave"
            )
            continue
        shown = "none" if field.default is None else str(field.default).lower()
        option = f"--{field.name.replace('_', '-')}"
        switch: dict[str, Any] = {"nargs": "?", "const": "true"} if field.type is bool else {}
        switch["metavar"] = metavars.get(field.type, field.name.rpartition("_")[2].upper())
        command.add_argument(option, type=str, help=f"{text} (default: {shown})", **switch)


def nearest_option(message: str, args: list[str]) -> str:
    """The end of a message about an unknown option of `train`: the option that may be meant."""
    from dataclasses import fields

    from pushpop.training import TrainConfig

    unknown = re.search(r"unrecognized arguments: --([\w-]+)", message)
    if unknown is None or args[:1] != ["train"]:
        return ""
    names = ["run", "resume", "config", "print-config"]
    names += [field.name.replace("_", "-") for field in fields(TrainConfig)]
    return did_you_mean(f"--{unknown[1]}", [f"--{name}" for name in names])


def main(args: list[str] | None = None) -> None:
    """Run a command; a mistake in its input is one line on stderr and exit code 2."""
    try:
        options = build_parser().parse_args(args)
        COMMANDS[options.subcommand](**options[options.subcommand])
        sys.stdout.flush()
    except (InputError, ArgumentError) as error:
        hint = nearest_option(str(error), sys.argv[1:] if args is None else args)
        print("pushpop:", *f"{error}{hint}".split(), file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # the reader (head, less) went away: not our fault, nothing to say
        sys.stderr.close()
        raise SystemExit(141) from None


if __name__ == "__main__":
    main()
