"""Memories as language models of molecules: MOSES, at equal parameters.

    python benchmarks/molecules.py                      writes results/molecules.json
    python benchmarks/molecules.py --models stack --seeds 0 --molecules 1584663

Each model sees so many molecules of the training set once, drawn by the seed, in
batches of 64, and writes 30,000. The figures are those of MOSES (Polykovskiy et al., 2020) that
RDKit can give: valid, unique@1k and @10k, internal diversity, novelty, filters; its FCD needs the
weights of a network from elsewhere, and is left out. Beside them: what is wrong with invalid ones,
and the negative log likelihood (nats a molecule) of 4,000 test molecules.

The data and the filters come out of the package molsets 0.3.1, as in examples/molecules.py. What is
done is never done again; several of these can run at a time. Runs are kept in runs/molecules.
"""

import argparse
import csv
import fcntl
import gzip
import io
import json
import time
import zipfile
from collections import Counter
from collections.abc import Sequence
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import torch
from rdkit import Chem, RDLogger
from rdkit.Chem import rdFingerprintGenerator

from machine import RESULTS, describe_machine
from pushpop import Transducer, TransducerConfig
from pushpop.files import write_file
from pushpop.models import LanguageModel
from pushpop.tasks import Vocabulary
from pushpop.training import TrainConfig, train
from pushpop.training.view import PlainView

PATH = RESULTS / "molecules.json"
EXAMPLE = Path(__file__).parents[1] / "examples" / "molecules.py"
MODELS: dict[str, dict[str, Any]] = {
    "stack": {"memory": "stack", "hidden": 256},
    "deque": {"memory": "deque"},
    "superposition": {"memory": "superposition"},
    "lstm": {"memory": "none"},
    "gru": {"memory": "none", "cell": "gru"},
}
"""What is given beside the recipe `lm`. The hidden size of the others is such that they have as
many parameters as the stack."""
BATCH = 64
SAMPLES, TESTED = 30_000, 4000
FIGURES = (
    "nll", "valid", "syntax", "chemistry", "unique@1k", "unique@10k", "diversity", "diversity2",
    "novelty", "filters",
)  # fmt: skip
PUBLISHED = {
    "valid": 0.9748,
    "unique@1k": 1.0,
    "unique@10k": 0.9994,
    "diversity": 0.8562,
    "diversity2": 0.8503,
    "novelty": 0.8419,
    "filters": 0.9943,
}
"""The CharRNN of MOSES, three layers of 768, 80 epochs: means of three seeds, from its table."""
ATOMS = {"C", "N", "S", "O", "F", "Cl", "Br", "H"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--models", default=",".join(MODELS), help="separated by commas")
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--molecules", type=int, default=192_000, help="seen in training")
    parser.add_argument("--samples", type=int, default=SAMPLES, help="written and judged")
    parser.add_argument("--runs", type=Path, default=Path("runs/molecules"))
    parser.add_argument("--note", default="", help="what else the machine was doing, for the file")
    parser.add_argument("--try", dest="tried", action="store_true", help="save nothing")
    options = parser.parse_args()
    RDLogger.DisableLog("rdApp.*")  # type: ignore[attr-defined]
    moses = Moses(options.runs)
    for seed in map(int, options.seeds.split(",")):
        for model in options.models.split(","):
            key = (options.molecules, model, seed)
            if key not in {key_of(row) for row in saved_rows()}:
                row = measure(moses, model, seed, options.molecules, options.samples, options.runs)
                print(json.dumps(row), flush=True)
                if not options.tried:
                    add(row, options.note)
    show(saved_rows())


class Moses:
    """The data and the filters in the wheel of molsets."""

    def __init__(self, folder: Path) -> None:
        spec = spec_from_file_location("example", EXAMPLE)
        assert spec is not None
        assert spec.loader is not None
        self.example = module_from_spec(spec)
        spec.loader.exec_module(self.example)
        self.training_set = self.example.moses_training_set(folder)
        (wheel,) = folder.glob("molsets-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            test = gzip.decompress(archive.read("moses/dataset/data/test.csv.gz")).decode()
            mcf = archive.read("moses/metrics/mcf.csv").decode()
            pains = archive.read("moses/metrics/wehi_pains.csv").decode()
        every = test.split()[1:]  # the first line is a header
        self.test = every[:: len(every) // TESTED][:TESTED]
        smarts = [row["smarts"] for row in csv.DictReader(io.StringIO(mcf))]
        smarts += [row[0] for row in csv.reader(io.StringIO(pains))]
        self.filters = [Chem.MolFromSmarts(pattern) for pattern in smarts]
        self._known: set[str] | None = None

    @property
    def known(self) -> set[str]:
        """The molecules of the training set, which are canonical."""
        if self._known is None:
            self._known = set(gzip.decompress(self.training_set.read_bytes()).decode().split()[1:])
        return self._known

    def passes(self, molecule: Chem.Mol) -> bool:
        """Whether a molecule passes the filters of MOSES: small rings, no charges, few kinds of
        atoms, none of the patterns that medicinal chemists avoid."""
        if any(len(ring) >= 8 for ring in molecule.GetRingInfo().AtomRings()):
            return False
        atoms = list(molecule.GetAtoms())
        if any(atom.GetFormalCharge() or atom.GetSymbol() not in ATOMS for atom in atoms):
            return False
        whole = Chem.AddHs(molecule)
        return not any(whole.HasSubstructMatch(pattern) for pattern in self.filters)


def measure(
    moses: Moses, name: str, seed: int, molecules: int, samples: int, runs: Path
) -> dict[str, Any]:
    """Train a model, or finish a run that was stopped; have it write molecules and judge them."""
    steps = -(-molecules // BATCH)
    given = {
        "task": str(moses.training_set), "form": "lm", "seed": seed, "batch_size": BATCH,
        "steps": steps, "epochs": 1, "hold_out": 0.001, "hidden": hidden_size(name),
        **MODELS[name],
    }  # fmt: skip
    folder = runs / f"{name}-{molecules}-seed{seed}"
    config = TrainConfig.from_dict(given)
    report = train(config, folder, PlainView())
    model = Transducer.from_pretrained(folder)
    assert isinstance(model, LanguageModel)
    began = time.perf_counter()
    written = model.generate(samples, seed=0)
    seconds = time.perf_counter() - began
    symbols = sum(len(line) + 1 for line in written)
    return {
        "molecules": molecules,
        "model": name,
        "seed": seed,
        "hidden": config.hidden,
        "parameters": report["parameters"],
        "batches": report["step"],
        "seconds": round(report["seconds"]),
        "nll": round(-mean(model.log_probability(moses.test)), 3),
        **judged(moses, written),
        "samples": samples,
        "symbols_a_second": round(symbols / seconds),
    }


def hidden_size(name: str) -> int:
    """The size with which a model has as many parameters as the stack's, as nearly as can be."""
    sizes = range(64, 513, 4)
    wanted = parameters("stack", 256)
    return min(sizes, key=lambda hidden: abs(parameters(name, hidden) - wanted))


def parameters(name: str, hidden: int) -> int:
    """The parameters of a model with the sizes of the recipe and 26 symbols."""
    vocabulary = Vocabulary((), tuple("abcdefghijklmnopqrstuvwxyz"))
    config = TransducerConfig(**{"memory_width": 64, **MODELS[name], "hidden": hidden})
    with torch.device("meta"):
        model = LanguageModel(config, vocabulary)
    return sum(parameter.numel() for parameter in model.parameters())


def judged(moses: Moses, written: Sequence[str]) -> dict[str, float]:
    """The figures of MOSES. All but the first three are of the valid molecules."""
    wrong = Counter(map(moses.example.what_is_wrong, written))
    valid = [Chem.MolFromSmiles(line) for line in written if not moses.example.what_is_wrong(line)]
    canonical = [Chem.MolToSmiles(molecule) for molecule in valid]
    similar, similar2 = similarity(valid)
    different = set(canonical)
    figures = {
        "valid": wrong[""] / len(written),
        "syntax": wrong["syntax"] / len(written),
        "chemistry": wrong["chemistry"] / len(written),
        "unique@1k": unique(canonical, 1000),
        "unique@10k": unique(canonical, 10_000),
        "diversity": 1 - similar,
        "diversity2": 1 - similar2,
        "novelty": len(different - moses.known) / max(1, len(different)),
        "filters": sum(map(moses.passes, valid)) / max(1, len(valid)),
    }
    return {name: round(figure, 5) for name, figure in figures.items()}


def unique(canonical: Sequence[str], count: int) -> float:
    """The share of different ones among the first so many."""
    first = canonical[:count]
    return len(set(first)) / max(1, len(first))


def similarity(molecules: Sequence[Chem.Mol], block: int = 2000) -> tuple[float, float]:
    """The mean Tanimoto similarity of all pairs of Morgan fingerprints (radius 2, 1024 bits), each
    with itself too; and that of squares, of which MOSES takes the root molecule by molecule."""
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=2, fpSize=1024)
    rows = [generator.GetFingerprintAsNumPy(molecule) for molecule in molecules]
    bits = torch.from_numpy(np.array(rows, np.float32).reshape(len(rows), 1024))
    counts = bits.sum(dim=1)
    total, roots = 0.0, 0.0
    for first in range(0, len(bits), block):
        squares = torch.zeros(len(bits[first : first + block]), dtype=torch.float64)
        for other in range(0, len(bits), block):
            both = bits[first : first + block] @ bits[other : other + block].T
            sides = counts[first : first + block, None] + counts[other : other + block]
            shares = torch.where(sides > 0, both / (sides - both), 1.0)
            total += float(shares.sum(dtype=torch.float64))
            squares += shares.square().sum(dim=1, dtype=torch.float64)
        roots += float((squares / len(bits)).sqrt().sum())
    return total / max(1, len(bits) ** 2), roots / max(1, len(bits))


def key_of(row: dict[str, Any]) -> tuple[int, str, int]:
    return row["molecules"], row["model"], row["seed"]


def saved_rows() -> list[dict[str, Any]]:
    """What has been measured."""
    rows: list[dict[str, Any]] = json.loads(PATH.read_text())["rows"] if PATH.exists() else []
    return rows


def add(row: dict[str, Any], note: str) -> None:
    """Put a row into the file, whatever others put there meanwhile."""
    RESULTS.mkdir(exist_ok=True)
    with open(RESULTS / ".molecules.lock", "wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = sorted([*saved_rows(), row], key=key_of)
        data = {
            "machine": describe_machine(),
            "note": note,
            "published": PUBLISHED,
            "rows": rows,
            "means": means(rows),
        }
        write_file(PATH, f"{json.dumps(data, indent=1)}\n".encode())


def means(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The mean of each model over its seeds, and its invalid molecules beside the LSTM's."""
    averages: list[dict[str, Any]] = []
    for molecules, model in sorted({key_of(row)[:2] for row in rows}):
        mine = [row for row in rows if key_of(row)[:2] == (molecules, model)]
        figures = {name: round(mean(row[name] for row in mine), 5) for name in FIGURES}
        head = {"molecules": molecules, "model": model, "seeds": len(mine)}
        averages.append({**head, "parameters": mine[0]["parameters"], **figures})
    for row in averages:
        for other in averages:
            if (other["molecules"], other["model"]) == (row["molecules"], "lstm"):
                row["invalid_beside_lstm"] = round((1 - row["valid"]) / (1 - other["valid"]), 4)
    return averages


def show(rows: list[dict[str, Any]]) -> None:
    """The means as a Markdown table, as docs/language-models.md has it."""
    print("| molecules seen | model | parameters | seeds |", " | ".join(FIGURES), "|")
    print("|---|---|---|---|" + "---|" * len(FIGURES))
    for row in means(rows):
        cells = [f"{row['molecules']:,}", row["model"], f"{row['parameters']:,}", str(row["seeds"])]
        print("|", " | ".join([*cells, *(f"{row[name]:.3f}" for name in FIGURES)]), "|")


if __name__ == "__main__":
    main()
