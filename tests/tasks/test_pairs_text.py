"""Text as symbols."""

import pytest

from pushpop.errors import InputError
from pushpop.tasks.pairs_text import TextForm


def test_text_becomes_symbols_and_text_again() -> None:
    form = TextForm("chars", "spaces")
    assert form.source_symbols(" ab c ") == ["a", "b", " ", "c"]
    assert form.target_symbols(" aː  t ") == ["aː", "t"]
    assert form.target_text(["aː", "t"]) == "aː t"
    assert TextForm().target_text(["a", " ", "b"]) == "a b"


def test_a_line_to_predict_from_has_its_features_after_a_tab() -> None:
    form = TextForm(features=True)
    assert form.read_line("go\tV;3") == ["<V>", "<3>", "g", "o"]
    for line, message in (("go", "no features"), ("go\tV\tx", "more than one tab")):
        with pytest.raises(InputError, match=message):
            form.read_line(line)
    with pytest.raises(InputError, match="a tab; expected a source and nothing else"):
        TextForm().read_line("go\twent")


def test_a_form_goes_through_a_dictionary() -> None:
    form = TextForm("spaces", "chars", True, "nfkc")
    assert TextForm.from_dict(form.to_dict()) == form
    for change, message in (
        ({"source": "words"}, "source is 'words', expected chars or spaces"),
        ({"normalise": "nfd"}, "normalise is 'nfd', expected nfc or nfkc or none"),
        ({"features": 1}, "features is 1, expected true or false"),
        ({"sauce": 1}, "unknown 'sauce'; did you mean 'source'"),
    ):
        with pytest.raises(InputError, match=message):
            TextForm.from_dict({**form.to_dict(), **change})
    with pytest.raises(InputError, match="no 'features'"):
        TextForm.from_dict({"source": "chars", "target": "chars", "normalise": "nfc"})
