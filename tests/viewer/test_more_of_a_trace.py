"""What a trace tells besides the memory: what is right, how text is written, attention, remarks."""

from dataclasses import replace

import pytest
import torch

from pushpop.models.text import attention_weights
from pushpop.viewer.layout import hues
from pushpop.viewer.tracing import Example, generate, open_model, remark, trace
from tests.viewer.models import random_model, text_model


def test_a_typed_source_of_a_task_is_judged() -> None:
    assert Example(("a1", "a2")).judged_by("reverse").target == ("a2", "a1")
    assert Example(("a1", "a2")).judged_by("no task").target is None
    assert Example(("a1",)).judged_by("flip").target is None
    assert Example(("a1",), ("a7",)).judged_by("reverse").target == ("a7",)


def test_attention_is_told_where_something_is_written() -> None:
    model = text_model()
    told = trace(model, Example(tuple("abcab")), max_length=4)
    ids = [model.vocabulary.target.index(s) + 1 for s in told.output]
    weights = attention_weights(model, told.source, ids)
    shown = [step.attention for step in told.steps if step.output]
    for row, shares in zip(weights, shown, strict=False):
        dense = torch.zeros(5)
        for place, weight in shares:
            dense[place] = weight
        torch.testing.assert_close(dense, row.where(row >= 0.01, torch.tensor(0.0)))
    assert all(step.attention == () for step in told.steps if not step.output)


def test_a_model_without_attention_has_none() -> None:
    told = trace(random_model("queue"), Example(("a1", "a2")), max_length=2)
    assert {step.attention for step in told.steps} == {()}


def test_text_has_the_models_own_separators() -> None:
    told = trace(text_model(), Example(tuple("ab c")), max_length=3)
    assert told.source_text() == "ab c"
    assert told.target_text("abc") == "abc"
    told = trace(random_model("queue"), Example(("a1", "a2")), max_length=3)
    assert told.source_text() == "a1 a2"


@pytest.mark.parametrize("name", ["svo-sov-deque", "gender-queue"])
def test_words_that_belong_together_have_one_colour(name: str) -> None:
    entry = open_model(name)
    assert entry.task
    told = trace(entry.model, generate(entry.task, 14, 1), task=entry.task)
    colours = hues(told)
    pairs = {"svo-sov": [("si", "so"), ("vi", "vo"), ("oi", "oo")], "gender": [("me", "mg")]}
    seen = 0
    for source, target in pairs[entry.task]:
        for number in range(34):
            if f"{source}{number}" in told.source and f"{target}{number}" in colours:
                assert colours[f"{source}{number}"] == colours[f"{target}{number}"]
                seen += 1
    assert seen > 0


def test_a_symbol_has_the_colour_of_what_it_attends_to() -> None:
    told = trace(text_model(), Example(tuple("ab")), max_length=1)
    first = next(step for step in told.steps if step.output)
    assert first.output
    looked_at = replace(first, attention=((1, 0.9),), output=replace(first.output, symbol="z"))
    steps = [looked_at if step is first else step for step in told.steps]
    colours = hues(replace(told, steps=tuple(steps)))
    assert colours["z"] == colours["b"]


def test_symbols_that_are_written_have_hues_of_their_own() -> None:
    told = trace(text_model(), Example(tuple("ab")), max_length=7)
    steps, names = list(told.steps), iter("uvwxyzqrst")
    for t, step in enumerate(steps):
        if step.output:
            output = replace(step.output, symbol=next(names))
            steps[t] = replace(step, attention=((1, 0.9),), output=output)
    colours = hues(replace(told, steps=tuple(steps)))
    written = [step.output.symbol for step in steps if step.output]
    assert len(written) > 3
    assert len({colours[symbol] for symbol in written}) == len(written)
    assert len({*colours.values()}) == len(written) + 1  # one has that of b, none that of a


def test_a_memory_that_stays_empty_is_remarked_on() -> None:
    idle = trace(text_model(attention=False, push=-20.0), Example(tuple("abcab")), max_length=4)
    assert idle.without_memory is None
    assert remark(idle).startswith("The memory is hardly used here: of 5 symbols read, 0 were")


def test_a_model_that_attends_is_tried_without_its_memory() -> None:
    model = text_model()
    told = trace(model, Example(tuple("abcab")), max_length=4)
    assert told.without_memory == told.output
    assert "with zeros in the place of its reads" in remark(told)
    assert not model.body.cell._forward_pre_hooks  # as it was
    with torch.no_grad():  # a controller that listens to its memory and to nothing else
        model.body.cell.weight_ih[:, 8:] *= 60
    told = trace(model, Example(tuple("abcab")), max_length=4)
    assert told.without_memory != told.output
    assert remark(told) == ""


def test_reads_of_zero_are_what_a_memory_that_never_pushes_returns() -> None:
    told = trace(text_model(push=-200.0), Example(tuple("abcab")), max_length=6)
    other = trace(text_model(), Example(tuple("abcab")), max_length=6)
    assert told.output == told.without_memory == other.without_memory


@pytest.mark.parametrize("name", ["reverse-stack", "copy-queue", "flip-deque"])
def test_a_memory_that_works_is_not_remarked_on(name: str) -> None:
    entry = open_model(name)
    assert entry.task
    assert remark(trace(entry.model, generate(entry.task, 12, 1))) == ""
