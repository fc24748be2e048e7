"""A tagger writes while it reads: a label for every symbol, or an answer at blanks."""

import io
from pathlib import Path

import pytest
import torch

from pushpop import Tagger, Transducer, TransducerConfig
from pushpop.cli import main
from pushpop.errors import InputError
from pushpop.evaluation import score
from pushpop.tasks import Pairs, Vocabulary, make_tag_batch
from pushpop.viewer.tracing import Example, generate, trace
from tests.models.examples import small_model

LABELS = Vocabulary(("a", "b", "c"), ("x", "y"))
ANSWERS = Vocabulary(("0", "1", "_"), ("0", "1", "2"), blank="_")
SMALL = {"embedding": 6, "hidden": 8, "memory_width": 5}


def tagger(vocabulary: Vocabulary = LABELS, memory: str = "stack") -> Tagger:
    torch.manual_seed(0)
    return Tagger(TransducerConfig(memory=memory, **SMALL), vocabulary)  # type: ignore[arg-type]


def test_every_symbol_has_its_label_at_its_own_step() -> None:
    batch = make_tag_batch(Pairs.of([([0, 1, 2], [1, 0, 1]), ([2], [0])]), LABELS)
    assert batch.inputs.T.tolist() == [[2, 3, 4], [4, 0, 0]]
    assert batch.outputs.T.tolist() == [[1, 0, 1], [0, 0, 0]]
    assert batch.mask.T.tolist() == [[True] * 3, [True, False, False]]
    assert batch.lengths.tolist() == [3, 1]


def test_answers_are_written_at_as_many_blanks_after_the_source() -> None:
    batch = make_tag_batch(Pairs.of([([0, 1], [1]), ([1], [0, 2])]), ANSWERS)
    assert batch.inputs.T.tolist() == [[2, 3, 4], [3, 4, 4]]
    assert batch.outputs.T.tolist() == [[0, 0, 1], [0, 0, 2]]
    assert batch.mask.T.tolist() == [[False, False, True], [False, True, True]]


def test_sides_of_different_lengths_are_refused() -> None:
    with pytest.raises(InputError, match="pair 1: 2 source symbols and 1 labels, expected a label"):
        make_tag_batch(Pairs.of([([0], [1]), ([0, 1], [1])]), LABELS)


@pytest.mark.parametrize("memory", ["stack", "deque", "tape", "none"])
def test_labels_of_a_batch_are_those_of_single_steps(memory: str) -> None:
    model = tagger(memory=memory)
    sources = ["a b c c a", "b", "c a"]
    expected = []
    for source in sources:
        state, labels = None, []
        for number in LABELS.encode_source(source.split()).tolist():
            logits, state = model.step(torch.tensor([number + LABELS.source_input_start]), state)
            labels.append(LABELS.target[int(logits[0].argmax())])
        expected.append(" ".join(labels))
    assert model.transduce(sources) == expected
    assert [len(text.split()) for text in expected] == [5, 1, 2]


def test_only_what_is_written_at_blanks_counts() -> None:
    model = tagger(ANSWERS)
    (found,) = model.decode(["0 1 1 _ _"])
    assert len(found[0].symbols) == 2
    assert found[0].finished
    for bad, told in (("0 1 1", "input 0: no blank '_'"), ("0 7 _", "input 0: unknown source")):
        with pytest.raises(InputError, match=told):
            model.decode([bad])


def test_there_is_nothing_to_search_for() -> None:
    with pytest.raises(InputError, match="beam is 4: a tagger has one answer, expected 1"):
        tagger().decode(["a b"], beam=4)
    with pytest.raises(InputError, match="nbest is 3"):
        tagger().transduce(["a b"], nbest=3)


@pytest.mark.parametrize("option", [{"encoder": "bidirectional"}, {"attention": True}])
def test_what_reads_the_source_twice_is_refused(option: dict[str, object]) -> None:
    with pytest.raises(InputError, match="a tagger reads a source once"):
        Tagger(TransducerConfig(**SMALL, **option), LABELS)  # type: ignore[arg-type]


def test_a_saved_tagger_comes_back_as_one(tmp_path: Path) -> None:
    model = tagger(ANSWERS, "queue")
    model.save_pretrained(tmp_path / "mine")
    for cls in (Tagger, Transducer):
        loaded = cls.from_pretrained(tmp_path / "mine")
        assert type(loaded) is Tagger
        assert loaded.vocabulary == ANSWERS
        assert loaded.transduce(["1 1 0 _"]) == model.transduce(["1 1 0 _"])
    small_model().save_pretrained(tmp_path / "other")
    with pytest.raises(
        InputError, match="format is 'pushpop transducer', expected 'pushpop tagger'"
    ):
        Tagger.from_pretrained(tmp_path / "other")


def test_scores_count_right_symbols_anywhere_and_before_the_first_error() -> None:
    model = tagger()
    sources = [[0, 1, 2, 1], [2, 2]]
    written = [
        LABELS.encode_target(text.split()).tolist() for text in model.transduce(["a b c b", "c c"])
    ]
    wanted = [list(row) for row in written]
    wanted[0][1] = 1 - wanted[0][1]
    found = score(model, Pairs.of(zip(sources, wanted, strict=True)))
    assert (found.correct.tolist(), found.right.tolist()) == ([1, 2], [3, 2])
    assert found.symbols.tolist() == [4, 2]
    assert (found.accuracy, found.coarse, found.fine) == (0.875, 0.5, 0.625)


def test_a_trace_shows_an_answer_at_every_step_that_has_one() -> None:
    told = trace(tagger(), Example(("a", "b", "c"), ("x", "y", "x")))
    assert [step.symbol for step in told.steps] == ["a", "b", "c"]
    assert all(step.output is not None for step in told.steps)
    assert " ".join(told.output) == tagger().transduce(["a b c"])[0]
    at_blanks = trace(tagger(ANSWERS), Example(("1", "0"), ("0",)))
    assert [(s.symbol, s.part, s.output is not None) for s in at_blanks.steps] == [
        ("1", "source", False),
        ("0", "source", False),
        ("_", "target", True),
    ]
    typed = trace(tagger(ANSWERS), Example(("1", "0", "_")))
    assert (typed.output, typed.right) == (at_blanks.output, None)
    both = trace(tagger(ANSWERS), Example(("1", "0", "_"), typed.output))
    assert (both.output, both.right) == (typed.output, True)
    for bad, told in (
        (Example(("1", "0")), "no blank '_' in '1 0'"),
        (Example(()), "the source is empty"),
        (Example(("1", "_"), ("0", "1")), "the target has 2 symbols, expected 1"),
        (Example(("1", "_"), ()), "the target has 0 symbols, expected 1"),
    ):
        with pytest.raises(InputError, match=told):
            trace(tagger(ANSWERS), bad)


def test_a_drawn_example_ends_where_its_target_stops_counting() -> None:
    assert generate("chomsky/stack-manipulation", 6, 2).target == ("0", "1", "2")


def test_pairs_with_a_blank_are_scored_as_they_are_sampled() -> None:
    model = tagger(ANSWERS)
    (written,) = model.transduce(["1 0 _ _"])
    assert model.score([("1 0", written), ("1 0 _ _", written)])["accuracy"] == 1


def test_shifted_labels_are_wrong_everywhere() -> None:
    assert tagger().distance(list("xyxyxy"), list("yxyxyx")) == 6
    assert small_model().distance(list("xyxyxy"), list("yxyxyx")) == 2


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    """Words whose letters are labelled vowel or consonant."""
    rows = []
    for word in ("stack", "queue", "deque", "tape", "memory", "push", "pop", "read", "gate") * 4:
        labels = " ".join("V" if letter in "aeiou" else "C" for letter in word)
        rows.append(f"{word}\t{labels}\n")
    path = tmp_path / "letters.tsv"
    path.write_text("".join(rows))
    return path


def test_labels_of_ones_own_are_learnt_from_a_file(
    labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    options = "--form tagger --epochs 30 --hidden 16 --memory-width 8 --embedding 8 --dropout 0"
    main(["train", str(labelled), *options.split(), "--run", str(run)])
    model = Transducer.from_pretrained(run)
    assert isinstance(model, Tagger)
    assert model.transduce(["parade"]) == ["C V C V C V"]
    capsys.readouterr()
    main(["evaluate", str(run), str(labelled)])
    assert "accuracy           100.00%" in capsys.readouterr().out
    main(["trace", str(run), "pop", "-o", str(tmp_path / "t.json")])
    assert "pop ||| C V C" in capsys.readouterr().out


def test_a_label_too_few_is_named_with_its_line(
    labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled.write_text(labelled.read_text() + "word\tC V C\n")
    with pytest.raises(SystemExit) as left:
        main(["train", str(labelled), "--form", "tagger", "--run", str(tmp_path / "run")])
    assert left.value.code == 2
    told = f"{labelled}:37:6: 3 labels for 4 source symbols, expected one for each"
    assert told in capsys.readouterr().err


def test_a_file_with_a_label_too_few_is_not_scored_either(
    labelled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tagger(Vocabulary(("a", "b"), ("C", "V"))).save_pretrained(tmp_path / "mine")
    labelled.write_text("a b\tV C\na b\tV\n")
    with pytest.raises(SystemExit):
        main(["evaluate", str(tmp_path / "mine"), str(labelled)])
    assert f"{labelled}:2:5: 1 labels for 2 source symbols" in capsys.readouterr().err


def test_a_line_without_a_blank_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tagger(ANSWERS).save_pretrained(tmp_path / "mine")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"0 _\n1 1\n")))
    with pytest.raises(SystemExit):
        main(["transduce", str(tmp_path / "mine")])
    assert "standard input:2: no blank '_' in '1 1'" in capsys.readouterr().err


def test_fit_makes_a_tagger_of_pairs() -> None:
    pairs = [
        (word, " ".join("V" if x in "aeiou" else "C" for x in word)) for word in ["ab", "be", "abe"]
    ]
    sizes = {"hidden": 4, "memory_width": 4, "embedding": 4}
    model = Tagger.fit(pairs * 3, epochs=1, **sizes)
    assert isinstance(model, Tagger)
    assert model.score(pairs)["pairs"] == 3
    with pytest.raises(InputError, match="form is 'transducer' with recipe 'labels'"):
        Transducer.fit(pairs, recipe="labels")
