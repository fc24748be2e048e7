"""The options of a training run, all of them and nowhere else."""

# ruff: noqa: RUF009  `option` only wraps `field`

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from pushpop.devices import read_device
from pushpop.errors import InputError, did_you_mean, reading
from pushpop.memory.names import MEMORY_NAMES
from pushpop.models.config import (
    BIASES,
    OUTPUT_SCALE,
    CellName,
    EncoderName,
    StartingBias,
    TransducerConfig,
    check_tagger,
)
from pushpop.options import NOT_GIVEN, option, read_option
from pushpop.tasks import LengthRange, parse_lengths
from pushpop.tasks.pairs_columns import parse_columns
from pushpop.tasks.pairs_open import is_pairs_file
from pushpop.tasks.pairs_text import Normalise
from pushpop.training.readers import (
    SEEDS_APART,
    parse_starts,
    read_bias,
    read_lengths,
    read_memory,
    read_starts,
    without_options,
)
from pushpop.training.recipes import RECIPES, RecipeName

Optimiser = Literal["rmsprop", "adam"]
Keep = Literal["best", "last"]
Form = Literal["auto", "transducer", "tagger"]
Side = Literal["guess", "chars", "spaces"]

CHANGEABLE = (
    "steps", "converged_after", "until_faded", "epochs", "patience", "minutes", "until_solved",
    "device", "threads", "tensorboard",
)  # fmt: skip
"""Options that a run can go on under other values of: they say when it stops and what it runs on,
not what it does."""


@dataclass(frozen=True)
class TrainConfig:
    """What is trained, on what, how, and when it stops. The defaults are the paper's protocol.

    Text is accepted for every option, as it comes from a command line or a file. An option that is
    not given has the value of the recipe, and where that has none, its default. All options with
    their defaults are listed under "Options" on the page about training.
    """

    task: str = option(
        "copy",
        "a task's name (pushpop tasks lists them), a .itg file, or pairs in a .tsv or .csv file",
    )
    recipe: RecipeName = option(
        "paper",
        "values for options that are not given: paper (the defaults), pushpop (one for all tasks), "
        "chomsky (for the tasks of that name), pairs and labels (for files), by-task (the paper's "
        "tasks by name)",
        kw_only=True,
    )
    memory: str = option(
        "stack",
        f"{', '.join(MEMORY_NAMES)}, or none: a deep LSTM, or what cell says",
        read=read_memory,
    )
    form: Form = option(
        "auto",
        "transducer: reads the source, then writes the target; tagger: writes while it reads; "
        "auto: what the task is for, or transducer",
    )
    layers: int = option(1, "layers of the deep LSTM, or of controllers with memories", least=1)
    cell: CellName = option("lstm", "the controller, or the network itself: lstm, gru or rnn")
    embedding: int = option(64, "width of the embeddings", least=1)
    hidden: int = option(256, "width of the controller or of a layer", least=1)
    memory_width: int = option(256, "width of what is pushed", least=1)
    push_bias: StartingBias = option(
        "auto",
        "where the push gates' biases start: a number, a deque's [top, bottom], [[..],[..]] for "
        "several memories, drift: each drawn around the pop bias, none: random; auto: none",
        read=read_bias,
    )
    pop_bias: StartingBias = option("auto", "the same for the pop gates; auto: -1", read=read_bias)
    input_scale: float = option(
        1.0, "standard deviation of the input table's initial values", above=0
    )
    output_scale: float = option(
        OUTPUT_SCALE, "the output table's initial values are uniform on +- this", above=0
    )
    encoder: EncoderName = option("none", "bidirectional: an LSTM reads the source first; or none")
    attention: bool = option(False, "let outputs attend to the source too, beside the memory")
    heads: int = option(1, "memories side by side, each with a controller of its own", least=1)
    memories: int = option(
        1, "memories side by side under one controller, which reads them all", least=1
    )
    dropout: float = option(0.0, "share of inputs and outputs set to 0 in training", least=0)
    valid: str = option("", "a file of pairs to validate on; none: some are held out")
    hold_out: float = option(0.1, "the share of the pairs that is held out then", above=0)
    columns: str = option("guess", "of a file: source,target or source,target,features, as in 1,2")
    source_symbols: Side = option("guess", "the source is chars or spaces (between symbols)")
    target_symbols: Side = option("guess", "the same for the target")
    normalise: Normalise = option("nfc", "the Unicode form of the text: nfc, nfkc or none")
    skip_bad: bool = option(False, "leave bad rows of a file out, and count them")
    seed: int = option(0, "of the weights and the data; the same seed gives the same run", least=0)
    train_lengths: str = option(
        "8-64", "shortest and longest source in training", read=read_lengths
    )
    test_lengths: str = option(
        "65-128", "shortest and longest source in testing", read=read_lengths
    )
    uniform_lengths: bool = option(
        False, "train on all lengths of a grammar equally often, not as often as it has them"
    )
    batch_size: int = option(10, "sequences in a batch", least=1)
    optimiser: Optimiser = option("rmsprop", "rmsprop or adam")
    learning_rate: float = option(1e-3, "step size of the optimiser", above=0)
    rmsprop_alpha: float = option(0.9, "memory of RMSProp's mean square", least=0)
    epsilon: float = option(1e-8, "what the optimiser adds to its denominator", above=0)
    clip: float = option(
        1.0, "every gradient element is held to plus or minus this; 0: no clipping", 0
    )
    label_smoothing: float = option(
        0.0, "share of the loss that wants all symbols to be equally likely", least=0
    )
    warmup: int = option(0, "batches in which the learning rate rises to its value", least=0)
    cooldown: int = option(
        0,
        "batches at the end of steps or epochs in which the learning rate falls to 0; 0: none",
        least=0,
    )
    plateau: int = option(
        0, "epochs without a gain in validation that halve the learning rate; 0: never", least=0
    )
    window: int = option(20, "batches whose perplexity the two schedules below go by", least=1)
    curriculum_start: int = option(
        0, "longest source at first, raised by half when learnt; 0: full length at once", least=0
    )
    curriculum_below: float = option(1.5, "learnt: perplexity of the window below this", above=1)
    starts: str = option(
        "",
        "trainings that race for full length, with other values of some options, as in "
        "'curriculum_start=10 push_bias=1; curriculum_start=24'; none: no race",
        read=read_starts,
    )
    race_steps: int = option(
        3000, "batches that each start of a race has at most; then the farthest goes on", least=1
    )
    decay: float = option(
        1.0, "learning rate's factor a batch once steady; 1: never decays", above=0
    )
    decay_below: float = option(1.1, "steady: perplexity of the window below this", above=1)
    gate_noise: float = option(
        0.0, "noise on the gates from when it is steady: teaches all or nothing; 0: none", least=0
    )
    controller_noise: float = option(
        0.0, "the same on the gates of an LSTM (input, forget) or GRU controller; 0: none", least=0
    )
    noise_rise: int = option(
        0, "steady batches in which the noise rises to its value; the decay waits for it", least=0
    )
    guard: float = option(
        0.0,
        "perplexity of the window at full length above which the last steady weights are taken "
        "back, with half the learning rate; 0: never",
        least=0,
    )
    steps: int = option(10_000, "stop after so many batches", least=1)
    converged_after: int = option(
        0,
        "stop after so many batches in which training perplexity gained less than 1 %; 0: never",
        least=0,
    )
    until_faded: float = option(
        0.0, "stop once the learning rate has decayed to this share of its value; 0: never", least=0
    )
    epochs: int = option(0, "stop after so many epochs of a file; 0: no limit", least=0)
    patience: int = option(
        0, "stop after so many epochs without a gain in validation; 0: never", least=0
    )
    minutes: float = option(0.0, "stop after so many minutes; 0: no limit", least=0)
    until_solved: bool = option(
        False, "stop once train and test coarse are 0.999 or more twice in a row"
    )
    keep: Keep = option(
        "best", "the model at the end: best by training perplexity (files: validation), or last"
    )
    report_every: int = option(100, "batches from one average training perplexity to the next", 1)
    evaluate_every: int = option(1000, "batches from one test of accuracy to the next", least=1)
    evaluate_sequences: int = option(
        1000, "sequences of each test, train and test lengths", least=1
    )
    checkpoint_every: int = option(500, "batches from one checkpoint to the next", least=1)
    device: str = option(
        "cpu",
        "cpu, cuda or cuda:N (a GPU), mps (Apple's), auto: cuda or else cpu",
        read=read_device,
    )
    threads: int = option(1, "threads that torch computes with", least=1)
    tensorboard: bool = option(False, "write curves for TensorBoard into RUN/tensorboard")

    def __post_init__(self) -> None:
        for name, value in self._filled_in().items():
            object.__setattr__(self, name, value)
        for name in ("rmsprop_alpha", "decay"):
            if getattr(self, name) > 1:
                raise InputError(f"{name} is {getattr(self, name)}, expected at most 1")
        longest = self.training_range[1]
        if self.curriculum_start > longest:
            raise InputError(
                f"curriculum_start is {self.curriculum_start} with train_lengths "
                f"{self.train_lengths}, expected at most {longest}"
            )
        for name in ("hold_out", "label_smoothing", "until_faded"):
            if getattr(self, name) >= 1:
                raise InputError(f"{name} is {getattr(self, name)}, expected less than 1")
        if self.columns != "guess":
            parse_columns(self.columns)
        if not is_pairs_file(self.task):
            if self.valid:
                raise InputError(
                    f"valid is {self.valid!r} with task {self.task!r}: expected a file"
                )
            from pushpop.tasks import get_task  # not above: to list the options needs no numpy

            if get_task(self.task).vocabulary.blank is not None:
                if self.form == "transducer":
                    raise InputError(
                        f"form is 'transducer' with task {self.task!r}, whose answers are written "
                        "at blanks: expected tagger"
                    )
                object.__setattr__(self, "form", "tagger")
        elif self.starts:
            raise InputError(
                f"starts is {self.starts!r} (recipe {self.recipe}) with the file {self.task}: a "
                "race is for tasks, whose lengths can be chosen; expected no starts, or recipe "
                "pairs"
            )
        if self.guard and self.guard <= self.decay_below:
            raise InputError(
                f"guard is {self.guard} (recipe {self.recipe}) with decay_below "
                f"{self.decay_below}, expected more, or 0 for none"
            )
        model = self.model
        if self.form == "auto":
            object.__setattr__(self, "form", "transducer")
        if self.form == "tagger":
            check_tagger(model)
        elif self.recipe == "labels":
            raise InputError(f"form is {self.form!r} with recipe 'labels', expected tagger")
        object.__setattr__(self, "push_bias", model.push_bias)
        object.__setattr__(self, "pop_bias", model.pop_bias)
        self.start_configs()  # refused now rather than later

    def _filled_in(self) -> dict[str, Any]:
        """Every option: as given, else by the recipe, else by default."""
        from pushpop.tasks.chomsky import PREFIX as CHOMSKY  # not above: it needs numpy

        given = {
            each.name: read_option(each, getattr(self, each.name))
            for each in fields(self)
            if getattr(self, each.name) is not NOT_GIVEN
        }
        if given.get("form") == "auto":  # as if it were not given: a recipe may know
            del given["form"]
        task = given.get("task", "")
        if is_pairs_file(task):
            labels = given.get("form") == "tagger"
            given.setdefault("recipe", "labels" if labels else "pairs")
        elif task.startswith(CHOMSKY):
            given.setdefault("recipe", "chomsky")
        known = {**DEFAULTS, **given}
        longest = parse_lengths(known["train_lengths"])[1]
        recipe = RECIPES[known["recipe"]](known["task"], known["memory"], longest)
        if "starts" in recipe:  # what is given holds for all of them
            recipe["starts"] = without_options(recipe["starts"], given.keys())
        return {**DEFAULTS, **recipe, **given}

    @property
    def model(self) -> TransducerConfig:
        """The part that describes the model."""
        names = [each.name for each in fields(TransducerConfig)]
        return TransducerConfig(**{name: getattr(self, name) for name in names})

    @property
    def training_range(self) -> LengthRange:
        """`train_lengths` as numbers."""
        return parse_lengths(self.train_lengths)

    @property
    def testing_range(self) -> LengthRange:
        """`test_lengths` as numbers."""
        return parse_lengths(self.test_lengths)

    def start_configs(self) -> list["TrainConfig"]:
        """The options of each start of the race; their seeds are apart unless they are given."""
        found = []
        for number, options in enumerate(parse_starts("starts", self.starts)):
            seed = {"seed": self.seed + number * SEEDS_APART}
            try:
                found.append(self.override({"starts": "", **seed, **options}))
            except InputError as error:
                raise InputError(f"starts: start {number + 1}: {error}") from None
        return found

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON or YAML."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "") -> "TrainConfig":
        """The config with these options; `where` begins the messages of errors."""
        try:
            check_names(data)
            return cls(**data)
        except InputError as error:
            raise InputError(f"{where}: {error}" if where else str(error)) from None

    @classmethod
    def from_saved(cls, data: Mapping[str, Any], where: str = "") -> "TrainConfig":
        """What `to_dict` gave, whatever the recipe says by now. Options that were not known when it
        was saved get their defaults."""
        return cls.from_dict({**DEFAULTS, **data}, where)

    def differences(self, other: "TrainConfig") -> dict[str, tuple[Any, Any]]:
        """The options that have another value in `other`: this one's and the other's."""
        here, there = self.to_dict(), other.to_dict()
        return {name: (here[name], there[name]) for name in here if here[name] != there[name]}

    def override(self, options: Mapping[str, Any]) -> "TrainConfig":
        """This config with other values for some options; all others stay.

        The values of a recipe are filled in when a config is made: another recipe needs another
        config. Starting biases that the memory had by itself go with it.
        """
        check_names(options)
        if options.get("recipe", self.recipe) != self.recipe:
            raise InputError(
                f"recipe is {options['recipe']!r}, and these options were filled in by "
                f"{self.recipe!r}: make a new config of what was given"
            )
        if options.get("task", self.task) != self.task:
            options = {"form": "auto", **options}
        if options.get("memory", self.memory) != self.memory:
            own = replace(self.model, push_bias="auto", pop_bias="auto")
            same = [name for name in BIASES if getattr(own, name) == getattr(self, name)]
            options = {**dict.fromkeys(same, "auto"), **options}
        return replace(self, **options)


DEFAULTS: dict[str, Any] = {each.name: each.metadata["default"] for each in fields(TrainConfig)}
"""What an option is that neither the user nor the recipe gives."""


def changeable(config: TrainConfig) -> set[str]:
    """Options that a run can go on under other values of. A cooldown is counted from the end: with
    one, where the end is decides what the run does before it."""
    return {*CHANGEABLE} - ({"steps", "epochs"} if config.cooldown else set())


def check_same_run(saved: Mapping[str, Any], config: TrainConfig) -> None:
    """Refuse a checkpoint of a run with other options."""
    differing = TrainConfig.from_saved(saved).differences(config).keys()
    if not differing <= changeable(config):
        raise InputError("a checkpoint of a run with other options")


def check_names(data: Mapping[str, Any]) -> None:
    """Refuse a key that is no option."""
    names = [each.name for each in fields(TrainConfig)]
    for name in data:
        if name not in names:
            raise InputError(f"unknown option {name!r}{did_you_mean(str(name), names)}")


def read_config_file(path: str | Path) -> dict[str, Any]:
    """The options in a YAML or JSON file."""
    import yaml

    with reading(path):
        text = Path(path).read_text("utf-8")
    try:
        data = yaml.safe_load(text)  # JSON is YAML
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not YAML: {error}") from None
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise InputError(f"{path}: {type(data).__name__}, expected option: value lines")
    try:
        check_names(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return data
