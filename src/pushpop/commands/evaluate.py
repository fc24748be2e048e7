"""`pushpop evaluate`."""

import json
import sys
from typing import TYPE_CHECKING

from pushpop.devices import find_device, read_device
from pushpop.errors import InputError

if TYPE_CHECKING:
    from pushpop.models import Transducer


def evaluate(
    model: str,
    pairs: str | None = None,
    lengths: str = "65-128",
    sequences: int = 1000,
    seed: int = 0,
    task: str = "",
    checkpoint: str = "",
    save: bool = False,
    columns: str = "",
    skip_bad: bool = False,
    beam: int = 1,
    worst: int = 10,
    as_json: bool = False,
    device: str = "cpu",
) -> None:
    """Print coarse and fine accuracy of a trained model, or how right it is on a file of pairs.

    Args:
        model: a run directory (if the run is not finished, its latest checkpoint), a saved model,
            or the name of a model that comes with pushpop
        pairs: a file of pairs, as in test.tsv, for a model that was trained on such a file; the
            options from --columns on are about it
        lengths: shortest and longest source, as in 65-128, or lengths one by one, as in 64,128,256
        sequences: how many pairs are drawn for each
        seed: the same seed gives the same pairs
        task: the task to draw from; by default the one that the model was trained on
        checkpoint: a checkpoint of the run: best, latest, or after how many batches
        save: keep the figures in the run (lengths.json), for pushpop report; lengths one by one
        columns: the columns of the source and the target, as in 1,2 (with features: 1,3,2)
        skip_bad: leave bad rows out, and count them
        beam: how many predictions are pursued at once
        worst: how many of the worst predictions are shown
        as_json: print the figures as JSON
        device: where it runs: cpu, cuda or cuda:N (a GPU), mps (Apple's), auto: cuda or else cpu

    Examples:
        pushpop evaluate reverse-stack --lengths 64,128,256,512
        pushpop evaluate runs/pairs-deque-seed0 test.tsv --worst 20
    """
    read_device("device", device)
    from pushpop.evaluation import evaluate as accuracy
    from pushpop.experiments.runs import check_saveable, save_length
    from pushpop.models import Tagger
    from pushpop.models.saving import find_model
    from pushpop.tasks import get_task, parse_lengths
    from pushpop.training.load import load_trained

    ranges = [parse_lengths(part) for part in lengths.split(",")]
    if sequences < 1:
        raise InputError(f"{sequences} sequences asked for: expected at least 1")
    if worst < 0:
        raise InputError(f"worst is {worst}, expected 0 or more")
    if save:
        check_saveable(model, ranges, task or checkpoint)
    found = load_trained(find_model(model), task or None, checkpoint=checkpoint)
    found.model.to(find_device(device))
    if pairs is not None:
        print_pair_scores(
            found.model,
            found.what,
            pairs,
            columns=columns,
            skip_bad=skip_bad,
            beam=beam,
            worst=worst,
            as_json=as_json,
        )
        return
    if found.model.text is not None:
        raise InputError(
            f"{model}: was trained on a file: expected pairs to test it on, as in pushpop evaluate "
            f"{model} test.tsv"
        )
    drawn, tags = get_task(found.known_task()), isinstance(found.model, Tagger)
    print(f"{found.what} on {drawn.name}, {sequences} sequences a row")
    grains = [name for name in ("accuracy", "coarse", "fine") if name != "accuracy" or tags]
    print(f"  lengths{''.join(f'{name:>10}' for name in grains)}  perplexity")
    for low, high in ranges:
        row = accuracy(found.model, drawn, (low, high), sequences, seed=seed)
        name = f"{low}-{high}" if low < high else str(low)
        scores = "".join(f"{row[grain]:10.3f}" for grain in grains)
        print(f"{name:>9}{scores}  {row['perplexity']:10.4g}", flush=True)
        if save:
            save_length(model, row)


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
    """Print how right a model is on a file of pairs, and the predictions that are most wrong."""
    from pushpop.models import Tagger
    from pushpop.models.text import describe_prediction, describe_unknown, score_pairs
    from pushpop.tasks.pairs_file import PairsOptions, read_pairs
    from pushpop.tasks.pairs_text import TextForm
    from pushpop.training.parallel import torch_threads

    form = model.text or TextForm("spaces", "spaces", normalise="none")
    labels = isinstance(model, Tagger) and model.vocabulary.blank is None
    file = read_pairs(path, PairsOptions.like(form, columns, skip_bad, labels))
    if file.form != form:
        kind = "features" if form.features else "no features"
        raise InputError(
            f"{path}: {file.columns}; expected {kind}, as the model was trained with; name the "
            f"columns, as in --columns {'1,2,3' if form.features else '1,2'}"
        )
    for text in filter(None, (file.describe_skipped(), file.describe_unused())):
        print("pushpop:", text, file=sys.stderr)
    with torch_threads(1):
        scores = score_pairs(model, file.pairs, beam)
    if scores.unknown:
        from collections import Counter

        print("pushpop:", describe_unknown(Counter(scores.unknown)), file=sys.stderr)
    if as_json:
        print(json.dumps(scores.to_dict()))
        return
    figures = scores.to_dict()
    print(f"{what} on {path}, {figures['pairs']:,} pairs{file.header}")
    print(f"accuracy           {figures['accuracy']:7.2%}   targets that are right as a whole")
    print(f"word error rate    {figures['word_error_rate']:7.2%}   those that are not")
    what = "labels that are wrong" if labels else "edits a symbol of the targets"
    print(f"symbol error rate  {figures['symbol_error_rate']:7.2%}   {what}")
    shown = scores.worst(worst)
    if shown:
        print("\nworst: source, target, prediction")
        for one in shown:
            print(describe_prediction(model, one))
