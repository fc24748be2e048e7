"""Molecules that a language model with a memory writes, as SMILES: brackets nest, rings must close.

    python examples/molecules.py              the molecules of this folder; two minutes
    python examples/molecules.py --moses      those of MOSES (Polykovskiy et al., 2020): a download
                                              of 52 MB from PyPI, then about twenty minutes

The training set of MOSES is taken out of the package `molsets`, which is not installed. RDKit says
which molecules are valid: pip install 'pushpop[molecules]'. Training goes on where it was stopped.
"""

import argparse
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from pushpop import Transducer
from pushpop.models import LanguageModel
from pushpop.training import TrainConfig, train
from pushpop.training.view import PlainView

HERE = Path(__file__).parent
MOSES = "molsets==0.3.1"
MOSES_TRAINING_SET = "moses/dataset/data/train.csv.gz"
SHOWN = 8

STARTS = ("C", "CO", "N#C", "Cl", "F", "CC(C)", "CN(C)", "O=C(O)", "FC(F)(F)", "CS(=O)(=O)")
RINGS = (
    "c1ccc({})cc1", "c1cccc({})c1", "c1ccc({})nc1", "c1cc({})sc1", "c1cc({})[nH]n1",
    "C1CCN({})CC1", "C1CCC({})CC1", "N1CCN({})CC1", "C1CC({})CO1", "c1ccc2c(c1)ncn2{}",
)  # fmt: skip
LINKS = ("C{}", "C(=O)N{}", "NC(=O){}", "OC{}", "S(=O)(=O)N{}", "C(O)C{}", "C=C{}")
ENDS = ("C", "OC", "C(=O)O", "C#N", "C(C)(C)C", "CCl", "C(N)=O", "C1CC1", "CC(F)F", "c1ccccc1")


def made(count: int) -> list[str]:
    """So many molecules made of a start, a ring, a link, a ring and an end; examples/molecules.smi
    has them."""
    parts = (STARTS, RINGS, LINKS, RINGS, ENDS)
    total = 1
    for part in parts:
        total *= len(part)
    molecules = []
    for number in range(count):
        place = number * 99_991 % total  # a prime: the steps visit every combination once
        chosen = []
        for part in parts:
            place, rest = divmod(place, len(part))
            chosen.append(part[rest])
        start, ring, link, further, end = chosen
        # Rings that are open at the same time have numbers of their own.
        further = further.replace("2", "4").replace("1", "3").format(end.replace("1", "5"))
        molecules.append(start + ring.format(link.format(further)))
    return molecules


def moses_training_set(folder: Path) -> Path:
    """The training set of MOSES in a folder, downloaded if it is not there."""
    path = folder / "moses-train.csv.gz"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        print(f"downloading {MOSES} (52 MB) for the training set in it", flush=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", MOSES]
        subprocess.run([*command, "--dest", str(folder)], check=True)
        (wheel,) = folder.glob("molsets-*.whl")
        with zipfile.ZipFile(wheel) as archive:
            path.write_bytes(archive.read(MOSES_TRAINING_SET))
    return path


def what_is_wrong(molecule: str) -> str:
    """ "syntax" (brackets, rings that do not close), "chemistry" (valence, aromatic rings), or
    nothing."""
    from rdkit import Chem

    parsed = Chem.MolFromSmiles(molecule, sanitize=False) if molecule else None
    if parsed is None:
        return "syntax"
    return "chemistry" if Chem.SanitizeMol(parsed, catchErrors=True) else ""


def judge(molecules: Iterable[str]) -> str:
    """How many molecules are valid, in a line; or that RDKit is needed to say so."""
    try:
        from rdkit import RDLogger
    except ImportError:
        return "to see which are valid: pip install 'pushpop[molecules]'"
    RDLogger.DisableLog("rdApp.*")
    found = Counter(map(what_is_wrong, molecules))
    shares = {name: f"{found[name] / found.total():.1%}" for name in ("", "syntax", "chemistry")}
    return (
        f"valid: {shares['']} of {found.total():,} molecules; wrong by syntax: "
        f"{shares['syntax']}, by chemistry: {shares['chemistry']}"
    )


def main(arguments: list[str] | None = None) -> None:
    """Train, write molecules, and say how many are valid."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--moses", action="store_true", help="train on the molecules of MOSES")
    parser.add_argument("--memory", default="deque", help="stack, queue, deque, ... or none")
    parser.add_argument("--count", type=int, default=1000, help="molecules to write")
    parser.add_argument("--epochs", type=int, default=0, help="0: those that fit the data")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where runs are kept")
    options = parser.parse_args(arguments)

    given: dict[str, object] = {"form": "lm", "memory": options.memory, "seed": 0}
    if options.moses:
        given["task"] = str(moses_training_set(options.runs / "moses"))
        given |= {"steps": 3000, "epochs": 1}
        sizes = "192,000 of 1,584,663 molecules once: about twenty minutes"
    else:
        given["task"] = str(HERE / "molecules.smi")
        given["epochs"] = options.epochs or 30
        sizes = "1,000 molecules thirty times: about two minutes"
    name = f"molecules-{'moses-' if options.moses else ''}{options.memory}"
    print(f"training on {sizes}; in {options.runs / name}", flush=True)
    train(TrainConfig.from_dict(given), options.runs / name, PlainView())

    model = Transducer.from_pretrained(options.runs / name)
    assert isinstance(model, LanguageModel)
    written = model.generate(options.count, seed=0)
    print("\nsome of the molecules that it writes:")
    for molecule in written[:SHOWN]:
        print(f"  {molecule}")
    print(judge(written))


if __name__ == "__main__":
    main()
