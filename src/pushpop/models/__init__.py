"""Models: symbols in, symbols out."""

from pushpop.models.config import TransducerConfig
from pushpop.models.decoding import Hypothesis
from pushpop.models.tagger import Tagger, check_tagger
from pushpop.models.transducer import OUTPUT_SCALE, Transducer

FORMS: dict[str, type[Transducer]] = {each.form: each for each in (Transducer, Tagger)}
"""The kinds of models by name."""

__all__ = [
    "FORMS",
    "OUTPUT_SCALE",
    "Hypothesis",
    "Tagger",
    "Transducer",
    "TransducerConfig",
    "check_tagger",
]
