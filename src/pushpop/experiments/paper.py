"""The paper's tables, and the runs that stand beside them.

Results and sizes are those of Grefenstette, Hermann, Suleyman and Blunsom, "Learning to Transduce
with Unbounded Memory" (2015), in paper.json. Which run stands in a row is decided as in the paper,
by average training perplexity.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import inf
from typing import Any, NamedTuple

from pushpop.errors import InputError
from pushpop.experiments.presets import model_options
from pushpop.experiments.runs import RunRecord
from pushpop.memory.kinds import MEMORY_NAMES
from pushpop.models.config import WIDEST
from pushpop.tasks import Vocabulary
from pushpop.training import TrainConfig
from pushpop.training.config import CHANGEABLE

_PUBLISHED = json.loads((files("pushpop.experiments") / "paper.json").read_text("utf-8"))
PAPER_TASKS: dict[str, str] = _PUBLISHED["tasks"]
PAPER_MODELS: dict[str, str] = _PUBLISHED["models"]
PAPER_SIZES: dict[str, tuple[float, float]] = _PUBLISHED["sizes"]
GRAMMARS = ("svo-sov", "gender")
HIDDEN = (256, 512)
MEMORY_WIDTH = 256
REPORTING_OPTIONS = ("report_every", "evaluate_every", "evaluate_sequences", "checkpoint_every")
"""Options that change what is known of a run, and not the run."""
GRID = ("task", "recipe", "memory", "layers", "hidden", "memory_width", "learning_rate", "seed")
"""Options in which the runs of a table may differ."""
DRIFT = "push_bias drift"
"""A random initialisation as well: the paper leaves open from what the push biases are drawn."""
AGREEMENT = 0.05
"""Accuracies that are so close to the paper's count as the same."""
SOLVED_IN_TRAINING, SOLVED_IN_TESTING, NOT_LEARNT = 0.97, 0.95, 0.05
"""Coarse accuracies between which the verdicts lie."""


class Accuracies(NamedTuple):
    """A row of the paper's table."""

    train_coarse: float
    train_fine: float
    test_coarse: float
    test_fine: float


@cache
def paper_results() -> dict[tuple[str, str], Accuracies]:
    """The paper's 35 rows by (task, model)."""
    rows = _PUBLISHED["rows"].items()
    return {(task, model): Accuracies(*row) for task, of in rows for model, row in of.items()}


@dataclass(frozen=True)
class Choice:
    """A row of the paper's table: the run that stands for it, and those it was chosen from.

    `rungs` are those of the sweep that the run comes from, if it had successive halving.
    """

    recipe: str
    task: str
    model: str
    run: RunRecord | None = None
    candidates: tuple[RunRecord, ...] = ()
    rungs: tuple[int, ...] = ()

    @property
    def status(self) -> str:
        """missing, unfinished or finished; with halving, once a candidate of the same sweep has
        ended the last rung, or the run has converged."""
        if self.run is None:
            return "missing"
        if self.run.report is None:
            return "unfinished"
        if not self.rungs or self.run.report["stopped_by"] != "steps":
            return "finished"
        last = [run for run in self.candidates if run.config.steps == self.rungs[-1]]
        ended = any(run.report and run.folder == self.folder for run in last)
        return "finished" if ended else "unfinished"

    @property
    def folder(self) -> str:
        """The folder that the run is in."""
        return "" if self.run is None else self.run.folder

    @property
    def rung(self) -> int | None:
        """The rung that the run has been selected for, from 1 up."""
        if self.run is None or not self.rungs:
            return None
        return self.rungs.index(self.run.config.steps) + 1


def choose(runs: Sequence[RunRecord], own_lengths: Sequence[RunRecord] = ()) -> list[Choice]:
    """The paper's rows under its recipe, then what there is under others, in the same order.

    All 35 where a run follows the paper's protocol, found or missing. Where none does, as in a
    sweep of small runs, all may stand, beside the rows of the tasks that occur. Runs on the
    grammars' own lengths, if given, stand in their rows instead.
    """

    def key(run: RunRecord) -> tuple[str, str, str]:
        return run.config.recipe, run.config.task, run.model

    order = ["paper", *PAPER_TASKS, *PAPER_MODELS]  # what the paper does not have comes after

    def place(key: tuple[str, ...]) -> list[tuple[int, str]]:
        return [(order.index(x) if x in order else len(order), x) for x in key]

    own = [run for run in own_lengths if run.config.recipe == "paper"]
    followed = [run for run in runs if in_protocol(run)]
    tasks = {run.config.task for run in (*runs, *own) if run.config.recipe == "paper"}
    if any(run.config.recipe == "paper" for run in followed):
        tasks = set(PAPER_TASKS)
    groups: dict[tuple[str, str, str], list[RunRecord]] = {
        ("paper", task, model): [] for task in tasks & {*PAPER_TASKS} for model in PAPER_MODELS
    }
    replaced = {key(run) for run in own}
    for run in (*(run for run in followed or runs if key(run) not in replaced), *own):
        groups.setdefault(key(run), []).append(run)
    rungs = _rungs(list(groups.values()))
    choices = []
    for row in sorted(groups, key=place):
        candidates = tuple(sorted(groups[row], key=rank))
        best: dict[str, RunRecord] = {}  # of each folder
        for run in candidates:
            best.setdefault(run.folder, run)
        possible = [Choice(*row, best[at], candidates, rungs.get(at, ())) for at in best]
        finished = [choice for choice in possible if choice.status == "finished"]
        choices.append((finished or possible or [Choice(*row)])[0])
    return choices


def _rungs(groups: list[list[RunRecord]]) -> dict[str, tuple[int, ...]]:
    """The rungs of each folder whose runs were selected by halving: where the runs of a row are to
    have different numbers of batches."""
    steps: dict[str, list[set[int]]] = {}
    for group in groups:
        for folder in {run.folder for run in group}:
            of_row = {run.config.steps for run in group if run.folder == folder}
            steps.setdefault(folder, []).append(of_row)
    return {
        folder: tuple(sorted(set().union(*rows)))
        for folder, rows in steps.items()
        if any(len(row) > 1 for row in rows)
    }


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
    if config.memory != "none" and config.memory_width != MEMORY_WIDTH:
        return False
    return config.hidden in HIDDEN and nonstandard_options(config) in ("", DRIFT)


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


def verdict(train_coarse: float | None, test_coarse: float | None) -> str | None:
    """What a row says of its model: whether the task is solved, and on which lengths."""
    if train_coarse is None or test_coarse is None:
        return None
    if train_coarse >= SOLVED_IN_TRAINING:
        if test_coarse >= SOLVED_IN_TESTING:
            return "solved"
        if test_coarse <= NOT_LEARNT:
            return "training only"
    return "neither" if max(train_coarse, test_coarse) <= NOT_LEARNT else "in part"


class Size(NamedTuple):
    """Numbers of parameters."""

    core: int  # what the paper counts
    start: int  # learned initial states
    total: int  # everything, embeddings included


def count_parameters(model: str, hidden: int, vocabulary: Vocabulary, embedding: int = 64) -> Size:
    """The size of one of the paper's models as a transducer, without making it.

    The core has no embeddings, no learned initial states, and the projection to the output
    embedding only where a memory is.
    """
    if not 1 <= embedding <= WIDEST:
        raise InputError(f"embedding is {embedding}, expected a whole number from 1 to {WIDEST}")

    def lstm(inputs: int) -> int:
        return 4 * hidden * (inputs + hidden + 1)

    layers = model_options(model)["layers"]
    projection = (hidden + 1) * embedding
    if model in MEMORY_NAMES:
        ends, width = (2 if model == "deque" else 1), MEMORY_WIDTH
        gates_and_values = (hidden + 1) * (2 * ends + ends * width)
        core, outside = lstm(embedding + ends * width) + gates_and_values + projection, 0
    else:  # layers above the first read the input too
        core, outside = lstm(embedding) + (layers - 1) * lstm(embedding + hidden), projection
    start = 2 * layers * hidden
    tables = (vocabulary.input_size + vocabulary.output_size) * embedding
    return Size(core, start, core + start + outside + tables)
