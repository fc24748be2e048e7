"""`pushpop trace` and `pushpop serve`: what a memory does, on a page."""

# ruff: noqa: RUF009  `option` and `argument` only wrap `field`

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pushpop.commands.models import device_option, parse_line, tell_unknown
from pushpop.errors import InputError, naming
from pushpop.files import as_text, check_folder_of
from pushpop.options import Command, argument, option

if TYPE_CHECKING:
    from pushpop.models import LanguageModel, Transducer
    from pushpop.viewer.tracing import Entry, Example
    from pushpop.viewer.tracing import Trace as ModelTrace

LONGEST = 2_000
"""Source symbols of which a picture can still be made, and looked at."""


@dataclass(frozen=True)
class Trace(Command):
    """Run a model on an input and show, step by step, what its memory did.

    Examples:
        pushpop trace reverse-stack
        pushpop trace reverse-stack "a1 a2 a3" -o trace.gif
    """

    model: str = argument(
        "the name of a shipped model, or the folder of a saved model or of a training run"
    )
    input: str | None = argument(
        "symbols separated by spaces (a model of a file: text as in the file); by default a "
        "source of the task, or a line that a language model generates",
        count="?",
    )
    out: str = option(
        "trace.html",
        "the file to write: .html (to step through), .gif (animated), .png, .svg or .json",
        short="-o",
    )
    target: str | None = option(
        None,
        "the right answer to INPUT, written as that is; by default that of the model's task, "
        "if it can be told",
    )
    task: str | None = option(
        None, "the task to draw from; by default the one that the model was trained on"
    )
    length: int = option(12, "the length of the source that is drawn")
    seed: int = option(0, "the same seed draws the same source")

    def execute(self) -> None:
        from pushpop.models import LanguageModel
        from pushpop.viewer.export import FORMATS, export
        from pushpop.viewer.tracing import open_model, remark, trace

        path = Path(self.out)
        if path.suffix.lower() not in FORMATS:
            raise InputError(f"{self.out}: expected a name that ends in {', '.join(FORMATS)}")
        check_folder_of(path)
        entry = open_model(self.model)
        if isinstance(entry.model, LanguageModel):
            example = self._line(entry.model)
        else:
            example = self._example(entry)
        if len(example.source) > LONGEST:
            raise InputError(
                f"the source has {len(example.source):,} symbols, expected at most {LONGEST:,} to "
                "draw every step; pushpop transduce and pushpop evaluate take longer ones"
            )
        with naming(self.model):
            traced = trace(entry.model, example, name=entry.name, task=self.task or entry.task)
        answer = _answer(entry.model, traced)
        verdict = ""
        if traced.target is not None:
            right = traced.finished and answer == traced.target
            verdict = "  (right)" if right else f"  (expected {traced.target_text(traced.target)})"
        shown = f"{traced.target_text(answer)}{verdict}"
        if not isinstance(entry.model, LanguageModel):
            shown = f"{traced.source_text()} ||| {shown}"
        print(shown, flush=True)
        if traced.memory == "none":
            raise InputError(f"{self.model}: the model has no memory, so there is nothing to trace")
        export(traced, path)
        notes = (memory.note for memory in traced.all_memories())
        for text in dict.fromkeys(filter(None, (*notes, remark(traced)))):
            print(text)
        print(f"wrote {path}")

    def _example(self, entry: "Entry") -> "Example":
        """The source that a model reads: INPUT, or one that its task draws."""
        from pushpop.models.text import target_symbols, unknown_symbols
        from pushpop.viewer.tracing import Example, generate

        task = self.task or entry.task
        if self.input is not None:
            target = None
            if self.target is not None:
                target = tuple(target_symbols(entry.model, as_text(self.target)))
            text = as_text(self.input)
            source = parse_line(entry.model, text, "input", with_blanks=False).symbols
            tell_unknown(unknown_symbols(entry.model, [source]))
            return Example(tuple(source), target).judged_by(task)
        if self.target is not None:
            raise InputError("--target is the answer to an INPUT: give both, or neither")
        if task is None:
            raise InputError(
                f"{self.model}: does not say what it was trained on; give an INPUT or --task"
            )
        if self.task is None and entry.model.text is not None:
            raise InputError(
                f"{self.model}: was trained on a file: expected an INPUT as in that file"
            )
        return generate(task, self.length, self.seed)

    def _line(self, model: "LanguageModel") -> "Example":
        """The line that a language model reads: INPUT, or one that it generates."""
        from pushpop.models.text import target_symbols
        from pushpop.viewer.tracing import Example

        if self.target is not None or self.task is not None:
            raise InputError(
                f"{self.model}: a language model: expected neither --target nor --task"
            )
        drawn = self.input is None
        text = model.generate(1, seed=self.seed)[0] if drawn else as_text(self.input or "")
        model.parse_line(text, "input")
        return Example(tuple(target_symbols(model, text)))


def _answer(model: "Transducer", traced: "ModelTrace") -> tuple[str, ...]:
    """What `pushpop transduce` writes: source symbols in the place of unknown ones, but for labels,
    which are no source symbols."""
    from pushpop.models import Hypothesis, LanguageModel, Tagger
    from pushpop.models.text import copy_unknown

    if isinstance(model, Tagger | LanguageModel):
        return tuple(traced.output)
    vocabulary = model.vocabulary
    ids = vocabulary.encode_target(traced.output) + vocabulary.target_output_start
    hypothesis = Hypothesis(tuple(ids.tolist()), traced.output, 0.0, traced.finished)
    return tuple(copy_unknown(model, traced.source, hypothesis))


@dataclass(frozen=True)
class Serve(Command):
    """Show models, and a playground, in a browser.

    Examples:
        pushpop serve
        pushpop serve reverse-stack runs/copy-queue-seed0 --port 0
    """

    models: list[str] | None = argument(
        "shipped models by name, or folders; by default all shipped ones", count="*"
    )
    host: str = option(
        "127.0.0.1", "the address to listen at; only this machine can reach the default"
    )
    port: int = option(8000, "the port to listen at; 0 takes a free one")
    allow_host: str = option(
        "",
        "more names that the server is asked for by, such as a proxy's, with commas in "
        "between; requests for other names are refused",
    )
    device: str = device_option("models run")

    def execute(self) -> None:
        try:
            from pushpop.viewer.server import listen
        except ModuleNotFoundError as error:
            raise InputError(
                f"serving needs {error.name}, which is not installed: pip install 'pushpop[serve]'"
            ) from None

        if not 0 <= self.port < 2**16:
            raise InputError(f"port {self.port}: expected a number from 0 to 65535")
        names = [name for name in self.allow_host.split(",") if name]
        listen(self.models or [], self.host, self.port, names, self.device)
