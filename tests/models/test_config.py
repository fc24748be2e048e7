"""What a transducer can be made of."""

from typing import Any

import pytest

from pushpop import TransducerConfig
from pushpop.errors import InputError


def test_the_defaults_are_the_papers() -> None:
    config = TransducerConfig()
    assert (config.embedding, config.hidden, config.memory_width) == (64, 256, 256)
    assert (config.push_bias, config.pop_bias) == (None, -1.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"memory": "heap"},
            "memory is 'heap', expected stack, queue, deque, ",
        ),
        ({"cell": "tree"}, "cell is 'tree', expected lstm, gru, rnn"),
        ({"hidden": 0}, "hidden is 0, expected a whole number from 1 to 65536"),
        ({"hidden": True}, "hidden is True, expected a whole number"),
        ({"embedding": 64.0}, "embedding is 64.0, expected a whole number"),
        ({"memory_width": 10**9}, "memory_width is 1000000000, expected"),
        ({"memory": "none", "heads": 2}, "heads is 2 with memory 'none', expected 1"),
        ({"heads": 0}, "heads is 0, expected a whole number"),
        ({"encoder": "deep"}, "encoder is 'deep', expected none, bidirectional"),
        ({"attention": 1}, "attention is 1, expected true or false"),
        ({"dropout": 1}, "dropout is 1, expected a number from 0 to below 1"),
        ({"dropout": -0.1}, "dropout is -0.1, expected"),
        ({"dropout": "0.1"}, "dropout is '0.1', expected"),
        ({"memory": "none", "layers": -1}, "layers is -1"),
        ({"pop_bias": float("nan")}, "pop_bias is nan, expected a finite number"),
        ({"push_bias": 10**400}, "expected a finite number"),
        ({"push_bias": "1"}, "push_bias is '1', expected"),
        ({"pop_bias": "drift"}, "pop_bias is 'drift', expected a finite number, two or none"),
        ({"memory": "none", "memories": 2}, "memories is 2 with memory 'none', expected 1"),
        ({"memories": 3, "push_bias": (1, 2)}, "or a list of 3 numbers, one a memory; got"),
        ({"push_bias": (1, 2)}, "push_bias of a stack must be one number; got "),
        ({"memory": "deque", "push_bias": (1, 2, 3)}, "push_bias of a deque must be one number or"),
        ({"memory": "tape", "pop_bias": -1}, "memory 'tape' has no pop_bias: its starting"),
    ],
)
def test_what_is_refused_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as raised:
        TransducerConfig(**given)
    assert message in str(raised.value)


def test_a_config_survives_as_plain_values() -> None:
    config = TransducerConfig("deque", push_bias=(1, -3), pop_bias=-2)
    plain = config.to_dict()
    plain["push_bias"] = list(plain["push_bias"])  # as JSON has it
    assert TransducerConfig.from_dict(plain) == config
    assert config.push_bias == (1.0, -3.0)


def test_plain_values_must_be_all_the_settings_and_no_others() -> None:
    plain = TransducerConfig().to_dict()
    with pytest.raises(InputError, match="unknown setting 'hiden'; did you mean 'hidden'"):
        TransducerConfig.from_dict({**plain, "hiden": 3})
    del plain["cell"]
    with pytest.raises(InputError, match="no setting 'cell'"):
        TransducerConfig.from_dict(plain)
