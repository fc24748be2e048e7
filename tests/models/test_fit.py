"""A model from pairs of strings."""

from pathlib import Path
from typing import Any

import pytest

from pushpop import Transducer
from pushpop.errors import InputError

TINY: dict[str, Any] = {"embedding": 8, "hidden": 8, "memory_width": 4, "epochs": 2}
PAIRS = [(f"{n:04b}", " ".join(f"{n:04b}".replace("0", "a").replace("1", "b"))) for n in range(16)]


def test_fit_gives_a_model_that_transduces_and_scores(tmp_path: Path) -> None:
    model = Transducer.fit(PAIRS, valid=PAIRS[:4], memory="deque", **TINY)
    assert model.text is not None
    assert (model.text.source, model.text.target) == ("chars", "spaces")
    scores = model.score(PAIRS)
    assert set(scores) == {"pairs", "accuracy", "word_error_rate", "symbol_error_rate"}
    assert scores["pairs"] == 16
    assert scores["word_error_rate"] == 1 - scores["accuracy"]
    model.save_pretrained(tmp_path)
    again = Transducer.from_pretrained(tmp_path)
    assert again.transduce(["0101", "11"]) == model.transduce(["0101", "11"])


def test_features_are_a_third_string(tmp_path: Path) -> None:
    rows = [
        (source, target, f"V;{'PST' if k % 2 else 'PRS'}")
        for k, (source, target) in enumerate(PAIRS)
    ]
    model = Transducer.fit(rows, run=tmp_path / "run", **TINY)
    assert (tmp_path / "run" / "report.json").exists()
    assert len(model.transduce(["01\tV;PST"])) == 1
    assert model.score(rows)["pairs"] == 16
    with pytest.raises(InputError, match="no features"):
        model.transduce(["01"])


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "pairs: no pairs"),
        (["ab"], "pairs: pair 0 is 'ab', expected"),
        ([("a",)], r"pairs: pair 0 is \('a',\), expected"),
        ([("a", "b"), ("", "b")], "pair 1: the source is ''"),
        ([("a", " ")], "pair 0: the target is ' '"),
        ([("a", None)], "pair 0: the target is None"),
        ([("a\tb", "b")], "pair 0: a tab in the source"),
        ([("a", "b\nc")], r"pair 0: a line feed \(U\+000A\) at character 2 of the target"),
        ([("a", "b", "V;;N")], "pair 0: an empty feature"),
        ([("a", "b"), ("a", "b", "V")], "some pairs have features and some have none"),
    ],
)
def test_pairs_that_cannot_be_are_named(pairs: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Transducer.fit(pairs)


def test_no_pairs_cannot_be_scored() -> None:
    model = Transducer.fit(PAIRS, **TINY)
    with pytest.raises(InputError, match="no pairs to score"):
        model.score([])
