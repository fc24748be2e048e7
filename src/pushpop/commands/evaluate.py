"""`pushpop evaluate`."""

import sys

from pushpop.errors import InputError


def evaluate(
    model: str,
    lengths: str = "65-128",
    sequences: int = 1000,
    seed: int = 0,
    task: str = "",
    checkpoint: str = "",
    save: bool = False,
) -> None:
    """Print coarse and fine accuracy of a trained model.

    Args:
        model: a run directory (if the run is not finished, its latest checkpoint), or a saved model
        lengths: shortest and longest source, as in 65-128, or lengths one by one, as in 64,128,256
        sequences: how many pairs are drawn for each
        seed: the same seed gives the same pairs
        task: the task to draw from; by default the one that the model was trained on
        checkpoint: a checkpoint of the run: best, latest, or after how many batches
        save: keep the figures in the run (lengths.json), for pushpop report; lengths one by one
    """
    from pushpop.evaluation import evaluate as accuracy
    from pushpop.experiments.lengths import check_saveable, save_length
    from pushpop.tasks import get_task, parse_lengths
    from pushpop.training.trained import load_trained

    ranges = [parse_lengths(part) for part in lengths.split(",")]
    if sequences < 1:
        raise InputError(f"{sequences} sequences asked for: expected at least 1")
    if save:
        check_saveable(model, ranges, task or checkpoint)
    warn = lambda text: print("pushpop:", text, file=sys.stderr)  # noqa: E731
    found = load_trained(model, task, warn, checkpoint)
    drawn = get_task(found.task)
    print(f"{found.what} on {drawn.name}, {sequences} sequences a row")
    print("  lengths  coarse    fine  perplexity")
    for low, high in ranges:
        row = accuracy(found.model, drawn, (low, high), sequences, seed=seed)
        name = f"{low}-{high}" if low < high else str(low)
        scores = f"{row['coarse']:6.3f}  {row['fine']:6.3f}  {row['perplexity']:10.4g}"
        print(f"{name:>9}  {scores}", flush=True)
        if save:
            save_length(model, row)
