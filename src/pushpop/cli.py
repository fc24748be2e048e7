"""The `pushpop` command: reads the command line, runs a command, reports mistakes."""

import re
import sys
from argparse import Action
from collections.abc import Callable
from inspect import signature
from typing import Any

import docstring_parser
from jsonargparse import ArgumentError, ArgumentParser, DefaultHelpFormatter

from pushpop.commands import COMMANDS, SHORT_OPTIONS
from pushpop.commands.train import add_options, option_names
from pushpop.errors import InputError, did_you_mean


class HelpFormatter(DefaultHelpFormatter):
    """Adds type and default only where there is a default: the options of `train` are text or not
    given, and say themselves what they are; a switch is off."""

    def _get_help_string(self, action: Action) -> str:
        default = action.default
        if (default is None or default is False or default == "") and not action.required:
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
            add_options(command)
        else:
            switches = add_switches(command, function)
            command.add_function_arguments(
                function, as_group=False, as_positional=True, skip={*short, *switches}
            )
        commands.add_subcommand(name, command, help=summary)
    return parser


def add_switches(command: ArgumentParser, function: Callable[..., None]) -> set[str]:
    """An option without a value for every parameter that is false unless said; their names."""
    described = docstring_parser.parse(function.__doc__ or "").params
    texts = {each.arg_name: " ".join((each.description or "").split()) for each in described}
    parameters = signature(function).parameters.values()
    names = {each.name for each in parameters if each.default is False}
    for name in sorted(names):
        command.add_argument(f"--{name.replace('_', '-')}", action="store_true", help=texts[name])
    return names


def nearest_option(message: str, args: list[str]) -> str:
    """The end of a message about an unknown option of `train`: the option that may be meant."""
    unknown = re.search(r"unrecognized arguments: --([\w-]+)", message)
    if unknown is None or args[:1] != ["train"]:
        return ""
    return did_you_mean(f"--{unknown[1]}", option_names())


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
