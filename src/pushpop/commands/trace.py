"""`pushpop trace`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pushpop.errors import InputError
from pushpop.files import check_folder_of
from pushpop.options import Command, argument, option
from pushpop.stdio import as_text

if TYPE_CHECKING:
    from pushpop.models import LanguageModel, Transducer
    from pushpop.viewer.tracing import Example
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
        from pushpop.commands.transduce import parse_line, say_unknown
        from pushpop.models import LanguageModel
        from pushpop.models.text import target_symbols, unknown_symbols
        from pushpop.viewer.export import FORMATS, export
        from pushpop.viewer.tracing import Example, generate, open_model
        from pushpop.viewer.tracing import trace as run
        from pushpop.viewer.unused import remark

        path = Path(self.out)
        if path.suffix.lower() not in FORMATS:
            raise InputError(f"{self.out}: expected a name that ends in {', '.join(FORMATS)}")
        check_folder_of(path)
        entry = open_model(self.model)
        if isinstance(entry.model, LanguageModel):
            example = self._line(entry.model)
        elif self.input is not None:
            wanted = (
                None
                if self.target is None
                else tuple(target_symbols(entry.model, as_text(self.target)))
            )
            source = parse_line(
                entry.model, as_text(self.input), "input", with_blanks=False
            ).symbols
            say_unknown(unknown_symbols(entry.model, [source]))
            example = Example(tuple(source), wanted).judged_by(self.task or entry.task)
        elif self.target is not None:
            raise InputError("--target is the answer to an INPUT: give both, or neither")
        elif (drawn := self.task or entry.task) is None:
            raise InputError(
                f"{self.model}: does not say what it was trained on; give an INPUT or --task"
            )
        elif self.task is None and entry.model.text is not None:
            raise InputError(
                f"{self.model}: was trained on a file: expected an INPUT as in that file"
            )
        else:
            example = generate(drawn, self.length, self.seed)
        if len(example.source) > LONGEST:
            raise InputError(
                f"the source has {len(example.source):,} symbols, expected at most {LONGEST:,} to "
                "draw every step; pushpop transduce and pushpop evaluate take longer ones"
            )
        traced = run(entry.model, example, name=entry.name, task=self.task or entry.task)
        answer = _answer(entry.model, traced)
        right = None if traced.target is None else traced.finished and answer == traced.target
        wanted_text = traced.target_text(traced.target or ())
        verdict = {None: "", True: "  (right)", False: f"  (expected {wanted_text})"}[right]
        shown = traced.target_text(answer) + verdict
        if not isinstance(entry.model, LanguageModel):
            shown = f"{traced.source_text()} ||| {shown}"
        print(shown, flush=True)
        if traced.memory == "none":
            if entry.model.config.memory != "none":
                raise InputError(
                    f"{self.model}: the model has several memories; only one can be traced"
                )
            raise InputError(f"{self.model}: the model has no memory, so there is nothing to trace")
        export(traced, path)
        for text in filter(None, (traced.note, remark(traced))):
            print(text)
        print(f"wrote {path}")

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
