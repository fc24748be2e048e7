"""The forms of models by the names that saved models and the option `--form` have for them."""

from pushpop.models.language_model import LanguageModel
from pushpop.models.tagger import Tagger
from pushpop.models.transducer import Transducer

FORMS: dict[str, type[Transducer]] = {cls.form: cls for cls in (Transducer, Tagger, LanguageModel)}
