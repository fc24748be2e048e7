"""The `pushpop` command: reads the command line, runs a command, reports mistakes."""

import re
import sys
from argparse import Action
from collections.abc import Callable
from inspect import signature
from typing import Any

import docstring_parser
from jsonargparse import ArgumentError, ArgumentParser, DefaultHelpFormatter

from pushpop.commands import COMMANDS, OPTIONAL, SHORT
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
        if name == "train":
            add_options(command)
        else:
            add_parameters(command, name, function)
        commands.add_subcommand(name, command, help=summary)
    return parser


def add_parameters(command: ArgumentParser, name: str, function: Callable[..., None]) -> None:
    """An argument or option for every parameter of a function; its docstring has their help."""
    described = docstring_parser.parse(function.__doc__ or "").params
    texts = {each.arg_name: " ".join((each.description or "").split()) for each in described}
    for each in signature(function).parameters.values():
        key, text = (name, each.name), texts[each.name]
        option = f"--{each.name.replace('_', '-')}"
        if key in OPTIONAL:
            command.add_argument(each.name, nargs=OPTIONAL[key], type=str, help=text)
        elif each.default is each.empty:
            command.add_argument(each.name, type=each.annotation, help=text)
        elif each.default is False:
            command.add_argument(option, action="store_true", help=text)
        else:
            spellings = [SHORT[key], option] if key in SHORT else [option]
            kind, default = each.annotation, each.default
            command.add_argument(*spellings, type=kind, default=default, help=text)


def join_negatives(args: list[str]) -> list[str]:
    """`--pop-bias -2,-2` as `--pop-bias=-2,-2`: argparse takes the list for an option."""
    joined: list[str] = []
    for arg in args:
        if re.fullmatch(r"-[\d.]+(,-?[\d.]+)+", arg) and joined and joined[-1].startswith("--"):
            joined[-1] += f"={arg}"
        else:
            joined.append(arg)
    return joined


def nearest_option(message: str, args: list[str]) -> str:
    """The end of a message about an unknown option of `train`: the option that may be meant."""
    unknown = re.search(r"unrecognized arguments: --([\w-]+)", message)
    if unknown is None or args[:1] != ["train"]:
        return ""
    return did_you_mean(f"--{unknown[1]}", option_names())


def main(args: list[str] | None = None) -> None:
    """Run a command; a mistake in its input is one line on stderr and exit code 2."""
    args = join_negatives(sys.argv[1:] if args is None else args)
    try:
        options = build_parser().parse_args(args)
        COMMANDS[options.subcommand](**options[options.subcommand])
        sys.stdout.flush()
    except (InputError, ArgumentError) as error:
        hint = nearest_option(str(error), args)
        print("pushpop:", *f"{error}{hint}".split(), file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # the reader (head, less) went away: not our fault, nothing to say
        sys.stderr.close()
        raise SystemExit(141) from None


if __name__ == "__main__":
    main()
