"""Train a small Queue-LSTM to copy, and show what it learnt. About a minute on an idle core.

python examples/demo.py [FOLDER]        default: runs/demo; resumes if it was stopped
"""

import json
import sys
from io import BytesIO
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from rich.console import Console
from rich.table import Table

from pushpop import Transducer
from pushpop.cli import main as pushpop
from pushpop.experiments.paper import paper_results
from pushpop.files import write_file
from pushpop.viewer.draw import animation, picture
from pushpop.viewer.tracing import generate, trace

# One start in place of the recipe's race of two: the one that won it with this seed.
TRAIN = (
    "train copy --memory queue --recipe pushpop --starts none --push-bias 1 --until-solved "
    "--evaluate-every 250"
)
SHOWN = 3
FIGURES = ("coarse", "fine")


def main(folder: Path) -> None:
    """Train until all lengths are solved, then show accuracies, transductions and pictures."""
    console = Console()
    console.print(
        "A Queue-LSTM of 96 units learns to copy sequences of up to 64 symbols, until it copies\n"
        "all of them, and sequences of 65 to 128 symbols, which it has never seen:\n\n"
        f"  pushpop {TRAIN}\n",
        highlight=False,
    )
    pushpop([*TRAIN.split(), "--run", str(folder)])
    report = json.loads((folder / "report.json").read_text())
    console.print(results_table(report))
    show_transductions(console, Transducer.from_pretrained(folder))
    for what, path in {"the training": draw_curve(folder), **draw_memory(folder)}.items():
        console.print(f"picture of {what}: {path}", highlight=False, soft_wrap=True)
    console.print(
        "\nNext:\n"
        "  .venv/bin/pushpop models                   trained models that come with pushpop\n"
        f"  .venv/bin/pushpop trace {folder} -o trace.html       step through the memory's work\n"
        f"  .venv/bin/pushpop evaluate {folder} --lengths 128,256,512,1024\n"
        "  .venv/bin/pushpop train reverse --memory stack --recipe pushpop --until-solved\n"
        "  .venv/bin/pushpop serve                    models and a playground in the browser\n"
        "  docs/own-data.md                           your own pairs, from a TSV file",
        highlight=False,
        soft_wrap=True,
    )


def results_table(report: dict[str, Any]) -> Table:
    """Tabulate accuracies beside the paper's."""
    paper = paper_results()["copy", "queue"]
    table = Table(title=f"Queue-LSTM on copying, {report['step']} batches", title_justify="left")
    table.add_column("sources", no_wrap=True)
    for name in FIGURES:
        for who in ("here", "paper"):
            table.add_column(f"{name}, {who}", justify="right")
    for name in ("train", "test"):
        cells, (shortest, longest) = [], report[name]["lengths"]
        for figure in FIGURES:
            printed = getattr(paper, f"{name}_{figure}")
            cells += [f"{report[name][figure]:.3f}", f"{printed:.2f}"]
        seen = "trained on" if name == "train" else "never seen"
        table.add_row(f"{shortest}-{longest} symbols, {seen}", *cells)
    return table


def show_transductions(console: Console, model: Transducer) -> None:
    """Print a few unseen sources with the model's outputs."""
    console.print("Three it has never seen:")
    for seed in range(SHOWN):
        example = generate("copy", 9 + 2 * seed, seed)
        (output,) = model.transduce([" ".join(example.source)])
        verdict = "right" if tuple(output.split()) == example.target else "wrong"
        console.print(
            f"  {' '.join(example.source)}\n    -> {output}  ({verdict})", highlight=False
        )


def draw_curve(folder: Path) -> Path:
    """Plot perplexity and test accuracy against batches."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    figure, perplexity = plt.subplots(figsize=(7, 3.6), layout="constrained")
    known = [line for line in lines if "perplexity" in line]
    perplexity.plot(*zip(*((x["step"], x["perplexity"]) for x in known), strict=True), "C7")
    perplexity.set(xlabel="batches", ylabel="training perplexity (grey)", yscale="log")
    accuracy = perplexity.twinx()
    for name in ("train", "test"):
        points = [(line["step"], line[name]["coarse"]) for line in lines if name in line]
        accuracy.plot(*zip(*points, strict=True), label=f"coarse, {name} lengths")
    accuracy.set(ylim=(-0.03, 1.03), ylabel="accuracy")
    accuracy.legend(loc="center right", frameon=False)
    figure.savefig(drawn := BytesIO(), format="png", dpi=150)
    write_file(path := folder / "curve.png", drawn.getvalue())
    return path


def draw_memory(folder: Path) -> dict[str, Path]:
    """Draw the strengths of the queue's cells on a source of 12 symbols: a picture and a GIF."""
    recorded = trace(
        Transducer.from_pretrained(folder), generate("copy", 12, 0), name="copy", task="copy"
    )
    still, moving = folder / "memory.png", folder / "demo.gif"
    write_file(still, picture(recorded, "png"))
    write_file(moving, animation(recorded))
    return {"the memory": still, "the memory at work": moving}


if __name__ == "__main__":
    if len(sys.argv) > 2 or any(argument.startswith("-") for argument in sys.argv[1:]):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/demo"))
