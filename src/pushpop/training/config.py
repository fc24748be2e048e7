"""The options of a training run, all of them and nowhere else.

A config is made in three steps, once each: `read_options` reads each value into the type of its
option, `apply_recipe` fills in what is not given, `check_options` refuses what makes no sense.
"""

# ruff: noqa: RUF009  `option` only wraps `field`

from ast import literal_eval
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from pushpop.devices import read_device
from pushpop.errors import InputError, did_you_mean, naming, reading
from pushpop.memory.kinds import BIASES, MEMORY_NAMES
from pushpop.models.config import (
    NO_MEMORY,
    OUTPUT_SCALE,
    CellName,
    EncoderName,
    StartingBias,
    TransducerConfig,
    check_no_source,
    check_tagger,
)
from pushpop.options import NOT_GIVEN, option, read_option, read_value
from pushpop.tasks import LengthRange, parse_lengths
from pushpop.tasks.pairs_file import parse_columns
from pushpop.tasks.pairs_text import Normalise, Side, has_one_column, is_pairs_file
from pushpop.tasks.registry import answers_at_blanks, check_task
from pushpop.training.recipes import FORMER_RECIPE, RECIPES, RecipeName

Optimiser = Literal["rmsprop", "adam"]
Keep = Literal["best", "last"]
Form = Literal["auto", "transducer", "tagger", "lm"]


def read_recipe(name: str, value: Any) -> Any:
    """Read the name of a recipe, or of one that saved runs were begun with."""
    return value if value == FORMER_RECIPE else read_value(name, RecipeName, value)


def read_memory(name: str, value: Any) -> Any:
    """Read the name of a memory; YAML's null is none too."""
    return read_value(name, str, NO_MEMORY if value is None else value)


def read_bias(name: str, value: Any) -> Any:
    """Read a number, two, rows of these, a word or nothing, for `TransducerConfig` to check."""
    if not isinstance(value, str) or value in ("auto", "drift"):
        return value
    if value.strip() in ("none", "null", ""):
        return None
    try:
        bias = literal_eval(f"[{value}]")
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        raise InputError(
            f"{name} is {value!r}, expected a number, two for a deque as in [1,-3], a row for each "
            "of several memories as in [[0,0],[1,-2]], drift, auto or none"
        ) from None
    while isinstance(bias, list | tuple) and len(bias) == 1:
        (bias,) = bias
    return bias


START_OPTIONS = (
    "curriculum_start", "push_bias", "pop_bias", "learning_rate", "input_scale", "output_scale",
    "seed",
)  # fmt: skip
"""Options in which the starts of a race may differ."""
SEEDS_APART = 1_000_000
"""How far the seeds of two starts of a race are apart, unless they are given."""


def read_starts(name: str, starts: Any) -> str:
    """Read the starts of a race from text or from a list of options for each; return text."""
    if isinstance(starts, list | tuple):
        starts = "; ".join(
            start_text(options) if isinstance(options, Mapping) else str(options)
            for options in starts
        )
    text = read_value(name, str, "" if starts in (None, "none") else starts)
    return "; ".join(map(start_text, parse_starts(name, text)))


def start_text(options: Mapping[str, Any], without: Iterable[str] = ()) -> str:
    """The options of a start as text, but for some."""
    words = []
    for key, value in options.items():
        numbers = value if isinstance(value, list | tuple) else [value]
        text = ",".join("none" if number is None else str(number) for number in numbers)
        words += [f"{key}={text}"] if key not in without else []
    return " ".join(words)


def parse_starts(name: str, text: str) -> list[dict[str, str]]:
    """Split the starts of a race into the options of each, as text."""
    starts = []
    for part in text.split(";") if text.strip() else []:
        pairs = [word.partition("=") for word in part.split()]
        for key, equals, value in pairs:
            if not equals or not value or key not in START_OPTIONS:
                hint = did_you_mean(key, START_OPTIONS) if equals else ""
                raise InputError(
                    f"{name}: {key + equals + value!r}, expected option=value, with one of "
                    f"{', '.join(START_OPTIONS)}{hint}"
                )
        starts.append({key: value for key, _, value in pairs})
    if len(starts) == 1:
        raise InputError(f"{name} is {text!r}: one start, expected two or more for a race")
    return starts


def read_lengths(name: str, lengths: Any) -> str:
    """Read a range from text, from its two ends, or from one length; return text."""
    if isinstance(lengths, list | tuple) and len(lengths) == 2:
        lengths = f"{lengths[0]}-{lengths[1]}"
    elif type(lengths) is int:
        lengths = str(lengths)
    text = read_value(name, str, lengths)
    with naming(name):
        low, high = parse_lengths(text)
    return f"{low}-{high}"


ONLY_FOR_TASKS = {
    "train_lengths": "all of its pairs are trained on, whatever their lengths",
    "test_lengths": "it is tested on pairs that are held out, or on those of valid",
    "uniform_lengths": "every pair is trained on once an epoch",
    "curriculum_start": "all of its pairs are trained on from the start",
    "starts": "a race is for tasks, whose lengths can be chosen",
    "evaluate_every": "it is validated after every epoch",
    "evaluate_sequences": "all pairs to validate on are used",
}
"""Options that mean nothing for a file of pairs, and why."""

CHANGEABLE = (
    "steps", "converged_after", "until_faded", "epochs", "patience", "minutes", "until_solved",
    "device", "threads", "tensorboard",
)  # fmt: skip
"""Options that may change when a run is resumed: when it stops and what it runs on."""


@dataclass(frozen=True)
class TrainConfig:
    """What is trained, on what, how, and when it stops. The defaults are the paper's protocol.

    Text is accepted for every option, as it comes from a command line or a file. An option that is
    not given has the value of the recipe, and where that has none, its default. All options with
    their defaults are listed under "Options" on the page about training.
    """

    task: str = option(
        "copy",
        "a task's name (pushpop tasks lists them), a .itg file, pairs in a .tsv or .csv file, or "
        "lines in a .txt, .smi or .csv file",
        group="recipe, task and data",
    )
    recipe: RecipeName = option(
        "paper",
        "values for options that are not given: paper (the defaults), pushpop (one for all tasks), "
        "chomsky (for the tasks of that name), pairs, labels and lm (for files)",
        kw_only=True,
        read=read_recipe,
    )
    memory: str = option(
        "stack",
        f"{', '.join(MEMORY_NAMES)}, or none: a deep LSTM, or what cell says",
        read=read_memory,
        group="model",
    )
    form: Form = option(
        "auto",
        "transducer: reads the source, then writes the target; tagger: writes while it reads; lm: "
        "a language model, of lines; auto: what the task or the file is for, or transducer",
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
    valid: str = option(
        "",
        "a file of pairs to validate on; none: some are held out",
        metavar="FILE",
        group="files of pairs",
    )
    hold_out: float = option(0.1, "the share of the pairs that is held out then", above=0)
    valid_longer: str = option(
        "",
        "a file of pairs that are longer than those of training: the run says how right it is on "
        "them, and chooses nothing by it",
        metavar="FILE",
    )
    shorter_first: int = option(
        0,
        "batches at the beginning that train on the shorter pairs alone; the longer ones then tell "
        "whether the model carries to longer inputs; 0: none",
        least=0,
    )
    columns: str = option(
        "guess",
        "of a file: source,target or source,target,features, as in 1,2, or names of the first "
        "line; of lines: the one to read",
    )
    source_symbols: Side = option("guess", "the source is chars or spaces (between symbols)")
    target_symbols: Side = option("guess", "the same for the target")
    normalise: Normalise = option("nfc", "the Unicode form of the text: nfc, nfkc or none")
    skip_bad: bool = option(False, "leave bad rows of a file out, and count them")
    seed: int = option(
        0,
        "of the weights and the data; the same seed gives the same run",
        least=0,
        group="recipe, task and data",
    )
    train_lengths: str = option(
        "8-64", "shortest and longest source in training", read=read_lengths
    )
    test_lengths: str = option(
        "65-128", "shortest and longest source in testing", read=read_lengths
    )
    uniform_lengths: bool = option(
        False, "train on all lengths of a grammar equally often, not as often as it has them"
    )
    batch_size: int = option(10, "sequences in a batch", least=1, group="training")
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
    cosine: bool = option(
        False, "let the learning rate fall to 0 along half a cosine, over all steps or epochs"
    )
    plateau: int = option(
        0, "epochs without a gain in validation that halve the learning rate; 0: never", least=0
    )
    window: int = option(
        20,
        "batches whose perplexity the two schedules below go by",
        least=1,
        group="schedule: short sources first, a race of starts, decay, noise",
    )
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
    skip_attention: float = option(
        0.0,
        "share of the batches in which a model with attention does without, so that it learns to "
        "use its memory; ends after shorter_first if the memory has not learnt by then; 0: none",
        least=0,
    )
    steps: int = option(
        10_000, "stop after so many batches", least=1, group="when to stop, and what is kept"
    )
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
    report_every: int = option(
        100,
        "batches from one average training perplexity to the next",
        1,
        group="reports, checkpoints and the machine",
    )
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
        given = {name: value for name, value in vars(self).items() if value is not NOT_GIVEN}
        vars(self).update(check_options(apply_recipe(read_options(given))))

    @classmethod
    def _of(cls, values: Mapping[str, Any]) -> "TrainConfig":
        config = object.__new__(cls)
        vars(config).update(values)
        return config

    @property
    def model(self) -> TransducerConfig:
        return model_config(vars(self))

    @property
    def training_range(self) -> LengthRange:
        return parse_lengths(self.train_lengths)

    @property
    def testing_range(self) -> LengthRange:
        return parse_lengths(self.test_lengths)

    def start_configs(self) -> list["TrainConfig"]:
        """Make the config of each start of the race, with a seed of its own unless one is given."""
        return [self._of(values) for values in start_values(vars(self))]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON or YAML."""
        return {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(self).items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], where: str = "") -> "TrainConfig":
        """The config with these options; `where` begins the messages of errors."""
        with naming(where):
            check_names(data)
            return cls(**data)

    @classmethod
    def from_saved(cls, data: Mapping[str, Any], where: str = "") -> "TrainConfig":
        """What `to_dict` gave, whatever the recipe says by now. Options that were not known when it
        was saved get their defaults."""
        with naming(where):
            return cls._of(check_options({**DEFAULTS, **read_options(data)}))

    def differences(self, other: "TrainConfig") -> dict[str, tuple[Any, Any]]:
        """The options that have another value in `other`: this one's and the other's."""
        here, there = self.to_dict(), other.to_dict()
        return {name: (here[name], there[name]) for name in here if here[name] != there[name]}

    def override(self, options: Mapping[str, Any]) -> "TrainConfig":
        """This config with other values for some options; all others stay.

        The values of a recipe are filled in when a config is made: another recipe needs another
        config. Starting biases that the memory had by itself go with it.
        """
        options = read_options(options)
        check_given(options, options.get("task", self.task))
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
        return self._of(check_options({**vars(self), **options}))


FIELDS = {each.name: each for each in fields(TrainConfig)}
DEFAULTS: dict[str, Any] = {name: each.metadata["default"] for name, each in FIELDS.items()}
"""The values of options that neither the user nor the recipe gives."""


def read_options(given: Mapping[str, Any]) -> dict[str, Any]:
    """Read each value into the type of its option; refuse a key that is no option."""
    check_names(given)
    return {name: read_option(FIELDS[name], value) for name, value in given.items()}


def apply_recipe(given: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in what is not given: from the recipe, else the default.

    A file has a recipe of its own, and so have the Chomsky tasks, unless one is named. A file with
    one column has lines for a language model.
    """
    given = dict(given)
    if given.get("form") == "auto":  # as if it were not given: a recipe may know
        del given["form"]
    task = given.get("task", "")
    check_given(given, task)
    if given.keys() == FIELDS.keys():
        return given
    if is_pairs_file(task):
        if not given.keys() & {"form", "recipe", "columns"} and has_one_column(task):
            given["form"] = "lm"
        recipes: dict[str, RecipeName] = {"tagger": "labels", "lm": "lm"}
        given.setdefault("recipe", recipes.get(given.get("form", ""), "pairs"))
    elif writes_at_blanks(task):
        given.setdefault("recipe", "chomsky")
    known = {**DEFAULTS, **given}
    if known["recipe"] == FORMER_RECIPE:
        raise InputError(
            f"recipe is {FORMER_RECIPE!r}, which only earlier runs have: expected "
            f"{', '.join(RECIPES)}"
        )
    longest = parse_lengths(known["train_lengths"])[1]
    recipe = RECIPES[known["recipe"]](known["task"], known["memory"], longest)
    is_file = is_pairs_file(task)
    meaningless = ONLY_FOR_TASKS if is_file else ("shorter_first",)
    recipe = {name: recipe[name] for name in recipe if name not in meaningless}
    if "starts" in recipe:  # what is given holds for all of them
        starts = parse_starts("starts", recipe["starts"])
        recipe["starts"] = "; ".join(start_text(start, without=given.keys()) for start in starts)
    values = {**DEFAULTS, **recipe, **given}
    own_start = given.keys() & {"memories", "push_bias", "pop_bias"}
    if own_start or values["memory"] != recipe.get("memory", values["memory"]):
        for name in ("memories", "push_bias"):  # a recipe's are for its own memories
            values[name] = given.get(name, DEFAULTS[name])
    if not values["attention"] or values["memory"] == NO_MEMORY:
        values["skip_attention"] = given.get("skip_attention", 0.0)
    return values


def check_given(given: Mapping[str, Any], task: str) -> None:
    """Refuse options that mean nothing for a file, if somebody asks for them."""
    for name, reason in ONLY_FOR_TASKS.items() if is_pairs_file(task) else ():
        default = DEFAULTS[name]
        if given.get(name, default) != default:
            raise InputError(
                f"{name} is {given[name]!r} with the file {task}: {reason}; leave it out"
            )


def check_options(values: Mapping[str, Any]) -> dict[str, Any]:
    """Refuse what makes no sense together. Returns the values with form and biases decided."""
    values = dict(values)
    task, form = values["task"], values["form"]
    if values["columns"] != "guess":
        parse_columns(values["columns"], lines=form == "lm")
    if not is_pairs_file(task):
        check_task(task)
    if form == "auto":
        answers = "tagger" if writes_at_blanks(task) else "transducer"
        values["form"] = {"labels": "tagger", "lm": "lm"}.get(values["recipe"], answers)
    for name, wrong, expected in rules(values):
        if wrong:
            raise InputError(f"{name} is {values[name]!r}{expected}")
    model = model_config(values)
    if values["form"] == "tagger":
        check_tagger(model)
    elif values["form"] == "lm":
        check_no_source(model, "a language model has no source")
    values["push_bias"], values["pop_bias"] = model.push_bias, model.pop_bias
    start_values(values)  # refused now rather than when the race begins
    return values


def rules(o: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """What must hold between options: the one at fault, whether it is, and what was expected."""
    for name in ("rmsprop_alpha", "decay"):
        yield name, o[name] > 1, ", expected at most 1"
    for name in ("hold_out", "label_smoothing", "until_faded", "skip_attention"):
        yield name, o[name] >= 1, ", expected less than 1"
    longest = parse_lengths(o["train_lengths"])[1]
    lengths = f" with train_lengths {o['train_lengths']}, expected at most {longest}"
    yield "curriculum_start", o["curriculum_start"] > longest, lengths
    yield "cooldown", o["cosine"] and o["cooldown"], " with cosine, expected 0"
    told = f" with decay_below {o['decay_below']}, expected more, or 0 for none"
    too_low = o["guard"] and o["guard"] <= o["decay_below"]
    yield "guard", too_low, f" (recipe {o['recipe']}){told}"
    told = ", and attention is false: expected 0, or attention true"
    yield "skip_attention", o["skip_attention"] and not o["attention"], told
    told = f" with task {o['task']!r}"
    for name in ("valid", "valid_longer", "shorter_first"):
        yield name, o[name] and not is_pairs_file(o["task"]), f"{told}: expected a file"
    told += ", whose answers are written at blanks: expected tagger"
    yield "form", writes_at_blanks(o["task"]) and o["form"] != "tagger", told
    for recipe, form in (("labels", "tagger"), ("lm", "lm")):
        wrong = o["recipe"] == recipe and o["form"] != form
        yield "form", wrong, f" with recipe {recipe!r}, expected {form}"


def writes_at_blanks(task: str) -> bool:
    """Whether only a tagger can learn a task; of a file, whatever its name, that is not known."""
    return not is_pairs_file(task) and answers_at_blanks(task)


def start_values(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The options of each start of a race, with a seed of its own unless one is given."""
    starts = []
    for number, options in enumerate(parse_starts("starts", values["starts"])):
        own = {"starts": "", "seed": values["seed"] + number * SEEDS_APART}
        with naming(f"starts: start {number + 1}"):
            starts.append(check_options({**values, **own, **read_options(options)}))
    return starts


def model_config(values: Mapping[str, Any]) -> TransducerConfig:
    return TransducerConfig(**{part.name: values[part.name] for part in fields(TransducerConfig)})


def describe_other_run(saved: TrainConfig, wanted: TrainConfig) -> str:
    """The options by which two configs are two runs, in words; empty: a run may go from one to the
    other. A cooldown and a cosine are counted from the end, so with one the end must stay."""
    end = ("steps", "epochs") if wanted.cooldown or wanted.cosine else ()
    return "; ".join(
        f"{name} {here!r}, not {now!r}"
        for name, (here, now) in saved.differences(wanted).items()
        if name not in CHANGEABLE or name in end
    )


def check_same_run(saved: Mapping[str, Any], config: TrainConfig) -> None:
    """Refuse a checkpoint of a run with other options."""
    if describe_other_run(TrainConfig.from_saved(saved), config):
        raise InputError("a checkpoint of a run with other options")


def check_names(data: Mapping[str, Any]) -> None:
    for name in data:
        if name not in FIELDS:
            raise InputError(f"unknown option {name!r}{did_you_mean(str(name), FIELDS)}")


def parse_yaml(text: str, where: str) -> Any:
    """What a text in YAML, or in JSON, holds; `where` begins the message of an error."""
    import yaml

    try:
        return yaml.safe_load(text)  # JSON is YAML
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InputError(f"{where}: not YAML: {error}") from None


def read_config_file(path: str | Path) -> dict[str, Any]:
    """The options in a YAML or JSON file."""
    with reading(path):
        text = Path(path).read_text("utf-8")
    data = parse_yaml(text, str(path))
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise InputError(f"{path}: {type(data).__name__}, expected option: value lines")
    with naming(str(path)):
        check_names(data)
    return data
