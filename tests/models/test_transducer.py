"""Transducers: what they read, what they predict, what is scored."""

from copy import deepcopy
from math import exp

import pytest
import torch

from pushpop import Transducer, TransducerConfig
from pushpop.models import body as body_module
from pushpop.tasks import Vocabulary, batches, draw_batch, get_task
from tests.models.examples import BODIES, READERS, VOCABULARY, batch_of, small_model


def test_copying_has_258_input_ids_and_129_classes() -> None:
    vocabulary = get_task("copy").vocabulary
    model = Transducer(TransducerConfig(hidden=8, memory_width=8), vocabulary)
    assert model.input_table.weight.shape == (258, 64)
    assert model.output_table.weight.shape == (129, 64)
    logits, _ = model(torch.zeros(3, 2, dtype=torch.int64))
    assert logits.shape == (3, 2, 129)


def test_the_input_table_starts_standard_normal_and_the_output_table_large() -> None:
    model = Transducer(TransducerConfig(hidden=8), get_task("copy").vocabulary)
    read, written = model.input_table.weight, model.output_table.weight
    assert abs(read.mean().item()) < 0.05
    assert abs(read.std().item() - 1) < 0.05
    assert abs(written.mean().item()) < 0.1
    assert 1.98 < written.abs().max().item() <= 2


def test_scales_change_the_tables_and_nothing_else_that_a_seed_draws() -> None:
    config, vocabulary = TransducerConfig(hidden=8), get_task("copy").vocabulary
    torch.manual_seed(3)
    plain = Transducer(config, vocabulary).state_dict()
    torch.manual_seed(3)
    scaled = Transducer(config, vocabulary, input_scale=0.3, output_scale=0.7).state_dict()
    factors = {"input_table.weight": 0.3, "output_table.weight": 0.7 / 2}
    for name, tensor in plain.items():
        assert torch.equal(scaled[name], tensor * factors.get(name, 1.0)), name


@pytest.mark.parametrize("body", [*BODIES, *READERS])
def test_the_loss_is_the_mean_over_target_symbols_and_eos(body: str) -> None:
    # a b -> y is read as SOS a b SEP y: ids 0 2 3 1 6. What counts: y (2) at SEP, EOS (0) at y.
    # c -> x x is read as SOS c SEP x x: ids 0 4 1 5 5. What counts: x, x (1) and EOS.
    model = small_model(body)
    batch = batch_of([([0, 1], [1]), ([2], [0, 0])])
    logits, _ = model(torch.tensor([[0, 0], [2, 4], [3, 1], [1, 5], [6, 5]]))
    logp = torch.log_softmax(logits, dim=-1)
    by_hand = -(logp[3, 0, 2] + logp[4, 0, 0] + logp[2, 1, 1] + logp[3, 1, 1] + logp[4, 1, 0])
    nll, symbols = model.likelihood(batch)
    assert symbols == 5
    torch.testing.assert_close(nll, by_hand)
    torch.testing.assert_close(model.loss(batch), by_hand / 5)
    assert model.perplexity(batch) == pytest.approx(exp(by_hand.item() / 5), rel=1e-5)


def test_logits_are_products_with_the_output_table_and_nothing_else() -> None:
    model = small_model()
    batch = batch_of([([0, 1], [1])])
    o, _ = model.run(batch.inputs)
    logits, _ = model(batch.inputs)
    assert logits[3, 0, 2].item() == pytest.approx(
        sum(o[3, 0, k].item() * model.output_table.weight[2, k].item() for k in range(5)), abs=1e-5
    )


@pytest.mark.parametrize("body", [*BODIES, *READERS])
def test_scored_logits_are_those_of_the_whole_pass(body: str) -> None:
    model = small_model(body)
    batch = batch_of([([0, 1, 2], [1]), ([2], [0, 0]), ([1], [])])
    logits, _ = model(batch.inputs, batch.lengths)
    torch.testing.assert_close(model.scored_logits(batch), logits[batch.mask])


@pytest.mark.parametrize("body", [*BODIES, *READERS])
def test_the_likelihood_of_a_batch_is_the_sum_of_its_rows(body: str) -> None:
    model = small_model(body).double()
    pairs = [([0, 1, 2, 0, 1], [1, 0]), ([2], [0, 0, 1, 1, 1, 0]), ([1], [])]
    whole = model.likelihood(batch_of(pairs))
    parts = [model.likelihood(batch_of([pair])) for pair in pairs]
    assert whole.symbols == sum(part.symbols for part in parts) == 11
    torch.testing.assert_close(whole.nll, sum(part.nll for part in parts))


@pytest.mark.parametrize("body", BODIES)
def test_steps_and_chunks_give_what_one_pass_gives(body: str) -> None:
    model = small_model(body).double()
    inputs = batch_of([([0, 1, 2, 0, 1], [1, 0]), ([2, 2, 2], [0, 0, 1, 1])]).inputs
    logits, _ = model(inputs)
    first, state = model(inputs[:3])
    second, _ = model(inputs[3:], state=state)
    torch.testing.assert_close(torch.cat([first, second]), logits)
    state = None
    for t, ids in enumerate(inputs):
        step, state = model.step(ids, state)
        torch.testing.assert_close(step, logits[t])


@pytest.mark.parametrize("body", READERS)
def test_steps_and_chunks_go_on_after_the_source(body: str) -> None:
    model = small_model(body).double()
    inputs = batch_of([([0, 1, 2, 0, 1], [1, 0]), ([2, 2, 2, 0, 2], [0, 0])]).inputs
    logits, _ = model(inputs)
    first, state = model(inputs[:7])
    second, _ = model(inputs[7:], state=state)
    torch.testing.assert_close(torch.cat([first, second]), logits)
    for t, ids in enumerate(inputs[7:], 7):
        step, state = model.step(ids, state)
        torch.testing.assert_close(step, logits[t])


@pytest.mark.parametrize("body", ["stack", "lstm-3", *READERS])
def test_a_source_read_step_by_step_gives_what_one_pass_gives(body: str) -> None:
    model = small_model(body).double()
    inputs = batch_of([([0, 1, 2, 0, 1], [1, 0]), ([2, 2, 2, 0, 2], [0, 0])]).inputs
    logits, _ = model(inputs)
    *_, (last, state) = model.reading(inputs[:7])
    torch.testing.assert_close(last, logits[6])
    torch.testing.assert_close(model.step(inputs[7], state)[0], logits[7])


@pytest.mark.parametrize("body", READERS)
def test_a_model_that_reads_the_whole_source_wants_it_whole(body: str) -> None:
    model = small_model(body)
    with pytest.raises(ValueError, match="the whole source at once"):
        model(torch.tensor([[0], [2], [3]]))
    with pytest.raises(ValueError, match="the whole source at once"):
        model.step(torch.tensor([0]))


def test_scores_are_computed_a_part_at_a_time_where_nothing_is_learnt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = small_model("both")
    inputs = torch.tensor([[0, 2, 3, 4, 1, 5, 6, 5]]).T
    whole, _ = model(inputs)
    monkeypatch.setattr(body_module, "SCORES_AT_ONCE", 12)  # two steps of the six scores
    with torch.no_grad():
        parts, _ = model(inputs)
    torch.testing.assert_close(parts, whole)


def test_dropout_is_at_work_in_training_and_only_there() -> None:
    torch.manual_seed(0)
    for options in (READERS["both"], BODIES["heads-2"], BODIES["stack"]):
        config = TransducerConfig(embedding=5, hidden=7, memory_width=4, dropout=0.5, **options)
        model = Transducer(config, VOCABULARY)
        batch = batch_of([([0, 1, 2], [1])])
        assert model.loss(batch) != model.loss(batch)
        assert model.perplexity(batch) == model.perplexity(batch)
        assert model.transduce(["a b c"]) == model.transduce(["a b c"])
        assert model.training
        model.eval()
        assert model.loss(batch) == model.loss(batch)


@pytest.mark.parametrize("body", [*BODIES, *READERS])
def test_every_parameter_gets_a_gradient(body: str) -> None:
    model = small_model(body)
    model.loss(batch_of([([0, 1, 2, 0, 1], [1, 0]), ([2, 2, 2], [0, 0, 1, 1])])).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_ids_must_be_a_table_of_whole_numbers() -> None:
    with pytest.raises(ValueError, match=r"inputs must be ids \[T, B\]; got torch.int64 \[3\]"):
        small_model()(torch.zeros(3, dtype=torch.int64))
    with pytest.raises(ValueError, match="float32"):
        small_model()(torch.zeros(3, 2))


def test_biases_of_the_config_reach_the_gates() -> None:
    config = TransducerConfig("deque", hidden=8, push_bias=(1, -3), pop_bias=-2)
    model = Transducer(config, VOCABULARY)
    assert model.body.gates.bias.tolist() == [1, -3, -2, -2]


def test_a_copy_is_independent_and_equal() -> None:
    model = small_model()
    copy = deepcopy(model)
    batch = batch_of([([0, 1], [1])])
    assert torch.equal(copy.loss(batch), model.loss(batch))
    with torch.no_grad():
        copy.output_table.weight += 1
    assert not torch.equal(copy.output_table.weight, model.output_table.weight)


def test_source_and_target_symbols_spelt_alike_are_embedded_apart() -> None:
    vocabulary = Vocabulary(("a",), ("a",))
    model = small_model(vocabulary=vocabulary)
    model.loss(batch_of([([0], [])], vocabulary)).backward()
    read = model.input_table.weight.grad.abs().sum(dim=1) > 0
    assert read.tolist() == [True, True, True, False]  # SOS, SEP, source a, target a


def test_a_stack_lstm_begins_to_learn_reversal() -> None:
    task = get_task("reverse")
    torch.manual_seed(0)
    model = Transducer(TransducerConfig("stack", hidden=32, memory_width=32), task.vocabulary)
    optimiser = torch.optim.RMSprop(model.parameters(), lr=3e-3)
    data = {"seed": 0, "batch_size": 10, "lengths": (8, 16)}
    held_out = draw_batch(task, stream="test", index=0, **data)
    before = model.perplexity(held_out)
    for _, batch in zip(range(60), batches(task, stream="train", **data), strict=False):
        optimiser.zero_grad()
        model.loss(batch).backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
        optimiser.step()
    assert before > 120
    # 128 symbols and an EOS every 13: knowing no more than how frequent they are gives 115.6
    assert model.perplexity(held_out) < 112
