"""The tables of a report: the paper's rows beside ours, and the smaller ones.

Which run stands in a row is decided as in the paper, by average training perplexity. Every table is
made of the same rows; `forms` writes them as Markdown, CSV, JSON, LaTeX or HTML.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from math import inf, sqrt
from statistics import median
from typing import Any

from pushpop.experiments.paper import PAPER_MODELS, PAPER_TASKS, paper_results, size_rows
from pushpop.experiments.presets import identity
from pushpop.experiments.runs import SOLVED_ACCURACY, RunRecord
from pushpop.training import TrainConfig
from pushpop.training.config import CHANGEABLE

RULE = (
    "For every recipe, task and model, the run with the lowest average training perplexity (over "
    "the batches from one report to the next, at full training length; of a finished run, that of "
    "the model it kept) among those that differ in learning rate, size or seed. Test accuracy "
    "plays no part."
)
PROTOCOL = (
    "Candidates were trained on the lengths of their recipe (the paper's: 8-64), tested on 65-128, "
    "and did not stop at a good test; under the paper's recipe they also have its sizes, 256 or "
    "512 with a memory of 256, and no option but the learning rate is another."
)
REPORTING_OPTIONS = ("report_every", "evaluate_every", "evaluate_sequences", "checkpoint_every")
"""Options that change what is known of a run, and not the run."""
GRID = ("task", "recipe", "memory", "layers", "hidden", "memory_width", "learning_rate", "seed")
"""Options in which the runs of a table may differ."""
SIZES = ("hidden", "memory_width", "learning_rate")
AGREEMENT = 0.05
"""Coarse accuracies that are so close to the paper's count as the same."""
ACCURACIES = ("train_coarse", "train_fine", "test_coarse", "test_fine")
PAPER_COLUMNS = ("paper's train", "paper's test")
HEADERS = ("task", "model", "train", "test", *PAPER_COLUMNS, "batches", "solved at", "size", "rate",
           "seed")  # fmt: skip
OPTION_COLUMNS = {
    *GRID, "cell", "form", "push_bias", "pop_bias", "train_lengths", "test_lengths", "steps",
}  # fmt: skip
"""Options that are a column of runs.csv."""


@dataclass(frozen=True)
class Row:
    """A line of a table: its cells as people read them, and its values for other programs."""

    cells: tuple[str, ...]
    values: dict[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]


@dataclass(frozen=True)
class Table:
    """Rows under headers; `name` is the file's."""

    name: str
    title: str
    note: str
    headers: tuple[str, ...]
    rows: list[Row]


@dataclass(frozen=True)
class Choice:
    """A row of the paper's table: the run that stands for it, and those it was chosen from."""

    recipe: str
    task: str
    model: str
    run: RunRecord | None
    candidates: tuple[RunRecord, ...] = ()


def choose(runs: list[RunRecord]) -> list[Choice]:
    """The paper's rows under its recipe, then what there is under others, in the same order.

    All 35 where a run follows the paper's protocol, found or missing. Where none does, as in a
    sweep of small runs, all may stand, beside the rows of the tasks that occur.
    """
    followed = [run for run in runs if in_protocol(run)]
    tasks = {run.config.task for run in runs if run.config.recipe == "paper"}
    if any(run.config.recipe == "paper" for run in followed):
        tasks = set(PAPER_TASKS)
    groups: dict[tuple[str, str, str], list[RunRecord]] = {
        ("paper", task, model): []
        for task in PAPER_TASKS
        if task in tasks
        for model in PAPER_MODELS
    }
    for run in followed or runs:
        groups.setdefault((run.config.recipe, run.config.task, run.model), []).append(run)
    return [
        Choice(*key, min(group, key=rank, default=None), tuple(sorted(group, key=rank)))
        for key, group in sorted(groups.items(), key=lambda item: _sort_key(*item[0]))
    ]


def in_protocol(run: RunRecord) -> bool:
    """Whether a run may stand beside the paper's figures."""
    config = run.config
    usual = usual_options(config)
    if any(getattr(config, name) != usual[name] for name in ("train_lengths", "test_lengths")):
        return False
    if config.form != "transducer":  # a tagger is another model
        return False
    if config.until_solved:  # its tests decided how long it was trained
        return False
    if config.recipe != "paper":
        return True
    sizes = config.hidden in (256, 512) and (config.memory == "none" or config.memory_width == 256)
    return sizes and not nonstandard_options(config)


def usual_options(config: TrainConfig) -> dict[str, Any]:
    """What the options are where nothing but task, memory and recipe is given."""
    cell = config.cell if config.memory == "none" else ""  # without a memory it is the model
    return _recipe_options(config.task, config.memory, config.recipe, cell)


@cache
def _recipe_options(task: str, memory: str, recipe: str, cell: str) -> dict[str, Any]:
    options = {"task": task, "memory": memory, "recipe": recipe, **({"cell": cell} if cell else {})}
    return TrainConfig.from_dict(options).to_dict()


def nonstandard_options(config: TrainConfig) -> str:
    """The options that are not as the recipe has them, but for those of the grid, in words."""
    usual = usual_options(config)
    allowed = {*GRID, *REPORTING_OPTIONS, *CHANGEABLE}
    other = {k: v for k, v in config.to_dict().items() if k not in allowed and v != usual[k]}
    return ", ".join(f"{name} {value}" for name, value in other.items())


def rank(run: RunRecord) -> tuple[float, str]:
    """What the candidates are compared by; the name only breaks ties."""
    return (inf if run.perplexity is None else run.perplexity, run.name)


def _sort_key(recipe: str, task: str, model: str) -> tuple[object, ...]:
    """The paper's order; what it does not have comes after."""

    def index(name: str, known: Iterable[str]) -> tuple[int, str]:
        names = list(known)
        return (names.index(name), "") if name in names else (len(names), name)

    return (index(recipe, ["paper"]), index(task, PAPER_TASKS), index(model, PAPER_MODELS))


def paper_tables(choices: list[Choice]) -> list[Table]:
    """The paper's rows beside ours, a table a recipe."""
    rows = [paper_row(choice) for choice in choices]
    recipes = {recipe: [row for row in rows if row["recipe"] == recipe]
               for recipe in dict.fromkeys(row["recipe"] for row in rows)}  # fmt: skip
    return [
        Table("table", f"With the recipe `{recipe}`", caption(group), HEADERS, group)
        for recipe, group in recipes.items()
    ]


def paper_row(choice: Choice) -> Row:
    """A chosen run beside the paper's figures; what is not known is None."""
    run, paper = choice.run, paper_results().get((choice.task, choice.model))
    theirs = dict.fromkeys(ACCURACIES) if paper is None else asdict(paper)
    status = "missing" if run is None else "unfinished" if run.report is None else "finished"
    config = None if run is None else run.config
    values = {
        "task": choice.task,
        "model": choice.model,
        "recipe": choice.recipe,
        "status": status,
        "run": run and run.name,
        "candidates": len(choice.candidates),
        "size": run and run.size,
        "learning_rate": config and config.learning_rate,
        "seed": None if config is None else config.seed,
        "train_lengths": config and config.train_lengths,
        "test_lengths": config and config.test_lengths,
        "batches": None if run is None else run.step,
        **(dict.fromkeys(ACCURACIES) if run is None else accuracies(run)),
        "steps_to_solve": run and run.solved_at,
        "perplexity": run and _rounded(run.perplexity),
        **{f"paper_{name}": value for name, value in theirs.items()},
    }
    return Row(_paper_cells(values), values)


def accuracies(run: RunRecord) -> dict[str, float | None]:
    """A run's accuracies under the names of the columns."""
    measured = run.accuracies
    if measured is None:
        return dict.fromkeys(ACCURACIES)
    parts = {name: name.split("_") for name in ACCURACIES}
    return {name: round(measured[part][grain], 4) for name, (part, grain) in parts.items()}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def _paper_cells(values: dict[str, Any]) -> tuple[str, ...]:
    def pair(part: str) -> str:
        coarse, fine = values[f"{part}_coarse"], values[f"{part}_fine"]
        return "" if coarse is None or fine is None else f"{coarse:.2f} / {fine:.2f}"

    def shown(name: str, form: str) -> str:
        return "" if values[name] is None else format(values[name], form)

    batches = "missing"
    if values["status"] != "missing":
        so_far = " so far" if values["status"] == "unfinished" else ""
        batches = f"{values['batches']:,}{so_far}"
    return (
        PAPER_TASKS.get(values["task"], values["task"]),
        PAPER_MODELS.get(values["model"], values["model"]),
        *map(pair, ("train", "test", "paper_train", "paper_test")),
        batches,
        shown("steps_to_solve", ","),
        shown("size", ""),
        shown("learning_rate", "g"),
        shown("seed", ""),
    )


def caption(rows: list[Row]) -> str:
    """What the columns of the paper's table are."""
    recipes: dict[str, list[str]] = {}  # by lengths
    for row in rows:
        if row["run"]:
            lengths = (
                f"{row['train_lengths']} symbols in training and {row['test_lengths']} in testing"
            )
            recipes.setdefault(lengths, []).append(f"`{row['recipe']}`")
    parts = [
        f"{lengths} (recipe {', '.join(dict.fromkeys(names))})" if len(recipes) > 1 else lengths
        for lengths, names in recipes.items()
    ]
    return (
        f"Accuracies are coarse / fine. Sources have {', or '.join(parts)}. Solved at: the first "
        f"test with a coarse accuracy of {SOLVED_ACCURACY} or more on both lengths, in batches. "
        f"Size: width of the controller / of the memory.{_agreement(rows)}"
    )


def _agreement(rows: list[Row]) -> str:
    """How many finished rows under the paper's recipe are as the paper's, in words."""
    beside = [
        row
        for row in rows
        if (row["recipe"], row["status"]) == ("paper", "finished")
        and row["paper_test_coarse"] is not None
    ]
    agreeing = sum(
        all(
            row[name] is not None and abs(row[name] - row[f"paper_{name}"]) <= AGREEMENT + 1e-9
            for name in ("train_coarse", "test_coarse")
        )
        for row in beside
    )
    if not beside:
        return ""
    return (
        f" Within {AGREEMENT} of the paper's coarse accuracies, in training and in testing: "
        f"{agreeing} of {len(beside)} finished rows under its recipe."
    )


def size_table() -> Table:
    """The paper's model sizes beside ours."""
    rows = [
        Row((row.model, str(row.hidden), row.paper, f"{row.size.core:,}", row.off))
        for row in size_rows()
    ]
    note = (
        "Parameters of the recurrent core, as the paper counts them: without embeddings and "
        "initial states."
    )
    return Table("sizes", "Model sizes", note, ("model", "hidden", "paper", "ours", "off"), rows)


def length_table(choices: list[Choice]) -> Table:
    """Accuracy at single lengths, far beyond those of training."""
    runs = [choice.run for choice in choices if choice.run and choice.run.measured_lengths]
    lengths = sorted({length for run in runs for length in run.measured_lengths})
    rows = []
    for run in runs:
        measured = run.measured_lengths
        figures = (
            f"{measured[n]['coarse']:.2f} / {measured[n]['fine']:.2f}" if n in measured else ""
            for n in lengths
        )
        rows.append(Row((*_names(run), run.config.recipe, *figures)))
    return Table(
        "lengths",
        "Accuracy at single lengths",
        "Coarse / fine accuracy on sources of exactly so many symbols.",
        ("task", "model", "recipe", *(f"{length:,}" for length in lengths)),
        rows,
    )


def seed_table(runs: list[RunRecord]) -> Table:
    """Of runs that differ in nothing but the seed, how many solve their task."""
    groups: dict[str, list[RunRecord]] = {}
    for run in runs:
        groups.setdefault(identity(run.config, but=("seed",)), []).append(run)
    rows = []
    together: dict[str, list[list[RunRecord]]] = {}  # by recipe, under its own options
    for group in groups.values():
        if len(group) < 2:
            continue
        config, other = group[0].config, nonstandard_options(group[0].config)
        options = (config.recipe, group[0].size, f"{config.learning_rate:g}", other)
        rows.append(Row((*_names(group[0]), *options, *_success(group))))
        usual = usual_options(config)
        if not other and all(getattr(config, name) == usual[name] for name in SIZES):
            together.setdefault(config.recipe, []).append(group)
    rows += [
        Row(("all", "", recipe, "", "", "", *_success([run for group in own for run in group])))
        for recipe, own in together.items()
        if len(own) > 1
    ]
    return Table(
        "seeds",
        "Success over seeds",
        "Runs that differ in nothing but the seed. Solved: the model that the run kept has a "
        f"coarse accuracy of {SOLVED_ACCURACY} or more on both lengths, on fresh draws; beside it "
        "the 95 % interval of that share (Wilson's). At: the first such test, in batches. Batches: "
        "of the longest run. Seconds of a whole run. Three figures: least / median / most.",
        ("task", "model", "recipe", "size", "rate", "other options", "solved", "95 %", "at",
         "batches", "seconds"),
        rows,
    )  # fmt: skip


def share_interval(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    z, share = 1.96, successes / trials
    centre = share + z * z / (2 * trials)
    spread = z * sqrt(share * (1 - share) / trials + (z / (2 * trials)) ** 2)
    scale = 1 + z * z / trials
    return max(0.0, (centre - spread) / scale), min(1.0, (centre + spread) / scale)


def _success(runs: list[RunRecord]) -> tuple[str, ...]:
    """How many solve their task, the interval of that share, when, the most batches, seconds."""
    finished = [run for run in runs if run.report is not None]
    solved = sum(run.solved for run in finished)
    low, high = share_interval(solved, len(finished)) if finished else (0.0, 1.0)
    going = f", {len(runs) - len(finished)} going on" if len(finished) < len(runs) else ""
    when = [run.solved_at for run in finished if run.solved and run.solved_at is not None]
    seconds = [float(run.report["seconds"]) for run in finished if run.report is not None]
    return (
        f"{solved} of {len(finished)}{going}",
        f"{low:.2f}-{high:.2f}",
        _spread(when),
        f"{max(run.step for run in runs):,}",
        _spread(seconds),
    )


def _spread(values: Sequence[float]) -> str:
    """Least, middle and largest."""
    if not values:
        return ""
    return f"{min(values):,.0f} / {median(values):,.0f} / {max(values):,.0f}"


def candidate_tables(choices: list[Choice]) -> list[Table]:
    """For every row of the paper's table that has any, the runs that it was chosen from."""
    tables = []
    for choice in choices:
        rows = [
            Row(
                (
                    run.name,
                    run.size,
                    f"{run.config.learning_rate:g}",
                    str(run.config.seed),
                    f"{run.step:,}{'' if run.report else ' so far'}",
                    "" if run.perplexity is None else f"{run.perplexity:.4f}",
                )
            )
            for run in choice.candidates
        ]
        number = f"{len(rows)} candidate{'' if len(rows) == 1 else 's'}"
        title = f"{choice.task}, {choice.model}, recipe {choice.recipe}: {number}"
        headers = ("run", "size", "rate", "seed", "batches", "perplexity")
        tables += [Table("candidates", title, "", headers, rows)] * bool(rows)
    return tables


def environment_table(runs: list[RunRecord]) -> Table:
    """What the runs were made with, and how many with the same."""
    names = ("pushpop", "torch", "numba", "numpy", "python", "machine", "threads", "commit")
    counts: dict[tuple[str, ...], int] = {}
    for run in runs:
        versions = tuple(str(run.environment.get(name) or "")[:12] for name in names)
        counts[versions] = counts.get(versions, 0) + 1
    rows = [Row((*versions, str(count))) for versions, count in sorted(counts.items())]
    return Table("environments", "What the runs were made with", "", (*names, "runs"), rows)


def run_rows(runs: list[RunRecord], choices: list[Choice]) -> list[dict[str, Any]]:
    """The lines of runs.csv: one a run, whether it stands in the table or not."""
    chosen = {choice.run.name for choice in choices if choice.run is not None}
    candidates = {run.name for choice in choices for run in choice.candidates}
    rows = []
    for run in runs:
        options = run.config.to_dict()
        rows.append(
            {
                "run": run.name,
                "role": "chosen" if run.name in chosen else "candidate" * (run.name in candidates),
                **{name: options[name] for name in options if name in OPTION_COLUMNS},
                "batches": run.step,
                "finished": run.report is not None,
                "kept_step": run.kept_step,
                **accuracies(run),
                "steps_to_solve": run.solved_at,
                "perplexity": _rounded(run.perplexity),
            }
        )
    return rows


def _names(run: RunRecord) -> tuple[str, str]:
    return PAPER_TASKS.get(run.config.task, run.config.task), PAPER_MODELS.get(run.model, run.model)
