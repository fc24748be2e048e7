"""The `pushpop` command: reads the command line, runs a command, reports mistakes.

Nothing here imports torch: help, the version and mistakes in the arguments come at once.
"""

try:
    import re
    import sys
    from argparse import Action, ArgumentParser, HelpFormatter
    from collections.abc import Callable
    from inspect import getdoc, signature
    from typing import Any, NoReturn

    from pushpop.commands import COMMANDS, OPTIONAL, SHORT
    from pushpop.errors import InputError, did_you_mean, log_to
    from pushpop.options import read_value
    from pushpop.streams import give_up_output, use_utf8
    from pushpop.warmup import compile_all_at_first_miss
except KeyboardInterrupt:  # Ctrl-C before `main` could see it
    raise SystemExit(130) from None


START_HERE = """\
pushpop COMMAND --help lists the options of a command, with examples. To begin with:
  pushpop models                               trained models that come with pushpop
  pushpop transduce reverse-stack              use one: type a1 a2 a3
  pushpop trace reverse-stack -o trace.html    what its memory does, step by step
  pushpop train reverse --memory stack --recipe pushpop --until-solved"""


class Formatter(HelpFormatter):
    """Keeps the lines of a text that has several, the examples; one line is wrapped."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if "\n" in text else super()._fill_text(text, width, indent)


class Parser(ArgumentParser):
    """Raises what is wrong in place of printing it; takes no abbreviated options."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(allow_abbrev=False, formatter_class=Formatter, **settings)

    def error(self, message: str) -> NoReturn:
        """`InputError`, with the nearest name where one is unknown."""
        options = [name for action in self._actions for name in action.option_strings]
        for what, known in ((r"arguments: (--[\w-]+)", options), (r"choice: '?(\w+)", COMMANDS)):
            if unknown := re.search(what, message):
                message += did_you_mean(unknown[1], known)
        raise InputError(message)


class ShowVersion(Action):
    """Prints the version of pushpop and leaves; it is looked up only then."""

    def __call__(self, parser: ArgumentParser, *given: Any) -> None:
        """What argparse calls where the option stands."""
        import pushpop

        print("pushpop", pushpop.__version__)
        parser.exit()


def main_parser() -> Parser:
    """Takes the name of a command, or asks for help or the version, and nothing else."""
    parser = Parser(prog="pushpop", epilog=START_HERE)
    shown = "show the version of pushpop and exit"
    parser.add_argument("--version", action=ShowVersion, nargs=0, help=shown)
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    commands.required = True
    for name, function in COMMANDS.items():
        commands.add_parser(name, help=_summary(function))
    return parser


def command_parser(name: str) -> Parser:
    """Takes the arguments and options of a command: the parameters of its function."""
    function = COMMANDS[name]
    parser = Parser(prog=f"pushpop {name}", description=_summary(function))
    if shown := examples(function):
        parser.epilog = "\n".join(["examples:", *(f"  {line}" for line in shown)])
    if name == "train":
        from pushpop.commands.train_options import add_options  # all options of training

        add_options(parser)
        return parser
    texts = parameter_help(function)
    for each in signature(function).parameters.values():
        key, option = (name, each.name), f"--{each.name.replace('_', '-')}"
        text = texts[each.name].replace("%", "%%")
        metavar = "N" if each.annotation is int else each.name.rpartition("_")[2].upper()
        if key in OPTIONAL:
            parser.add_argument(each.name, nargs=OPTIONAL[key], help=text)
        elif each.default is each.empty:
            parser.add_argument(each.name, help=text)
        elif each.default is False:
            parser.add_argument(option, action="store_true", help=text)
        else:
            names = [SHORT[key], option] if key in SHORT else [option]
            said = each.default in (None, "") or "by default" in text
            default = "" if said else f" (default: {each.default})"
            parser.add_argument(*names, metavar=metavar, help=f"{text}{default}")
    return parser


def parameter_help(function: Callable[..., None]) -> dict[str, str]:
    """What the `Args:` of a docstring say about each parameter."""
    section = (getdoc(function) or "").partition("\nArgs:\n")[2].partition("\nExamples:\n")[0]
    entries = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", section, re.MULTILINE)
    return {name: " ".join(text.split()) for name, text in entries}


def examples(function: Callable[..., None]) -> list[str]:
    """The lines of the `Examples:` of a docstring."""
    _, _, section = (getdoc(function) or "").partition("\nExamples:\n")
    return [line.strip() for line in section.splitlines() if line.strip()]


def read_arguments(function: Callable[..., None], given: dict[str, Any]) -> dict[str, Any]:
    """What was given, in the types of the function's parameters; the rest has their defaults."""
    kinds = {name: each.annotation for name, each in signature(function).parameters.items()}
    return {
        name: read_value(name, int, value) if kinds.get(name) is int else value
        for name, value in given.items()
        if value is not None
    }


NEGATIVE = r"-[\d.]+(e[+-]?\d+)?(,-?[\d.]+(e[+-]?\d+)?)*"
"""A negative number, or a list that begins with one."""


def join_negatives(args: list[str]) -> list[str]:
    """`--pop-bias -2,-2` as `--pop-bias=-2,-2`, and so -1e-3: argparse takes them for options."""
    joined: list[str] = []
    for arg in args:
        if re.fullmatch(NEGATIVE, arg, re.IGNORECASE) and joined and joined[-1].startswith("--"):
            joined[-1] += f"={arg}"
        else:
            joined.append(arg)
    return joined


def main(args: list[str] | None = None) -> None:
    """Run a command; a mistake in its input is one line on stderr and exit code 2."""
    alone = args is None  # a process of its own, which nobody else has set up
    if alone:
        use_utf8()
        compile_all_at_first_miss()
    try:
        args = join_negatives(sys.argv[1:] if args is None else args)
        if args[:1] == ["--"]:  # torchrun passes on what separates its own options
            args = args[1:]
        name = main_parser().parse_args(args[:1]).command
        given = vars(command_parser(name).parse_intermixed_args(args[1:]))
        with log_to(sys.stderr, "pushpop: "):
            COMMANDS[name](**read_arguments(COMMANDS[name], given))
        sys.stdout.flush()
    except InputError as error:
        print("pushpop:", *str(error).split(), file=sys.stderr)
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # the reader (head, less) went away: not our fault, nothing to say
        sys.stderr.close()
        raise SystemExit(141) from None
    except OSError as error:  # a name that the system refuses, a full disk behind `>`
        named = f"{error.filename}: " if error.filename else ""
        print(f"pushpop: {named}{error.strerror or error}", file=sys.stderr)
        if alone:
            give_up_output()
        raise SystemExit(2) from None


def _summary(function: Callable[..., None]) -> str:
    return (function.__doc__ or "").partition("\n")[0]


if __name__ == "__main__":
    main()
