"""A language model gives lines probabilities, and generates lines."""

from collections import Counter
from math import exp, isclose, log
from pathlib import Path

import numpy as np
import pytest
import torch

from pushpop import LanguageModel, Transducer, TransducerConfig
from pushpop.errors import InputError
from pushpop.evaluation import score
from pushpop.models.decoding import TOGETHER, Sampling
from pushpop.tasks import Pairs, Vocabulary, make_line_batch
from pushpop.tasks.pairs_text import TextForm
from tests.models.examples import BODIES

SYMBOLS = Vocabulary((), ("a", "b", "c"))


def language_model(body: str = "stack", vocabulary: Vocabulary = SYMBOLS) -> LanguageModel:
    torch.manual_seed(3)
    config = TransducerConfig(embedding=5, hidden=7, memory_width=4, **BODIES[body])
    model = LanguageModel(config, vocabulary, text=TextForm())
    with torch.no_grad():
        model.output_table.weight.normal_(std=2.0)
    return model.double()


@torch.no_grad()
def by_steps(model: LanguageModel, line: str) -> float:
    """The log probability of a line, fed to `step` symbol by symbol."""
    ids = [model.vocabulary.SOS, *(model.vocabulary.encode_target(line) + 2).tolist()]
    wanted = [*(model.vocabulary.encode_target(line) + 1).tolist(), model.vocabulary.EOS]
    state, total = None, 0.0
    for input_id, output_id in zip(ids, wanted, strict=True):
        logits, state = model.step(torch.tensor([input_id]), state)
        total += float(logits[0].log_softmax(dim=-1)[output_id])
    return total


def test_every_symbol_of_a_line_is_scored_and_its_end() -> None:
    batch = make_line_batch(Pairs.of([((), [0, 2]), ((), [1]), ((), [])]), SYMBOLS)
    assert batch.inputs.T.tolist() == [[0, 2, 4], [0, 3, 0], [0, 0, 0]]
    assert batch.outputs.T.tolist() == [[1, 3, 0], [2, 0, 0], [0, 0, 0]]
    assert batch.mask.T.tolist() == [[True] * 3, [True, True, False], [True, False, False]]
    assert batch.lengths.tolist() == [3, 2, 1]


@pytest.mark.parametrize("body", list(BODIES))
def test_the_log_probability_of_lines_is_that_of_single_steps(body: str) -> None:
    model = language_model(body)
    lines = ["abcabc", "", "c", "bb"]
    assert np.allclose(model.log_probability(lines), [by_steps(model, line) for line in lines])
    assert np.allclose(model.log_probability(lines, batch_size=1), model.log_probability(lines))


@pytest.mark.parametrize("body", ["stack", "deque", "lstm-3", "gru-2", "layers-2", "superposition"])
def test_lines_are_drawn_as_often_as_they_are_likely(body: str) -> None:
    model = language_model(body)
    n = 4000
    drawn = Counter(model.generate(n, seed=1))
    lines = [line for line, count in drawn.most_common(8)]
    for line, log_chance in zip(lines, model.log_probability(lines), strict=True):
        expected = n * exp(log_chance)
        assert abs(drawn[line] - expected) < 5 * expected**0.5


def test_drawn_lines_have_the_scores_that_they_are_given() -> None:
    model = language_model("deque")
    drawn = list(model.draw(300, Sampling(temperature=1.3, top_p=0.9, max_length=200), seed=0))
    assert all(line.finished for line in drawn)
    expected = model.log_probability([line.text for line in drawn])
    assert np.allclose([line.score for line in drawn], expected)


def test_a_seed_gives_the_same_lines_however_many_are_asked_for() -> None:
    model = language_model()
    many = model.generate(TOGETHER + 10, seed=5)
    assert len(many) == TOGETHER + 10
    assert model.generate(3, seed=5) == many[:3]
    assert model.generate(TOGETHER + 10, seed=6) != many
    torch.manual_seed(0)
    first = model.generate(9)
    assert model.generate(9) != first
    torch.manual_seed(0)
    assert model.generate(9) == first


@torch.no_grad()
def test_a_low_temperature_draws_the_likeliest_symbols() -> None:
    model = language_model()
    state, ids, line = None, torch.tensor([0]), ""
    while True:
        logits, state = model.step(ids, state)
        best = int(logits[0].argmax())
        if best == model.vocabulary.EOS or len(line) == 20:
            break
        line += "abc"[best - 1]
        ids = torch.tensor([best + 1])
    assert set(model.generate(20, temperature=1e-4, seed=0, max_length=20)) == {line}
    assert set(model.generate(20, top_p=1e-4, seed=0, max_length=20)) == {line}


def test_only_the_likeliest_symbols_are_drawn_that_have_top_p_together() -> None:
    chances = torch.tensor([[0.1, 0.5, 0.15, 0.25]], dtype=torch.float64)
    numbers = torch.linspace(0, 1, 1001, dtype=torch.float64)[:-1]
    drawn = Sampling(top_p=0.7).choose(chances.log().expand(1000, -1), numbers)
    shares = torch.bincount(drawn, minlength=4) / 1000
    assert torch.allclose(shares, torch.tensor([0, 2 / 3, 0, 1 / 3]), atol=2e-3)


def test_a_number_just_below_one_draws_no_symbol_without_a_chance() -> None:
    scores = torch.tensor([[0.3, 0.7, 0.0]], dtype=torch.float64).log()
    assert Sampling().choose(scores, torch.tensor([1 - 2.0**-53], dtype=torch.float64)) == 1


@torch.no_grad()
def test_lines_begin_with_the_prefix_and_are_as_likely_as_lines_that_do() -> None:
    model = language_model()
    drawn = list(model.draw(50, prefix="ab", seed=0))
    assert all(line.text.startswith("ab") for line in drawn)
    expected = model.log_probability([line.text for line in drawn])
    steps, state = 0.0, None
    for input_id, output_id in ((0, 1), (2, 2)):
        logits, state = model.step(torch.tensor([input_id]), state)
        steps += float(logits[0].log_softmax(dim=-1)[output_id])
    assert np.allclose([line.score + steps for line in drawn], expected)


def test_lines_are_cut_off_at_max_length() -> None:
    model = language_model()
    full, cut = model.generate(200, seed=0), list(model.draw(200, Sampling(max_length=3), seed=0))
    assert [line.text for line in cut] == [text[:3] for text in full]
    assert [line.finished for line in cut] == [len(text) <= 3 for text in full]
    assert {len(text) for text in full} > {0, 1, 2, 3, 4}
    (line,) = model.draw(1, Sampling(max_length=2), prefix="ab", seed=0)
    assert line.text == "ab"


def test_unique_lines_are_the_different_ones_of_all() -> None:
    model = language_model()
    found = model.generate(200, seed=0, unique=True)
    assert len(set(found)) == 200
    everything = list(dict.fromkeys(model.generate(3 * 200, seed=0)))
    assert found[: len(everything)] == everything[:200]
    with pytest.raises(InputError, match=r"^4 different lines among 1,256, expected 10: ask for"):
        model.generate(10, max_length=1, seed=0, unique=True)


def test_what_cannot_be_drawn_is_refused() -> None:
    model = language_model()
    for options, message in (
        ({"prefix": "aQ"}, "prefix: unknown symbol 'Q'"),
        ({"prefix": "abc", "max_length": 2}, "prefix: 3 symbols with max_length 2"),
        ({"temperature": 0.0}, "temperature is 0.0, expected a number above 0"),
        ({"top_p": 1.5}, "top_p is 1.5, expected a number above 0, 1 at most"),
        ({"max_length": 0}, "max_length is 0, expected at least 1"),
        ({"count": -1}, "count is -1, expected at least 0"),
    ):
        with pytest.raises(InputError, match=message):
            model.generate(**options)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="input 1: unknown symbol 'x'"):
        model.log_probability(["a", "bx"])
    with pytest.raises(InputError, match="lines is the string 'ab', expected a list"):
        model.log_probability("ab")
    with pytest.raises(InputError, match="a language model has no source: expected generate"):
        model.transduce(["a"])


def test_a_language_model_reads_no_source() -> None:
    with pytest.raises(InputError, match="attention is true: a language model has no source"):
        LanguageModel(TransducerConfig(attention=True), SYMBOLS)
    with pytest.raises(InputError, match="1 source symbols, and a language model has no source"):
        LanguageModel(TransducerConfig(), Vocabulary(("a",), ("a",)))


def test_a_saved_language_model_comes_back_as_one(tmp_path: Path) -> None:
    model = language_model("layers-2")
    model.save_pretrained(tmp_path / "model")
    again = Transducer.from_pretrained(tmp_path / "model")
    assert isinstance(again, LanguageModel)
    assert again.generate(20, seed=0) == model.generate(20, seed=0)


def test_the_perplexity_of_lines_is_that_of_their_log_probability() -> None:
    model = language_model()
    lines = ["ab", "ccc", "b"]
    numbers = [model.vocabulary.encode_target(line) for line in lines]
    scores = score(model, Pairs.of([((), line.tolist()) for line in numbers]))
    expected = -sum(model.log_probability(lines))
    assert isclose(scores.nll, expected)
    assert isclose(log(scores.perplexity), expected / (6 + 3))
