"""Which run stands for a model on a task: as in the paper, by average training perplexity."""

from dataclasses import dataclass
from math import inf
from typing import Any

from pushpop.experiments.paper import PAPER_MODELS, PAPER_TASKS
from pushpop.experiments.runs import RunRecord
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


@dataclass(frozen=True)
class Choice:
    """A row of the table: the run that stands for it, and those it was chosen from."""

    recipe: str
    task: str
    model: str
    run: RunRecord | None
    candidates: tuple[RunRecord, ...] = ()


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
    named = {"task": config.task, "memory": config.memory, "recipe": config.recipe}
    if config.memory == "none":  # there the cell is the model
        named["cell"] = config.cell
    return TrainConfig.from_dict(named).to_dict()


def nonstandard_options(config: TrainConfig) -> str:
    """The options that are not as the recipe has them, but for those of the grid, in words."""
    usual = usual_options(config)
    allowed = {*GRID, *REPORTING_OPTIONS, *CHANGEABLE}
    found = {k: v for k, v in config.to_dict().items() if k not in allowed and v != usual[k]}
    return ", ".join(f"{name} {value}" for name, value in found.items())


def choose(runs: list[RunRecord]) -> list[Choice]:
    """The paper's rows under its recipe, then what there is under others, in the same order.

    All 35 where a run follows the paper's protocol, found or missing. Where none does, as in a
    sweep of small runs, all may stand, beside the rows of the tasks that occur.
    """
    followed = [run for run in runs if in_protocol(run)]
    tasks = {run.config.task for run in runs if run.config.recipe == "paper"}
    if any(run.config.recipe == "paper" for run in followed):
        tasks = set(PAPER_TASKS)
    runs = followed or runs
    groups: dict[tuple[str, str, str], list[RunRecord]] = {
        ("paper", task, model): []
        for task in PAPER_TASKS
        if task in tasks
        for model in PAPER_MODELS
    }
    for run in runs:
        groups.setdefault((run.config.recipe, run.config.task, run.model), []).append(run)
    return [
        Choice(*key, min(found, key=rank, default=None), tuple(sorted(found, key=rank)))
        for key, found in sorted(groups.items(), key=lambda group: _sort_key(*group[0]))
    ]


def rank(run: RunRecord) -> tuple[float, str]:
    """What the candidates are compared by; the name only breaks ties."""
    return (inf if run.perplexity is None else run.perplexity, run.name)


def _sort_key(recipe: str, task: str, model: str) -> tuple[object, ...]:
    """The paper's order; what it does not have comes after."""

    def index(name: str, known: list[str]) -> tuple[int, str]:
        return (known.index(name), "") if name in known else (len(known), name)

    return (
        index(recipe, ["paper"]),
        index(task, list(PAPER_TASKS)),
        index(model, list(PAPER_MODELS)),
    )
