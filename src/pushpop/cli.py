"""The `pushpop` command: reads the command line, runs a command, reports mistakes.

Nothing here imports torch: help, the version and mistakes in the arguments come at once.
"""

try:
    import re
    import sys
    from argparse import ArgumentParser, HelpFormatter
    from inspect import getdoc
    from typing import Any, NoReturn

    from pushpop.commands import COMMANDS
    from pushpop.errors import InputError, did_you_mean, log_to
    from pushpop.files import drop_output, tell, use_utf8
    from pushpop.options import Command
    from pushpop.warmup import compile_all_at_first_miss
except KeyboardInterrupt:  # Ctrl-C before `main` could see it
    raise SystemExit(130) from None


START_HERE = """\
pushpop COMMAND --help lists the options of a command, with examples. To begin with:
  pushpop models                               trained models that come with pushpop
  pushpop transduce reverse-stack              use one: type a1 a2 a3
  pushpop trace reverse-stack -o trace.html    what its memory does, step by step
  pushpop train reverse --memory stack --recipe pushpop --until-solved"""

NEGATIVE = r"-[\d.]+(e[+-]?\d+)?(,-?[\d.]+(e[+-]?\d+)?)*"
"""A negative number, or a list that begins with one."""


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


def main_parser() -> Parser:
    """Takes the name of a command, or asks for help, and nothing else."""
    parser = Parser(prog="pushpop", epilog=START_HERE)
    shown = "show the version of pushpop and exit"
    parser.add_argument("--version", action="store_true", help=shown)
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    for name, command in COMMANDS.items():
        commands.add_parser(name, help=_summary(command))
    return parser


def command_parser(name: str) -> Parser:
    """Takes the arguments and options of a command: the fields of its dataclass."""
    command = COMMANDS[name]
    parser = Parser(prog=f"pushpop {name}", description=_summary(command), usage=command.usage)
    if shown := examples(command):
        parser.epilog = "\n".join(["examples:", *(f"  {line}" for line in shown)])
    command.add_options(parser)
    return parser


def examples(command: type[Command]) -> list[str]:
    """The lines of the `Examples:` of a docstring."""
    _, _, section = (getdoc(command) or "").partition("\nExamples:\n")
    return [line.strip() for line in section.splitlines() if line.strip()]


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
        _run(join_negatives(sys.argv[1:] if args is None else args))
        sys.stdout.flush()
    except InputError as error:
        tell(" ".join(str(error).split()))
        raise SystemExit(2) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # the reader (head, less) went away: not our fault, nothing to say
        sys.stderr.close()
        raise SystemExit(141) from None
    except OSError as error:  # a name that the system refuses, a full disk behind `>`
        named = f"{error.filename}: " if error.filename else ""
        tell(f"{named}{error.strerror or error}")
        if alone:
            drop_output()
        raise SystemExit(2) from None


def _run(args: list[str]) -> None:
    if args[:1] == ["--"]:  # torchrun passes on what separates its own options
        args = args[1:]
    asked = main_parser().parse_args(args[:1])
    if asked.version:
        import pushpop

        print("pushpop", pushpop.__version__)
    elif asked.command is None:
        main_parser().print_help()
    else:
        values = vars(command_parser(asked.command).parse_intermixed_args(args[1:]))
        given = {option: value for option, value in values.items() if value is not None}
        with log_to(sys.stderr, "pushpop: "):
            COMMANDS[asked.command].of(given).execute()


def _summary(command: type[Command]) -> str:
    return (command.__doc__ or "").partition("\n")[0]


if __name__ == "__main__":
    main()
