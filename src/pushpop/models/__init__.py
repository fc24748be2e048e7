"""Models: symbols in, symbols out.

`config` says what a model is made of; `body` is its recurrence, and what may stand around it.
`transducer`, `tagger` and `language_model` are the forms. `decoding` writes targets symbol by
symbol, `text` is between strings and symbols, `saving` between models and folders, `export` makes
ONNX graphs.
"""

from typing import TYPE_CHECKING

from pushpop.lazy import import_when_asked

if TYPE_CHECKING:
    from pushpop.models.config import OUTPUT_SCALE, TransducerConfig, check_tagger
    from pushpop.models.decoding import Hypothesis
    from pushpop.models.language_model import LanguageModel
    from pushpop.models.saving import find_model, shipped_models
    from pushpop.models.tagger import FORMS, Tagger
    from pushpop.models.transducer import Transducer

__all__ = [
    "FORMS",
    "OUTPUT_SCALE",
    "Hypothesis",
    "LanguageModel",
    "Tagger",
    "Transducer",
    "TransducerConfig",
    "check_tagger",
    "find_model",
    "shipped_models",
]

import_when_asked(__name__)
