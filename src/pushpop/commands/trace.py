"""`pushpop trace`."""

from pathlib import Path
from typing import TYPE_CHECKING

from pushpop.errors import InputError
from pushpop.streams import as_text

if TYPE_CHECKING:
    from pushpop.models import Transducer
    from pushpop.viewer.trace import Trace


def trace(
    model: str,
    input: str | None = None,
    out: str = "trace.html",
    target: str | None = None,
    task: str | None = None,
    length: int = 12,
    seed: int = 0,
) -> None:
    """Run a model on an input and show, step by step, what its memory did.

    Args:
        model: the name of a shipped model, or the folder of a saved model or of a training run
        input: symbols separated by spaces (a model of a file of pairs: text as in the file); by
            default a source of the task
        out: the file to write: .html (to step through), .gif (animated), .png, .svg or .json
        target: the right answer to INPUT, written as that is; by default that of the model's task,
            if it can be told
        task: the task to draw from; by default the one that the model was trained on
        length: the length of the source that is drawn
        seed: the same seed draws the same source

    Examples:
        pushpop trace reverse-stack
        pushpop trace reverse-stack "a1 a2 a3" -o trace.gif
    """
    from pushpop.commands.transduce import parse_line, say_unknown
    from pushpop.models.text import target_symbols, unknown_symbols
    from pushpop.viewer.catalogue import open_model
    from pushpop.viewer.export import FORMATS, export
    from pushpop.viewer.remark import remark
    from pushpop.viewer.trace import Example, generate
    from pushpop.viewer.trace import trace as run

    path = Path(out)
    if path.suffix.lower() not in FORMATS:
        raise InputError(f"{out}: expected a name that ends in {', '.join(FORMATS)}")
    entry = open_model(model)
    if input is not None:
        wanted = None if target is None else tuple(target_symbols(entry.model, as_text(target)))
        source = parse_line(entry.model, as_text(input), "input", with_blanks=False).symbols
        say_unknown(unknown_symbols(entry.model, [source]))
        example = Example(tuple(source), wanted).judged_by(task or entry.task)
    elif target is not None:
        raise InputError("--target is the answer to an INPUT: give both, or neither")
    elif (drawn := task or entry.task) is None:
        raise InputError(f"{model}: does not say what it was trained on; give an INPUT or --task")
    elif task is None and entry.model.text is not None:
        raise InputError(f"{model}: was trained on a file: expected an INPUT as in that file")
    else:
        example = generate(drawn, length, seed)
    told = run(entry.model, example, name=entry.name, task=task or entry.task)
    answer = _answer(entry.model, told)
    right = None if told.target is None else told.finished and answer == told.target
    wanted_text = told.target_text(told.target or ())
    verdict = {None: "", True: "  (right)", False: f"  (expected {wanted_text})"}[right]
    print(f"{told.source_text()} ||| {told.target_text(answer)}{verdict}", flush=True)
    if told.memory == "none":
        if entry.model.config.memory != "none":
            raise InputError(f"{model}: the model has several memories; only one can be traced")
        raise InputError(f"{model}: the model has no memory, so there is nothing to trace")
    export(told, path)
    for text in filter(None, (told.note, remark(told))):
        print(text)
    print(f"wrote {path}")


def _answer(model: "Transducer", told: "Trace") -> tuple[str, ...]:
    """What `pushpop transduce` writes: source symbols in the place of unknown ones, but for labels,
    which are no source symbols."""
    from pushpop.models import Hypothesis, Tagger
    from pushpop.models.text import copy_unknown

    if isinstance(model, Tagger):
        return tuple(told.output)
    vocabulary = model.vocabulary
    ids = vocabulary.encode_target(told.output) + vocabulary.target_output_start
    found = Hypothesis(tuple(ids.tolist()), told.output, 0.0, told.finished)
    return tuple(copy_unknown(model, told.source, found))
