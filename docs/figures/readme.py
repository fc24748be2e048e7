"""Renew the tables of README.md from results/, and its badges from pyproject.toml.

python docs/figures/readme.py
"""

import json
import tomllib
from pathlib import Path
from statistics import mean
from typing import Any

from pushpop.experiments.chomsky import PUBLISHED, score_rows
from pushpop.experiments.paper import choose, paper_results
from pushpop.experiments.runs import read_results

ROOT = Path(__file__).parents[2]
MODELS = ("copy-queue", "reverse-stack", "flip-queue", "svo-sov-queue", "gender-queue")
TASKS = {
    "copy": "copy a string",
    "reverse": "reverse it",
    "flip": "swap neighbours",
    "svo-sov": "word order: SVO to SOV",
    "gender": "gender agreement",
}
MEMORIES = ("stack", "queue", "deque")
CHOMSKY = ("stack-manipulation", "reverse", "duplicate", "odds-first")


def main() -> None:
    """Write the tables and the badges."""
    page = ROOT / "README.md"
    page.write_text(with_tables(page.read_text("utf-8")), "utf-8")
    for name, svg in badges().items():
        (ROOT / "docs" / "figures" / name).write_text(svg, "utf-8")


def with_tables(text: str) -> str:
    """The page with what stands between its marks renewed."""
    made = {
        "results": results_table(),
        "chomsky": chomsky_sentence(),
        "own-data": own_data_table(),
        "speed": speed_table(),
    }
    for name, table in made.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- /{name} -->"
        head, old, rest = text.partition(begin)
        if not old or end not in rest:
            raise ValueError(f"README.md has no {begin.strip()} ... {end}")
        text = head + begin + table + end + rest.partition(end)[2]
    return text


def results_table() -> str:
    """One shipped model a task: seeds solved, accuracy by length, the paper's accuracy."""
    lengths = {row["model"]: row for row in results("shipped_lengths")["models"]}
    paper = paper_results()
    rows = [["task", "memory", "seeds solved", "65-128", "1,024", "10,000"]]
    rows[0] += ["paper's protocol", "paper, 65-128", "paper's best LSTM, 65-128"]
    protocol = {**protocol_figures("mini", " (small)"), **protocol_figures("paper")}
    ours = read_results(ROOT / "results" / "ours")
    for name in MODELS:
        task, _, memory = name.rpartition("-")
        seeds = [run for run in ours if (run.config.task, run.model) == (task, memory)]
        solved = sum(run.solved for run in seeds)
        figures = [f"{lengths[name][length]:.2f}" for length in ("65-128", "1024", "10000")]
        figures.append(protocol[task, memory])
        lstm = max(paper[task, f"lstm{layers}"].test_coarse for layers in (1, 2, 4, 8))
        figures += [f"{printed:.2f}" for printed in (paper[task, memory].test_coarse, lstm)]
        rows.append([TASKS[task], memory, f"{solved} of {len(seeds)}", *figures])
    return markdown(rows)


def protocol_figures(folder: str, mark: str = "") -> dict[tuple[str, str], str]:
    """Coarse accuracy on test lengths of the finished rows of a folder, if there is one."""
    path = ROOT / "results" / folder
    return {
        (row.task, row.model): f"{row.run.accuracies['test']['coarse']:.2f}{mark}"
        for row in (choose(read_results(path)) if path.exists() else ())
        if row.status == "finished"
    }


def own_data_table() -> str:
    """Identifiers: what models have right of short names and of longer ones, by their seeds."""
    names = {
        "pushpop train names.tsv": "default",
        "the same, as it was before": "former default",
        "encoder and attention, no memory": "attention alone",
        "an LSTM": "LSTM",
        "a queue alone (for somebody who knows)": "memory told",
    }
    measured = [row for row in results("own_data")["rows"] if row["set"] == "camel"]
    rows = [["model", "names of 4-16 characters", "names of 24-63", "seconds", "seeds"]]
    for name, model in names.items():
        runs = [row for row in measured if row["model"] == model]
        shares = [f"{mean(row[part] for row in runs):.3f}" for part in ("in", "longer")]
        seconds = f"{mean(row['seconds'] for row in runs):.0f}"
        rows.append([name, *shares, seconds, str(len(runs))])
    return markdown(rows)


def chomsky_sentence() -> str:
    """Tasks of the benchmark that need a memory: the best one of ours, the best published mean."""
    runs = read_results(ROOT / "results" / "chomsky")
    rows = [row for row in score_rows(runs) if row["model"] in MEMORIES]
    parts = []
    for task in CHOMSKY:
        best = max(  # one seed says less than three
            (row for row in rows if row["task"] == task),
            key=lambda row: (row["seeds"], row["mean"], row["max"]),
        )
        theirs = max(PUBLISHED["mean"][task]) / 100
        seeds = f"{best['seeds']} seed{'s' if best['seeds'] > 1 else ''}"
        name = task.replace("-", " ")
        parts.append(f"{name} **{best['mean']:.3f}** ({best['model']}, {seeds}; {theirs:.3f})")
    return (
        "On the [Chomsky-hierarchy benchmark](docs/chomsky.md), trained on up to 40 symbols and "
        "tested on 41-500, the share of right symbols, mean over seeds, and the best published "
        f"mean: {', '.join(parts)}.\n"
    )


def speed_table() -> str:
    """Ratios of one run each: the memories beside their equations, the layer beside nn.LSTM."""
    memory, layer = results("memory_speed")["memories"], results("recurrent_speed")["hidden 256"]
    ratios = {name: each["times_faster_than_reference"] for name, each in memory.items()}
    rows = [["", *MEMORIES]]
    for text, backend in (("CPU kernels", "fused"), ("parallel form, any device", "parallel")):
        shown = [f"{ratios[name]['forward_backward'][backend]:.0f}" for name in MEMORIES]
        rows.append([f"memory, times faster than the equations in dense torch: {text}", *shown])
    shown = [f"{layer['times_nn_lstm'][name]:.1f}" for name in MEMORIES]
    rows.append(["`MemoryRNN(64, 256)`, times the cost of `nn.LSTM(64, 256)`", *shown])
    return markdown(rows)


def badges() -> dict[str, str]:
    """SVG files by name, from facts in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    about = project["project"]
    (torch,) = (need for need in about["dependencies"] if need.startswith("torch"))
    typed = "mypy strict" if project["tool"]["mypy"]["strict"] else "mypy"
    facts = {
        "python": about["requires-python"].replace(">=", "≥ "),
        "torch": torch.removeprefix("torch").replace(">=", "≥ "),
        "licence": about["license"],
        "typed": typed,
    }
    return {f"badge-{name}.svg": badge(name, fact) for name, fact in facts.items()}


def badge(name: str, fact: str) -> str:
    """A name on grey beside a fact on teal; widths are those of common sans-serif faces."""
    left, right = (7 * len(text) + 12 for text in (name, fact))
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="20" role="img">
  <title>{name}: {fact}</title>
  <rect width="{left + right}" height="20" rx="4" fill="#0b6e75"/>
  <path d="M4 0H{left}V20H4A4 4 0 0 1 0 16V4A4 4 0 0 1 4 0Z" fill="#55555f"/>
  <g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
    <text x="{left / 2}" y="14">{name}</text>
    <text x="{left + right / 2}" y="14">{fact}</text>
  </g>
</svg>
"""


def markdown(rows: list[list[str]]) -> str:
    """A table whose first row is its heading."""
    rule = ["---"] + ["---:"] * (len(rows[0]) - 1)
    return "".join(f"| {' | '.join(row)} |\n" for row in (rows[0], rule, *rows[1:]))


def results(name: str) -> Any:
    """A file of results/."""
    return json.loads((ROOT / "results" / f"{name}.json").read_text("utf-8"))


if __name__ == "__main__":
    main()
