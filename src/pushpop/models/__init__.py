"""Models: symbols in, symbols out."""

from pushpop.models.config import TransducerConfig
from pushpop.models.decoding import Hypothesis
from pushpop.models.transducer import Transducer

__all__ = ["Hypothesis", "Transducer", "TransducerConfig"]
