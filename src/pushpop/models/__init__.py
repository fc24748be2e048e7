"""Models: symbols in, symbols out."""

from typing import TYPE_CHECKING

from pushpop.lazy import import_when_asked

if TYPE_CHECKING:
    from pushpop.models.config import OUTPUT_SCALE, TransducerConfig, check_tagger
    from pushpop.models.decoding import Hypothesis
    from pushpop.models.tagger import FORMS, Tagger
    from pushpop.models.transducer import Transducer

__all__ = [
    "FORMS",
    "OUTPUT_SCALE",
    "Hypothesis",
    "Tagger",
    "Transducer",
    "TransducerConfig",
    "check_tagger",
]

import_when_asked(
    __name__,
    {
        "OUTPUT_SCALE": "config",
        "TransducerConfig": "config",
        "check_tagger": "config",
        "Hypothesis": "decoding",
        "FORMS": "tagger",
        "Tagger": "tagger",
        "Transducer": "transducer",
    },
)
