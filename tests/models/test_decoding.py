"""From source to target: greedily and by beam search."""

from itertools import product

import pytest
import torch

from pushpop import Transducer
from pushpop.errors import InputError
from pushpop.models import Hypothesis
from pushpop.models.decoding import Search, beam_search, greedy
from pushpop.tasks import Vocabulary
from tests.models.examples import BODIES, READERS, batch_of, lively_model, small_model

SOURCES: list[list[int]] = [[0, 1, 2, 2, 1, 0, 0], [1], [], [2, 2], [0, 1, 0, 1], [2], [1, 1, 1]]


def forced(model: Transducer, source: list[int], hypothesis: Hypothesis) -> float:
    """The log probability of a hypothesis, by one teacher-forced pass."""
    target = [i - 1 for i in hypothesis.ids]
    batch = batch_of([(source, target)], model.vocabulary)
    logp = torch.log_softmax(model.scored_logits(batch), dim=-1)
    wanted = batch.outputs[batch.mask]
    steps = len(target) + hypothesis.finished
    return logp[torch.arange(steps), wanted[:steps]].sum().item()


def same(one: Hypothesis, other: Hypothesis) -> bool:
    return (one.ids, one.finished) == (other.ids, other.finished) and one.score == pytest.approx(
        other.score, rel=1e-9, abs=1e-9
    )


@pytest.fixture(params=[*BODIES, *READERS])
def model(request: pytest.FixtureRequest) -> Transducer:
    return lively_model(request.param)


def test_greedy_is_the_chain_of_teacher_forced_argmaxes(model: Transducer) -> None:
    for source, (best,) in zip(SOURCES, model.decode(SOURCES, max_length=6), strict=True):
        batch = batch_of([(source, [i - 1 for i in best.ids])])
        chain = model.scored_logits(batch).argmax(dim=-1).tolist()
        if best.finished:
            assert chain == [*best.ids, 0]
        else:
            assert len(best.ids) == 6
            assert chain[:6] == list(best.ids)
            assert chain[6] != 0


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("body", ["deque", "lstm-3"])
def test_greedy_is_a_beam_of_1(body: str, seed: int) -> None:
    model = small_model(body, seed=seed).double()
    with torch.no_grad():
        ones = greedy(model, SOURCES, Search(max_length=4))
        for normalise in (False, True):
            search = Search(beam=1, nbest=1, max_length=4, normalise=normalise)
            others = beam_search(model, SOURCES, search)
            assert all(same(one, other) for one, (other,) in zip(ones, others, strict=True))


@pytest.mark.parametrize("beam", [1, 3])
def test_a_batch_is_decoded_as_its_sources_one_by_one(model: Transducer, beam: int) -> None:
    together = model.decode(SOURCES, beam=beam, nbest=beam, max_length=8)
    assert len({len(found[0].ids) for found in together}) >= 3
    for batch_size in (1, 3):
        apart = model.decode(SOURCES, beam=beam, nbest=beam, max_length=8, batch_size=batch_size)
        for ones, others in zip(together, apart, strict=True):
            assert len(ones) == len(others)
            assert all(map(same, ones, others))


def test_scores_are_log_probabilities(model: Transducer) -> None:
    for source, found in zip(SOURCES, model.decode(SOURCES, beam=4, nbest=4), strict=True):
        for one in found:
            assert one.score == pytest.approx(forced(model, source, one), abs=1e-9)
            assert one.symbols == tuple("xy"[i - 1] for i in one.ids)


@pytest.mark.parametrize("normalise", [False, True])
def test_a_wide_beam_finds_all_targets_in_their_order(model: Transducer, normalise: bool) -> None:
    # every target of at most 3 symbols out of 2: 1 + 2 + 4 + 8
    targets = [ids for n in range(4) for ids in product((1, 2), repeat=n)]
    source = [0, 2, 1]
    scores = {ids: forced(model, source, Hypothesis(ids, (), 0.0, True)) for ids in targets}
    keys = {ids: s / (len(ids) + 1) if normalise else s for ids, s in scores.items()}
    ranking = sorted(targets, key=lambda ids: -keys[ids])
    (found,) = model.decode([source], beam=30, nbest=15, max_length=3, normalise=normalise)
    assert [one.ids for one in found] == ranking
    assert [one.score for one in found] == pytest.approx([scores[ids] for ids in ranking])
    assert all(one.finished for one in found)


@pytest.mark.parametrize("seed", range(5))
def test_the_best_of_a_wide_beam_is_the_best_of_all(seed: int) -> None:
    model = small_model("queue-gru", seed=seed).double()
    targets = [ids for n in range(6) for ids in product((1, 2), repeat=n)]
    for source in SOURCES[:3]:
        best = max(forced(model, source, Hypothesis(ids, (), 0.0, True)) for ids in targets)
        ((found,),) = model.decode([source], beam=64, max_length=5)
        assert found.score == pytest.approx(best)


def test_a_target_cut_off_at_the_limit_says_so() -> None:
    model = small_model(seed=1)
    with torch.no_grad():
        model.output_table.weight[0] = 0  # x or y is always likelier than EOS, which has logit 0
        model.output_table.weight[2] = -model.output_table.weight[1]
    ((one,),) = model.decode(["a b"], max_length=3)
    assert (len(one.ids), one.finished) == (3, False)
    ((one,),) = model.decode(["a b"])
    assert (len(one.ids), one.finished) == (2 * 2 + 50, False)
    ((one,),) = model.decode([""])
    assert (len(one.ids), one.finished) == (50, False)
    found = model.decode(["a b", "c"], beam=3, nbest=3, max_length=3)
    assert all(len(one.ids) == 3 for each in found for one in each if not one.finished)


def test_a_target_as_long_as_the_limit_is_finished() -> None:
    model = lively_model("lstm-3")
    (found,) = zip(*model.decode(SOURCES), strict=True)
    for source, best in zip(SOURCES, found, strict=True):
        assert best.finished
        ((again,),) = model.decode([source], max_length=len(best.ids))
        assert same(again, best)
        if best.ids:
            ((shorter,),) = model.decode([source], max_length=len(best.ids) - 1)
            assert shorter.ids == best.ids[:-1]
            assert not shorter.finished


def test_finished_targets_come_before_those_cut_off() -> None:
    for seed in range(6):
        for found in small_model(seed=seed).decode(SOURCES, beam=4, nbest=4, max_length=2):
            flags = [one.finished for one in found]
            assert flags == sorted(flags, reverse=True)
            for flag in (True, False):
                scores = [one.score for one in found if one.finished == flag]
                assert scores == sorted(scores, reverse=True)
            assert len({(one.ids) for one in found}) == len(found)


def test_a_limit_of_0_leaves_the_empty_target() -> None:
    for (one,) in small_model().decode(SOURCES, max_length=0):
        assert one.ids == ()
        assert one.finished or one.score == 0


def test_without_target_symbols_the_only_target_is_empty() -> None:
    model = small_model(vocabulary=Vocabulary(("a",), ()))
    assert model.decode(["a a"], beam=3, nbest=3) == [[Hypothesis((), (), 0.0, True)]]
    assert model.transduce(["a", ""]) == ["", ""]


def test_transduce_takes_and_gives_symbols_between_spaces(model: Transducer) -> None:
    texts = ["a b  c\n", "", "c"]
    found = model.decode(texts, beam=3, nbest=3, max_length=5)
    assert model.transduce(texts, beam=3, max_length=5) == [" ".join(f[0].symbols) for f in found]
    listed = model.transduce(texts, nbest=3, beam=3, max_length=5)
    assert listed == [[" ".join(one.symbols) for one in each] for each in found]
    assert model.decode([[0, 1, 2], [], [2]], beam=3, nbest=3, max_length=5) == found
    assert model.transduce([]) == []


@pytest.mark.parametrize(
    ("sources", "options", "message"),
    [
        (["a", "a d"], {}, "input 1: unknown source symbol 'd'"),
        (["x"], {}, "input 0: unknown source symbol 'x'"),
        ([["a", "b"]], {}, "input 0: ['a', 'b']: expected a string, as in 'a b', or the numbers"),
        ([[0], [0, 3]], {}, "input 1: 3 is no source symbol's number, expected 0 to 2"),
        ([[-1]], {}, "input 0: -1"),
        ("a b", {}, "sources is the string 'a b', expected a list of strings"),
        (["a"], {"beam": 0}, "beam is 0, expected at least 1"),
        (["a"], {"nbest": 0}, "nbest is 0"),
        (["a"], {"nbest": 3, "beam": 2}, "nbest is 3 with a beam of 2"),
        (["a"], {"max_length": -1}, "max_length is -1, expected at least 0"),
        (["a"], {"batch_size": 0}, "batch_size is 0"),
    ],
)
def test_what_cannot_be_decoded_is_named(
    sources: list[str], options: dict[str, int], message: str
) -> None:
    with pytest.raises(InputError) as raised:
        small_model().decode(sources, **options)
    assert message in str(raised.value)


def test_decoding_leaves_no_gradients_and_the_model_as_it_was() -> None:
    model = small_model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.decode(SOURCES, beam=2)
    assert all(torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
