"""Models: symbols in, symbols out."""

from pushpop.models.config import TransducerConfig
from pushpop.models.decoding import Hypothesis
from pushpop.models.transducer import OUTPUT_SCALE, Transducer

__all__ = ["OUTPUT_SCALE", "Hypothesis", "Transducer", "TransducerConfig"]
