"""What `pushpop evaluate MODEL FILE` prints: how right a model is on pairs of its own kind."""

import json
import sys
from typing import TYPE_CHECKING

from pushpop.errors import InputError

if TYPE_CHECKING:
    from pushpop.models import Transducer


def print_pair_scores(
    model: "Transducer",
    what: str,
    path: str,
    *,
    columns: str,
    skip_bad: bool,
    beam: int,
    worst: int,
    as_json: bool,
) -> None:
    """Accuracy, errors, and the predictions that are most wrong."""
    from pushpop.models.scoring import describe, score_pairs
    from pushpop.models.spelling import describe_unknown
    from pushpop.tasks.pairs_file import PairsOptions, read_pairs
    from pushpop.tasks.pairs_text import TextForm
    from pushpop.training.threads import threads

    form = model.text or TextForm("spaces", "spaces", normalise="none")
    file = read_pairs(path, PairsOptions.like(form, columns, skip_bad))
    if file.form != form:
        kind = "features" if form.features else "no features"
        raise InputError(
            f"{path}: {file.columns}; expected {kind}, as the model was trained with; name the "
            f"columns, as in --columns {'1,2,3' if form.features else '1,2'}"
        )
    for text in filter(None, (file.describe_skipped(),)):
        print("pushpop:", text, file=sys.stderr)
    with threads(1):
        scores = score_pairs(model, file.pairs, beam)
    if scores.unknown:
        from collections import Counter

        print("pushpop:", describe_unknown(Counter(scores.unknown)), file=sys.stderr)
    if as_json:
        print(json.dumps(scores.to_dict()))
        return
    figures = scores.to_dict()
    print(f"{what} on {path}, {figures['pairs']:,} pairs")
    print(f"accuracy           {figures['accuracy']:7.2%}   targets that are right as a whole")
    print(f"word error rate    {figures['word_error_rate']:7.2%}   those that are not")
    print(f"symbol error rate  {figures['symbol_error_rate']:7.2%}   edits a symbol of the targets")
    shown = scores.worst(worst)
    if shown:
        print("\nworst: source, target, prediction")
        for one in shown:
            print(describe(model, one))
