"""Files of pairs: what is right on sources like those of training, and on longer ones.

    python benchmarks/own_data.py             trains what is missing; writes results/own_data.json
    python benchmarks/own_data.py --show      prints the tables of docs/own-data.md

Values of the recipe `pairs` were chosen on the first six sets. Nothing was chosen on the last
three. Each model has all seeds; a run is kept in runs/own-data, so that what is done is never done
again; several of these can run at a time.
"""

import argparse
import fcntl
import json
import random
import re
import runpy
from collections.abc import Callable
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from machine import RESULTS, describe_machine
from pushpop import Transducer
from pushpop.files import write_file
from pushpop.models.text import score_pairs
from pushpop.training import TrainConfig, train

Rows = list[tuple[str, str]]
Draw = Callable[[random.Random], tuple[str, str]]
TESTED = 500
ROOT = Path(__file__).resolve().parent.parent


def word(rng: random.Random, low: int, high: int, letters: str) -> str:
    return "".join(rng.choice(letters) for _ in range(rng.randint(low, high)))


ALPHABET = "abcdefghijklmnopqrstuvwxyz"
BRACKETS = dict(zip("([{<", ")]}>", strict=True))


def reverse(low: int, high: int) -> Draw:
    """Letters, read backwards."""

    def draw(rng: random.Random) -> tuple[str, str]:
        text = word(rng, low, high, ALPHABET)
        return text, text[::-1]

    return draw


def close(low: int, high: int) -> Draw:
    """Brackets of four kinds among letters: the closing ones that are missing."""

    def draw(rng: random.Random) -> tuple[str, str]:
        while True:
            text, waiting = "", ""
            for _ in range(rng.randint(low, high)):
                kind = rng.random()
                if kind < 0.45:
                    text += rng.choice("([{<")
                    waiting = BRACKETS[text[-1]] + waiting
                elif kind < 0.7 and waiting:
                    text, waiting = text + waiting[0], waiting[1:]
                else:
                    text += rng.choice("abc")
            if waiting:
                return text, waiting

    return draw


def runs(low: int, high: int) -> Draw:
    """Letters in runs: each run once, as a capital."""

    def draw(rng: random.Random) -> tuple[str, str]:
        length, text = rng.randint(low, high), ""
        while len(text) < length:
            text += rng.choice("abcdefghij") * rng.choice((1, 1, 1, 2, 2, 3, 4))
        text = text[:length]
        return text, re.sub(r"(.)\1*", lambda run: run[1].upper(), text)

    return draw


def expression(rng: random.Random, depth: int, must: bool) -> tuple[str, str, int]:
    """An infix expression, the same in postfix, and how deep its brackets are; `must`: so deep."""
    count = rng.choice((1, 2, 2, 3)) if depth else rng.choice((1, 1, 2))
    inside = rng.randrange(count) if must else -1
    infix, deepest = "", 0
    terms, signs = list[str](), ""  # what is added up, in postfix, and the signs between
    for place in range(count):
        if depth and (place == inside or rng.random() < 0.4):
            text, value, below = expression(rng, depth - 1, place == inside)
            text, deepest = f"({text})", max(deepest, below + 1)
        else:
            text = value = rng.choice("abcdexyz")
        sign = rng.choice("+-*/") if place else ""
        infix += sign + text
        if sign and sign in "*/":
            terms[-1] += value + sign
        else:
            terms.append(value)
            signs += sign
    answer = terms[0] + "".join(term + sign for term, sign in zip(terms[1:], signs, strict=True))
    return infix, answer, deepest


def postfix(low: int, high: int, depths: range, must: bool = False) -> Draw:
    """Infix expressions with precedence and brackets, in postfix."""

    def draw(rng: random.Random) -> tuple[str, str]:
        while True:
            infix, answer, depth = expression(rng, depths[-1], must)
            if low <= len(infix) <= high and depth in depths:
                return infix, answer

    return draw


def flat(low: int, high: int) -> Draw:
    """Long expressions without a bracket, in postfix."""

    def draw(rng: random.Random) -> tuple[str, str]:
        operands = [rng.choice("abcdexyz") for _ in range(rng.randint(low, high))]
        infix = operands[0] + "".join(rng.choice("+-*/") + operand for operand in operands[1:])
        answer, terms = "", []
        for sign, operand in zip("+" + infix[1::2], operands, strict=True):
            if sign in "*/":
                terms[-1] = (terms[-1][0], terms[-1][1] + operand + sign)
            else:
                terms.append((sign, operand))
        answer = terms[0][1] + "".join(term + sign for sign, term in terms[1:])
        return infix, answer

    return draw


SMALL = re.findall(
    r"\w+",
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen "
    "sixteen seventeen eighteen nineteen",
)
TENS = re.findall(r"\w+", "twenty thirty forty fifty sixty seventy eighty ninety")


def spell(number: int) -> str:
    for unit, name in ((1000, "thousand"), (100, "hundred")):
        if number >= unit:
            rest = f" {spell(number % unit)}" if number % unit else ""
            return f"{spell(number // unit)} {name}{rest}"
    if number < 20:
        return SMALL[number]
    return TENS[number // 10 - 2] + (f" {SMALL[number % 10]}" if number % 10 else "")


def numbers(low: int, high: int) -> Draw:
    """Numbers in words, as digits."""

    def draw(rng: random.Random) -> tuple[str, str]:
        number = rng.randint(low, high)
        return spell(number), str(number)

    return draw


def snake(low: int, high: int) -> Draw:
    """Words in camel case, with underscores."""

    def draw(rng: random.Random) -> tuple[str, str]:
        while True:
            words = [word(rng, 1, 7, ALPHABET) for _ in range(rng.randint(1, 12))]
            text = words[0] + "".join(map(str.capitalize, words[1:]))
            if low <= len(text) <= high:
                return text, "_".join(words)

    return draw


def mirror(low: int, high: int) -> Draw:
    """Letters, and after them the same backwards."""

    def draw(rng: random.Random) -> tuple[str, str]:
        text = word(rng, low, high, "abcdefghijkl")
        return text, text + text[::-1]

    return draw


def bracketed(low: int, high: int) -> Draw:
    """Polish notation, in infix with a bracket around every operation."""

    def term(rng: random.Random, depth: int) -> tuple[str, str]:
        if not depth or rng.random() < 0.3:
            letter = rng.choice("abcdexyz")
            return letter, letter
        sign = rng.choice("+-*/")
        (left, first), (right, second) = term(rng, depth - 1), term(rng, depth - 1)
        return sign + left + right, f"({first}{sign}{second})"

    def draw(rng: random.Random) -> tuple[str, str]:
        while True:
            source, target = term(rng, 6)
            if low <= len(source) <= high:
                return source, target

    return draw


def drawn(seed: int, count: int, **parts: Draw) -> dict[str, Rows]:
    """Draw `count` pairs to train on and `TESTED` of each other part, all with other sources."""
    rng, seen, made = random.Random(seed), set[str](), {}
    for part, draw in parts.items():
        rows: Rows = []
        while len(rows) < (count if part == "train" else TESTED):
            pair = draw(rng)
            if pair[0] not in seen:
                seen.add(pair[0])
                rows.append(pair)
        made[part] = rows
    return made


def camel() -> dict[str, Rows]:
    """The names of examples/identifiers.py; a part of the short ones is kept to test on."""
    pairs = runpy.run_path(str(ROOT / "examples" / "identifiers.py"))
    made: dict[str, Rows] = pairs["pairs"]()
    seen = made["names"]
    return {"train": seen[TESTED:], "in": seen[:TESTED], "longer": made["longer"]}


SETS: dict[str, Callable[[], dict[str, Rows]]] = {
    "reverse": lambda: drawn(
        1, 2000, train=reverse(2, 12), **{"in": reverse(2, 12)}, longer=reverse(20, 30)
    ),
    "camel": camel,
    "close": lambda: drawn(
        2, 3000, train=close(3, 16), **{"in": close(3, 16)}, longer=close(30, 50)
    ),
    "runs": lambda: drawn(3, 2000, train=runs(2, 14), **{"in": runs(2, 14)}, longer=runs(25, 40)),
    "postfix": lambda: drawn(
        4,
        4000,
        train=postfix(3, 23, range(4)),
        **{"in": postfix(3, 23, range(4))},
        longer=postfix(25, 45, range(4, 5), must=True),
        flat=flat(14, 21),
    ),
    "numbers": lambda: drawn(
        5, 3000, train=numbers(0, 9999), **{"in": numbers(0, 9999)}, longer=numbers(10_000, 999_999)
    ),
    "snake": lambda: drawn(
        6, 3000, train=snake(3, 16), **{"in": snake(3, 16)}, longer=snake(32, 48)
    ),
    "mirror": lambda: drawn(
        7, 2000, train=mirror(2, 10), **{"in": mirror(2, 10)}, longer=mirror(20, 30)
    ),
    "bracketed": lambda: drawn(
        8, 3000, train=bracketed(3, 15), **{"in": bracketed(3, 15)}, longer=bracketed(25, 41)
    ),
}
KEPT_APART = ("snake", "mirror", "bracketed")
TOLD = {
    "reverse": "stack",
    "close": "stack",
    "camel": "queue",
    "runs": "queue",
    "postfix": "queue",
    "numbers": "queue",
    "snake": "queue",
    "mirror": "stack",
    "bracketed": "queue",
}
"""The memory that somebody who knows the set would take."""
ALONE = {"attention": False, "skip_attention": 0.0}
MODELS: dict[str, Callable[[str], dict[str, Any]]] = {
    "default": lambda name: {},
    "former default": lambda name: {"memories": 1, "push_bias": "auto", "skip_attention": 0.0},
    "attention alone": lambda name: {"memory": "none"},
    "LSTM": lambda name: {"memory": "none", "encoder": "none", **ALONE},
    "memory told": lambda name: {"memory": TOLD[name], "encoder": "none", **ALONE},
}
PATH = RESULTS / "own_data.json"


def measure(name: str, model: str, seed: int, folder: Path) -> dict[str, Any]:
    """Train, or finish a run that was stopped, and test it on the other parts of the set."""
    parts, path = SETS[name](), folder / f"{name}.tsv"
    folder.mkdir(parents=True, exist_ok=True)
    write_file(path, "".join(f"{s}\t{t}\n" for s, t in parts.pop("train")).encode())
    config = TrainConfig.from_dict({"task": str(path), "seed": seed, **MODELS[model](name)})
    run = folder / f"{name}-{model.replace(' ', '-')}-seed{seed}"
    report = train(config, run)
    trained = Transducer.from_pretrained(run)
    return {
        "set": name,
        "model": model,
        "seed": seed,
        "valid": report["valid"]["accuracy"],
        **{part: score_pairs(trained, rows).accuracy for part, rows in parts.items()},
        "without_memory": report.get("without_memory"),
        "parameters": report["parameters"],
        "batches": report["step"],
        "stopped_by": report["stopped_by"],
        "seconds": round(report["seconds"], 1),
    }


def saved() -> list[dict[str, Any]]:
    return json.loads(PATH.read_text())["rows"] if PATH.exists() else []


def add(row: dict[str, Any]) -> None:
    """Put a row beside those that are there, whatever others put there meanwhile."""
    order = [(name, model) for name in SETS for model in MODELS]
    with open(RESULTS / ".own_data.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = sorted(
            [*saved(), row], key=lambda row: (order.index((row["set"], row["model"])), row["seed"])
        )
        data = {"machine": describe_machine(), "kept_apart": KEPT_APART, "rows": rows}
        write_file(PATH, f"{json.dumps(data, indent=1)}\n".encode())


def show() -> None:
    """Print a table of the means: in range / longer, and seconds."""
    rows = saved()
    for title, names in (
        ("values were chosen on these", [name for name in SETS if name not in KEPT_APART]),
        ("nothing was chosen on these", KEPT_APART),
    ):
        print(f"\n| {title} | " + " | ".join(MODELS) + " |")
        print("|---" * (len(MODELS) + 1) + "|")
        for name in names:
            cells = []
            for model in MODELS:
                mine = [row for row in rows if (row["set"], row["model"]) == (name, model)]
                shares = [
                    f"{mean(row[part] for row in mine):.3f}"
                    for part in ("in", "longer", "flat")
                    if mine and part in mine[0]
                ]
                seconds = f", {mean(row['seconds'] for row in mine):.0f} s" if mine else ""
                cells.append(" / ".join(shares) + seconds)
            print(f"| {name} | " + " | ".join(cells) + " |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seeds", default="0,1,2,3,4")
    parser.add_argument("--runs", type=Path, default=Path("runs/own-data"))
    parser.add_argument("--show", action="store_true")
    options = parser.parse_args()
    wanted = product(options.seeds.split(","), options.sets.split(","), options.models.split(","))
    for seed, name, model in () if options.show else wanted:
        key = (name, model, int(seed))
        if key not in {(row["set"], row["model"], row["seed"]) for row in saved()}:
            row = measure(*key, options.runs)
            print(json.dumps(row), flush=True)
            add(row)
    show()


if __name__ == "__main__":
    main()
