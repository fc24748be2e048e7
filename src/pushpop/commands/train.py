"""`pushpop train`: its options are the fields of `TrainConfig`, and where a run is."""

import sys
from argparse import ArgumentParser
from collections.abc import Mapping
from dataclasses import dataclass, field
from shlex import quote
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pushpop.errors import InputError
from pushpop.options import Command, add_option, argument, option, option_fields

if TYPE_CHECKING:
    from pushpop.training import TrainConfig


@dataclass(frozen=True)
class Train(Command):
    """Train a transducer; a run is a directory, and goes on where it was stopped.

    Examples:
        pushpop train reverse --memory stack --recipe pushpop --until-solved
        pushpop train pairs.tsv --valid dev.tsv      your own pairs: source, tab, target
        pushpop train labels.csv --form tagger       a label for every source symbol
        pushpop train lines.txt --form lm            lines, to generate more of them
        pushpop train copy --memory queue            the paper's protocol
        pushpop train --resume runs/copy-queue-seed0 --steps 20000
        pushpop train copy --recipe pushpop --print-config > mine.yaml
    """

    usage: ClassVar[str | None] = (
        "pushpop train [TASK] [--recipe RECIPE] [--memory MEMORY] [options]"
    )
    task: str = argument("", count="?")  # help has that of `TrainConfig`
    run: str = option("", "the run's directory; by default runs/TASK-MEMORY-seedN", metavar="DIR")
    resume: str = option(
        "", "go on with the run in this directory; --steps and the like may be new", metavar="DIR"
    )
    config: str = option(
        "", "a YAML or JSON file of options; the command line goes before it", metavar="FILE"
    )
    print_config: bool = option(False, "print all options as YAML and leave")
    given: Mapping[str, str] = field(default_factory=dict)  # options of training, as text

    @classmethod
    def of(cls, given: dict[str, Any]) -> Self:
        """The command with its own options, and those of training apart."""
        own = {
            declared.name: given[declared.name]
            for declared in option_fields(cls)
            if declared.name in given
        }
        return cls(**own, given={name: text for name, text in given.items() if name not in own})

    @classmethod
    def add_options(cls, parser: ArgumentParser) -> None:
        """Tell a parser of the task, what is about runs, and every field of `TrainConfig`."""
        from pushpop.training.config import FIELDS, TrainConfig

        parser.add_argument("task", nargs="?", metavar="TASK", help=FIELDS["task"].metadata["help"])
        group = parser.add_argument_group("run")
        for declared in option_fields(cls):
            if declared.name != "task":
                add_option(group, declared, switch=declared.type is bool)
        for title, names in option_groups(TrainConfig).items():
            group = parser.add_argument_group(title)
            for name in names:
                if name != "task":
                    add_option(group, FIELDS[name], describe_values(name))

    def execute(self) -> None:
        settings, directory = self._resumed() if self.resume else self._new()
        if self.print_config:
            import yaml

            print(yaml.safe_dump(settings.to_dict(), sort_keys=False), end="")
            return
        from pushpop.training import Diverged, train
        from pushpop.training.parallel import is_leader
        from pushpop.training.view import LiveView, PlainView

        live = sys.stdout.isatty() and is_leader()
        try:
            train(settings, directory, LiveView() if live else PlainView())
        except Diverged as error:
            if is_leader():
                print("pushpop:", error, file=sys.stderr)
            raise SystemExit(1) from None
        if is_leader():
            print(f"run: {directory}")
            for number, line in enumerate(next_commands(settings, directory)):
                print("to go on:" if number == 0 else "         ", line)

    def _resumed(self) -> "tuple[TrainConfig, str]":
        """The options of a run that goes on, and its directory."""
        from pushpop.training import RunDirectory
        from pushpop.training.config import CHANGEABLE

        others = [f"--{name.replace('_', '-')}" for name in self.given if name not in CHANGEABLE]
        others = ["TASK", *others] if self.task else others
        others += [f"--{name}" for name in ("run", "config") if getattr(self, name)]
        if others:
            allowed = ", ".join(f"--{name.replace('_', '-')}" for name in CHANGEABLE)
            raise InputError(
                f"--resume goes on with a run's own options: leave out {others[0]} (only {allowed} "
                "may change)"
            )
        return RunDirectory(self.resume).config().override(self.given), self.resume

    def _new(self) -> "tuple[TrainConfig, str]":
        """The options that are given, here or in a file, and where the run goes."""
        from pushpop.training.config import TrainConfig, read_config_file

        given = {**self.given, **({"task": self.task} if self.task else {})}
        in_file = read_config_file(self.config) if self.config else {}
        if in_file.get("recipe", given.get("recipe")) != given.get("recipe", in_file.get("recipe")):
            raise InputError(
                f"--recipe is {given['recipe']!r}, and {self.config} has the values of recipe "
                f"{in_file['recipe']!r}: leave one of them out"
            )
        wanted = {**in_file, **given}
        if "task" not in wanted and not self.print_config:
            raise InputError("no task given: expected pushpop train TASK, as in pushpop train copy")
        settings = TrainConfig.from_dict(wanted)
        from pushpop.training.run import default_directory

        return settings, self.run or default_directory(settings)


def next_commands(config: "TrainConfig", directory: str) -> list[str]:
    """What a finished run is used with: commands that work as they are, but for files' names."""
    from pushpop.tasks.pairs_text import is_pairs_file

    run = quote(directory)
    if config.form == "lm":
        uses = [f"generate {run} --count 100", f"evaluate {run} test.txt"]
    elif is_pairs_file(config.task):
        uses = [f"transduce {run} < inputs.txt", f"evaluate {run} test.tsv"]
    else:
        uses = [f"evaluate {run}", f"trace {run} --length 12 -o trace.html"]
    return [f"pushpop {use}" for use in (*uses, f"serve {run}")]


def option_groups(options: Any) -> dict[str, list[str]]:
    """The names of options under their headings; an option without one is in that before it."""
    groups: dict[str, list[str]] = {}
    title = ""
    for declared in option_fields(options):
        title = declared.metadata["group"] or title
        groups.setdefault(title, []).append(declared.name)
    return groups


def describe_values(name: str) -> str:
    return "; ".join(f"{who}: {value}" for who, value in option_values(name).items())


def option_values(name: str) -> dict[str, str]:
    """The default of an option, and what it is under the recipes that have another value: of a
    stack and the default lengths, of the Chomsky-hierarchy tasks, of few pairs in a file and of
    many, of labels, and of few lines and of many."""
    from pushpop.training import recipes
    from pushpop.training.config import DEFAULTS
    from pushpop.training.recipes import FEW_PAIRS, SEEN_LINES

    default = DEFAULTS[name]
    longest = int(DEFAULTS["train_lengths"].partition("-")[2])

    def under(recipe: str, values: Mapping[str, Any]) -> Any:
        return {"recipe": recipe, **values}.get(name, default)

    few, many = (under("pairs", recipes.pairs(count)) for count in (0, FEW_PAIRS))
    lines, more_lines = (under("lm", recipes.lm(count)) for count in (0, SEEN_LINES))
    pushpop = recipes.pushpop(DEFAULTS["memory"], longest).get(name, default)
    chomsky = under("chomsky", recipes.chomsky())
    labels = under("labels", recipes.labels(0))
    values = {"default": _shown(default)}
    for who, value, usual, later, since in (
        ("recipe pushpop", pushpop, default, pushpop, ""),
        ("chomsky/ tasks", chomsky, default, chomsky, ""),
        ("a file", few, default, many, f"{FEW_PAIRS:,} pairs"),
        ("a file of labels", labels, few, labels, ""),
        ("a file of lines", lines, few, more_lines, f"{SEEN_LINES:,}"),
    ):
        if value != usual or later != value:
            values[who] = _shown(value)
        if later != value:
            values[who] += f", from {since} on {_shown(later)}"
    return values


def _shown(value: Any) -> str:
    return "none" if value is None or value == "" else str(value).lower()
