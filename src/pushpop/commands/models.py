"""Trained models: opened for the other commands, listed, exported."""

import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pushpop.devices import find_device, read_device
from pushpop.errors import InputError
from pushpop.files import check_folder_of, tell
from pushpop.options import Command, argument, option

if TYPE_CHECKING:
    from pushpop.models import Transducer
    from pushpop.models.text import ParsedSource
    from pushpop.training.run import Trained

SECONDS = 10
"""How often progress is told."""
COLUMNS = [
    "name", "task", "memory", "controller", "parameters", "kB", "recipe", "train", "test",
]  # fmt: skip
LIST_END = """
train, test: the share of targets without a mistake, of sources of {train} and of {test} symbols.
How one was made: {made_by}

pushpop transduce {name}                      a prompt
pushpop trace {name} -o trace.html            what its memory does, step by step
pushpop evaluate {name} --lengths 64,256      how right it is
pushpop.Transducer.from_pretrained("{name}")  in Python"""


def device_option(what: str = "it runs") -> Any:
    """The option of a command that says where a model runs."""
    devices = "cpu, cuda or cuda:N (a GPU), mps (Apple's), auto: cuda or else cpu"
    return option("cpu", f"where {what}: {devices}", read=read_device)


def checkpoint_option() -> Any:
    """The option of a command that says which weights of a run it takes."""
    return option("", "a checkpoint of the run: best, latest, or after how many batches")


def threads_option() -> Any:
    """The option of a command that says on how many threads it computes."""
    text = "threads that torch computes with; several are slow where other programs run too"
    return option(1, text, least=1)


def open_model(name: str, device: str = "cpu", checkpoint: str = "", task: str = "") -> "Trained":
    """A run, a saved model or one that comes with pushpop, on a device."""
    from pushpop.models import find_model
    from pushpop.training.run import load_trained

    trained = load_trained(find_model(name), task or None, checkpoint=checkpoint)
    trained.model.to(find_device(device))
    return trained


def parse_line(
    model: "Transducer", text: str, where: str, *, with_blanks: bool = True
) -> "ParsedSource":
    """A line of text as a model reads it; `InputError` with its place if the model cannot.

    `with_blanks`: a tagger that answers at blanks needs them in the line.
    """
    from pushpop.models import Tagger
    from pushpop.models.text import describe_sources, parse_source
    from pushpop.tasks.pairs_text import check_text

    if (bad := check_text(text)) is not None:
        raise InputError(f"{where}:{bad.column}: {bad.what}")
    try:
        parsed = parse_source(model, text)
        if with_blanks and isinstance(model, Tagger):
            model.check_answers(parsed.symbols)
        return parsed
    except InputError as error:
        knows_all = model.vocabulary.unknown is not None
        hint = "" if knows_all else f"; the model reads {describe_sources(model)}"
        raise InputError(f"{where}: {error}{hint}") from None


def tell_unknown(counts: Counter[str]) -> None:
    from pushpop.models.text import describe_unknown

    if counts:
        tell(describe_unknown(counts))


class Progress:
    """Tells now and then how far long work is, and how long it will take."""

    def __init__(self, total: int, of: str, before: str = "", after: str = "") -> None:
        self.total, self.of, self.before, self.after = total, of, before, after
        self.done = 0
        self.began = self.told = time.monotonic()

    def __call__(self) -> None:
        self.done += 1
        now = time.monotonic()
        if now - self.told > SECONDS:
            self.told = now
            left = (now - self.began) / self.done * max(0, self.total - self.done)
            far = f"{self.before}{self.done:,} of {self.of}"
            tell(f"{far}, about {left:,.0f} s left{self.after}")


@dataclass(frozen=True)
class Models(Command):
    """List the trained models that come with pushpop: what they do, how right, how to use one.

    Examples:
        pushpop models
        pushpop models --as-json
    """

    as_json: bool = option(False, "print all that is known of each as JSON")

    def execute(self) -> None:
        from pushpop.models.saving import describe_shipped

        described = describe_shipped()
        if self.as_json:
            import json

            print(json.dumps(described, ensure_ascii=False, indent=1))
            return
        rows = [COLUMNS]
        for about in described:
            figures = {
                **about,
                "controller": f"{about['controller']} {about['hidden']}",
                "parameters": f"{about['parameters']:,}",
                "kB": about["kilobytes"],
                **{part: f"{about[part]['coarse']:.3f}" for part in ("train", "test")},
            }
            rows.append([str(figures[column]) for column in COLUMNS])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            print("  ".join(map(str.ljust, row, widths)).rstrip())
        if described:
            shown = {about["name"]: about for about in reversed(described)}
            about = shown.get("reverse-stack", described[0])
            lengths = {
                part: "-".join(map(str, about[part]["lengths"])) for part in ("train", "test")
            }
            print(LIST_END.format(**{**about, **lengths}))


@dataclass(frozen=True)
class Export(Command):
    """Write a model's step as an ONNX graph, to be run without torch.

    Examples:
        pushpop export reverse-stack --onnx step.onnx
    """

    model: str = argument(
        "a run directory, a saved model, or the name of a model that comes with pushpop"
    )
    onnx: str = option(
        "", "the file to write, as in step.onnx; a model with an encoder has a second one beside it"
    )

    def execute(self) -> None:
        if not self.onnx:
            raise InputError("no file given: expected --onnx FILE, as in --onnx step.onnx")
        check_folder_of(Path(self.onnx))
        from pushpop.models.export import export_onnx

        for path in export_onnx(open_model(self.model).model, self.onnx):
            print(path)
