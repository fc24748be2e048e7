"""Pairs of a kind that everybody knows: the names in Python's standard library, respelt.

    python examples/identifiers.py                          writes names.tsv and longer.tsv
    pushpop train names.tsv --valid-longer longer.tsv       learns them, about a minute

A source is a name as in `read_config_file`, its target the same in camel case, `readConfigFile`.
names.tsv has names of at most 16 characters, longer.tsv those of 24 to 63.
"""

import re
import sysconfig
from argparse import ArgumentParser
from pathlib import Path
from random import Random

SHORT, LONG = range(4, 17), range(24, 64)
COUNTS = {"names": 3000, "longer": 500}


def camel_case(name: str) -> str:
    """Spell read_config_file as readConfigFile."""
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)


def names_of_library() -> list[str]:
    """Read the names with an underscore inside from the standard library's sources, in order."""
    names: set[str] = set()
    for source in Path(sysconfig.get_paths()["stdlib"]).rglob("*.py"):
        if "site-packages" not in source.parts:
            text = source.read_text("utf-8", "replace")
            names.update(re.findall(r"\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b", text))
    return sorted(names)


def pairs() -> dict[str, list[tuple[str, str]]]:
    """Draw short and long names, always the same ones."""
    names = names_of_library()
    Random(0).shuffle(names)
    chosen = {
        "names": [name for name in names if len(name) in SHORT],
        "longer": [name for name in names if len(name) in LONG],
    }
    return {
        part: [(name, camel_case(name)) for name in chosen[part][:count]]
        for part, count in COUNTS.items()
    }


def main() -> None:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path())
    folder = parser.parse_args().out
    for part, rows in pairs().items():
        path = folder / f"{part}.tsv"
        path.write_text("".join(f"{source}\t{target}\n" for source, target in rows))
        print(f"{path}: {len(rows):,} names, such as {rows[0][0]} -> {rows[0][1]}")


if __name__ == "__main__":
    main()
