"""Symbols and ids: two tables, nothing in the output table that is never predicted."""

import json

import pytest

from pushpop.errors import InputError
from pushpop.tasks import Vocabulary, get_task

SMALL = Vocabulary(("a", "b", "c"), ("a", "x"))


def test_copying_predicts_129_classes_and_reads_258() -> None:
    vocabulary = get_task("copy").vocabulary
    assert vocabulary.output_size == 129
    assert vocabulary.input_size == 258


def test_input_ids_of_both_sides_sos_and_sep_are_disjoint_and_fill_the_table() -> None:
    source = SMALL.encode_source("abc") + SMALL.source_input_start
    target = SMALL.encode_target("ax") + SMALL.target_input_start
    ids = [SMALL.SOS, SMALL.SEP, *source, *target]
    assert sorted(ids) == list(range(SMALL.input_size))


def test_output_ids_of_the_target_and_eos_fill_the_table() -> None:
    ids = [SMALL.EOS, *(SMALL.encode_target("ax") + SMALL.target_output_start)]
    assert sorted(ids) == list(range(SMALL.output_size))


def test_decoding_undoes_encoding() -> None:
    assert SMALL.decode_source(SMALL.encode_source("cab")) == ["c", "a", "b"]
    assert SMALL.decode_target(SMALL.encode_target("xax")) == ["x", "a", "x"]


def test_predictions_are_decoded_up_to_the_first_eos() -> None:
    assert SMALL.decode_output([2, 1, 0, 1]) == ["x", "a"]
    assert SMALL.decode_output([2, 1]) == ["x", "a"]
    assert SMALL.decode_output([]) == []


def test_symbols_may_be_anything_that_is_not_empty() -> None:
    odd = Vocabulary((" ", "|||", "é", "<s>", '"'), ("</s>",))
    assert odd.decode_source(odd.encode_source(['"', " ", "é"])) == ['"', " ", "é"]


def test_a_vocabulary_survives_json() -> None:
    assert Vocabulary.from_dict(json.loads(json.dumps(SMALL.to_dict()))) == SMALL


def test_a_blank_is_a_source_symbol_that_is_saved_only_where_there_is_one() -> None:
    blank = Vocabulary(("a", "_"), ("a", "x"), blank="_")
    assert Vocabulary.from_dict(json.loads(json.dumps(blank.to_dict()))) == blank
    assert blank.to_dict()["blank"] == "_"
    assert "blank" not in SMALL.to_dict()
    with pytest.raises(InputError, match="source vocabulary: lacks the blank 'x'"):
        Vocabulary(("a", "b"), ("a", "x"), blank="x")


def test_an_unknown_symbol_is_named_with_its_nearest() -> None:
    with pytest.raises(InputError, match="unknown source symbol 'sie'; did you mean 'si1'"):
        Vocabulary(("si1", "vi1"), ()).encode_source(["si1", "sie"])
    with pytest.raises(InputError, match=r"unknown target symbol 'b'$"):
        SMALL.encode_target("b")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"source": ["a"]}, "keys source and target, found source"),
        ({}, "found nothing"),
        ({"source": ["a"], "target": [], "extra": []}, "found extra, source, target"),
        ({"source": "abc", "target": []}, "source is 'abc', expected a list"),
        ({"source": ["a", "a"], "target": []}, "source vocabulary: 'a' occurs twice"),
        ({"source": [], "target": [""]}, "target vocabulary: '' is no symbol"),
        ({"source": [1], "target": []}, "source vocabulary: 1 is no symbol"),
        ({"source": ["a\nb"], "target": []}, r"source vocabulary: 'a\\nb' is no symbol"),
        ({"source": [], "target": ["\x1b[31m"]}, r"target vocabulary: '\\x1b\[31m' is no symbol"),
        ({"source": ["\ud800"], "target": []}, r"source vocabulary: '\\ud800' is no symbol"),
        ({"source": ["a"], "target": ["a"], "unknown": ["a"]}, r"lacks the unknown symbol \['a'\]"),
    ],
)
def test_a_broken_vocabulary_is_refused(data: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Vocabulary.from_dict(data)
