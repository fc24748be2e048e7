"""The `pushpop` command: one function a sub-command, heavy imports inside them."""

import sys
from typing import Any

from jsonargparse import auto_cli

from pushpop.errors import InputError


def version() -> None:
    """Print the version of pushpop and of what it computes with."""
    from importlib.metadata import version as installed

    print(" ".join(f"{name} {installed(name)}" for name in ("pushpop", "torch", "numba", "numpy")))


COMMANDS: dict[str, Any] = {"version": version}


def main(args: list[str] | None = None) -> None:
    """Run a command; a mistake in its input is one line on stderr and exit code 2."""
    try:
        auto_cli(COMMANDS, args=args, prog="pushpop")
    except InputError as error:
        print(f"pushpop: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except BrokenPipeError:  # the reader (head, less) went away: not our fault, nothing to say
        sys.stderr.close()
        raise SystemExit(141) from None


if __name__ == "__main__":
    main()
