"""From a user's text to symbols and back; what becomes of symbols that a model does not know."""

import warnings

import pytest
import torch

from pushpop import Transducer, TransducerConfig
from pushpop.errors import InputError
from pushpop.models.decoding import Hypothesis
from pushpop.models.text import (
    UnknownSymbols,
    attention_weights,
    copy_unknown,
    edit_distance,
    score_pairs,
)
from pushpop.tasks import Vocabulary
from pushpop.tasks.pairs_text import UNKNOWN, TextForm

LETTERS = Vocabulary((UNKNOWN, "a", "b"), (UNKNOWN, "x", "yy"), UNKNOWN)


def text_model(form: TextForm | None = None, **options: object) -> Transducer:
    torch.manual_seed(0)
    settings = {"embedding": 6, "hidden": 8, "memory_width": 4, **options}
    config = TransducerConfig(**settings)  # type: ignore[arg-type]
    return Transducer(config, LETTERS, text=form or TextForm("chars", "spaces"))


def written(model: Transducer, *symbols: str) -> Hypothesis:
    ids = (model.vocabulary.encode_target(symbols) + model.vocabulary.target_output_start).tolist()
    return Hypothesis(tuple(ids), symbols, 0.0, True)


def test_a_model_reads_text_in_the_form_it_was_made_for() -> None:
    spaced, letters = text_model(TextForm("spaces", "spaces")), text_model()
    assert letters.transduce(["ab"]) == spaced.transduce(["a b"]) == letters.transduce([" ab "])


def test_unknown_symbols_are_read_as_unknown_and_counted() -> None:
    model = text_model()
    with pytest.warns(UnknownSymbols, match=r"3 symbols are unknown to the model: 'ñ' \(2\), 'q'"):
        model.transduce(["añ", "qñb"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.transduce(["ab"])


def test_a_source_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed = []
    read_line = TextForm.read_line

    def counted(form: TextForm, line: str) -> list[str]:
        parsed.append(line)
        return read_line(form, line)

    monkeypatch.setattr(TextForm, "read_line", counted)
    text_model().transduce(["ab", "b"])
    text_model().score([("ab", "x"), ("a", "yy")])
    assert parsed == ["ab", "b", "ab", "a"]


def test_hypotheses_have_the_text_that_transduce_gives() -> None:
    model = text_model()
    found = model.decode(["ab", "ba"], beam=2, nbest=2)
    assert [[one.text for one in each] for each in found] == model.transduce(["ab", "ba"], nbest=2)
    for one in (one for each in found for one in each):
        assert one.text == " ".join(one.target)


def test_a_model_without_an_unknown_symbol_refuses_one() -> None:
    config = TransducerConfig(embedding=6, hidden=8, memory_width=4)
    model = Transducer(config, Vocabulary(("a",), ("x",)))
    with pytest.raises(InputError, match="input 1: unknown source symbol 'q'"):
        model.transduce(["a", "a q"])


@pytest.mark.parametrize(
    ("source", "symbols", "wanted"),
    [
        ("ab", ["x", "yy"], ["x", "yy"]),
        ("añ", ["x", UNKNOWN], ["x", "ñ"]),
        ("ñaq", [UNKNOWN, "x", UNKNOWN], ["ñ", "x", "q"]),
        ("ña", [UNKNOWN, "x", UNKNOWN], ["ñ", "x"]),
        ("ab", ["x", UNKNOWN], ["x"]),
    ],
    ids=["none", "one", "two in order", "one too many", "nothing to copy"],
)
def test_where_the_model_writes_unknown_a_source_symbol_is_copied(
    source: str, symbols: list[str], wanted: list[str]
) -> None:
    model = text_model()
    assert copy_unknown(model, list(source), written(model, *symbols)) == wanted


@pytest.mark.parametrize("encoder", ["none", "bidirectional"])
def test_with_attention_the_symbol_with_the_largest_weight_is_copied(encoder: str) -> None:
    model = text_model(attention=True, encoder=encoder)
    assert model.source is not None
    assert model.source.attention is not None
    with torch.no_grad():
        model.source.attention.query.weight.normal_(std=20)
    source = list("ñaqbw")
    found = written(model, *[UNKNOWN] * 4)
    weights = attention_weights(model, source, found.ids)
    assert weights.shape == (4, 5)
    assert (weights.sum(dim=1) <= 1 + 1e-6).all()
    wanted = ["ñqw"[int(row[[0, 2, 4]].argmax())] for row in weights]
    assert copy_unknown(model, source, found) == wanted


def test_edit_distance_counts_the_fewest_edits() -> None:
    for a, b, distance in [
        ("", "", 0),
        ("abc", "abc", 0),
        ("", "abc", 3),
        ("abc", "", 3),
        ("kitten", "sitting", 3),
        ("ab", "ba", 2),
        ("abc", "xabc", 1),
    ]:
        assert edit_distance(list(a), list(b)) == distance


def test_scores_count_whole_targets_and_edits() -> None:
    model = text_model()
    right = model.vocabulary.decode_output(model.decode(["ab"])[0][0].ids)
    wrong = ["x" if symbol != "x" else "yy" for symbol in right]
    scores = score_pairs(model, [(["a", "b"], right), (["a", "b"], wrong), (["a", "b"], right)])
    assert scores.accuracy == pytest.approx(2 / 3)
    assert scores.to_dict()["word_error_rate"] == pytest.approx(1 / 3)
    assert scores.symbol_error_rate == pytest.approx(1 / 3)
    assert [one.wanted for one in scores.worst(5)] == [wrong]
