"""Spelling to sound: what each part of a model adds, on three languages.

    python benchmarks/g2p.py --data FOLDER        writes results/g2p.json

The data are the Icelandic (800 words), Hungarian and Dutch (8,000) files of the second SIGMORPHON
shared task on grapheme-to-phoneme conversion (2021): LANGUAGE_train.tsv and LANGUAGE_dev.tsv. A run
stops early on a tenth of the training words, held out by its seed, and is scored on dev once. What
is done is never done again; several of these can run at a time. Runs are kept in runs/g2p.
"""

import argparse
import fcntl
import json
from pathlib import Path
from statistics import mean
from typing import Any

from machine import RESULTS, describe_machine
from pushpop import Transducer
from pushpop.files import write_file
from pushpop.models.text import score_pairs
from pushpop.tasks.pairs_file import PairsFile, PairsOptions
from pushpop.training import TrainConfig, train
from pushpop.training.recipes import RECIPES
from pushpop.training.view import PlainView

ALONE = {"encoder": "none", "attention": False}
VARIANTS: dict[str, dict[str, Any]] = {
    "recipe": {},
    "no memory": {"memory": "none"},
    "queue": {"memory": "queue"},
    "no attention": {"attention": False},
    "no encoder": {"encoder": "none"},
    "2 heads": {"heads": 2},
    "2 layers": {"layers": 2},
    "deque alone": {**ALONE, "memory": "deque"},
    "queue alone": {**ALONE, "memory": "queue"},
    "stack alone": {**ALONE, "memory": "stack"},
    "lstm alone": {**ALONE, "memory": "none"},
}
"""What is given beside the recipe `pairs`."""
LANGUAGES = {"ice": "Icelandic", "hun": "Hungarian", "dut": "Dutch"}
PATH = RESULTS / "g2p.json"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="the folder of those files")
    parser.add_argument("--languages", default="ice,hun,dut", help="as in ice,hun")
    parser.add_argument("--variants", default="", help=f"separated by |: {' | '.join(VARIANTS)}")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--runs", type=Path, default=Path("runs/g2p"))
    parser.add_argument("--note", default="", help="what else the machine was doing, for the file")
    given = parser.parse_args()
    variants = [name.strip() for name in given.variants.split("|") if name.strip()] or [*VARIANTS]
    for seed in map(int, given.seeds.split(",")):
        for language in given.languages.split(","):
            for variant in variants:
                if key(language, variant, seed) not in {key_of(row) for row in rows()}:
                    add(measure(given.data, language, variant, seed, given.runs), given.note)
    show()


def measure(data: Path, language: str, variant: str, seed: int, runs: Path) -> dict[str, Any]:
    """Train, or finish a run that was stopped, and score on dev."""
    files = {part: data / f"{language}_{part}.tsv" for part in ("train", "dev")}
    options = {"task": str(files["train"]), "seed": seed, **VARIANTS[variant]}
    folder = runs / f"{language}-{variant.replace(', ', '-').replace(' ', '-')}-seed{seed}"
    config = TrainConfig.from_dict(options)
    report = train(config, folder, PlainView())
    model = Transducer.from_pretrained(folder)
    assert model.text is not None
    dev = PairsFile(files["dev"], PairsOptions.like(model.text))
    scores = score_pairs(model, dev.pairs).to_dict()
    row = {
        "language": language,
        "variant": variant,
        "seed": seed,
        "batch_size": config.batch_size,
        "plateau": config.plateau,
        "patience": config.patience,
        "parameters": report["parameters"],
        "epochs": report["epochs"],
        "stopped_by": report["stopped_by"],
        "seconds": round(report["seconds"]),
        "held_out_accuracy": report["valid"]["accuracy"],
        "dev_accuracy": scores["accuracy"],
        "dev_word_error_rate": scores["word_error_rate"],
        "dev_symbol_error_rate": scores["symbol_error_rate"],
    }
    print(json.dumps(row))
    return row


def key(language: str, variant: str, seed: int) -> tuple[str, str, int]:
    return language, variant, seed


def key_of(row: dict[str, Any]) -> tuple[str, str, int]:
    return key(row["language"], row["variant"], row["seed"])


def saved() -> dict[str, Any]:
    """The file of results."""
    found: dict[str, Any] = json.loads(PATH.read_text()) if PATH.exists() else {}
    return found


def rows() -> list[dict[str, Any]]:
    """What has been measured."""
    found: list[dict[str, Any]] = saved().get("rows", [])
    return found


def add(row: dict[str, Any], note: str) -> None:
    """Put a row into the file, whatever others put there meanwhile."""
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / ".g2p.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        every = sorted([*rows(), row], key=key_of)
        recipe = RECIPES["pairs"]("", "deque", 64)
        data = {
            "machine": describe_machine(),
            "note": note or saved().get("note", ""),
            "recipe": {k: v for k, v in recipe.items() if k not in every[0]},
            "variants": VARIANTS,
            "rows": every,
            "means": means(every),
        }
        write_file(PATH, f"{json.dumps(data, indent=1)}\n".encode())


def means(every: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean of each language and variant over its seeds."""
    found = []
    order = [(language, variant) for language in LANGUAGES for variant in VARIANTS]
    for language, variant in order:
        mine = [r for r in every if (r["language"], r["variant"]) == (language, variant)]
        if not mine:
            continue
        figures = ("dev_accuracy", "dev_word_error_rate", "dev_symbol_error_rate", "seconds")
        averages = {name: round(mean(row[name] for row in mine), 4) for name in figures}
        found.append({"language": language, "variant": variant, "seeds": len(mine), **averages})
    return found


def show() -> None:
    """The means as a Markdown table, as docs/own-data.md has it."""
    print("| language | model | seeds | accuracy | word error | symbol error |")
    print("|---|---|---|---|---|---|")
    for row in means(rows()):
        shares = (row[f"dev_{n}"] for n in ("accuracy", "word_error_rate", "symbol_error_rate"))
        cells = [LANGUAGES[row["language"]], row["variant"], row["seeds"]]
        print("|", " | ".join(map(str, [*cells, *(f"{100 * s:.1f} %" for s in shares)])), "|")


if __name__ == "__main__":
    main()
