"""Run directories that nobody trained, with figures that are easy to follow."""

import json
from pathlib import Path
from typing import Any

from pushpop.training import TrainConfig

SIZES = {"hidden": 256, "memory_width": 256}


def tested(train: float, test: float) -> dict[str, Any]:
    """Accuracies as a log has them; fine is half way from coarse to 1."""

    def found(low: int, high: int, coarse: float) -> dict[str, Any]:
        fine = (1 + coarse) / 2
        figures = {"coarse": coarse, "fine": fine, "perplexity": 1.5}
        return {"lengths": [low, high], "sequences": 1000, **figures}

    return {"train": found(8, 64, train), "test": found(65, 128, test)}


def fabricate(
    folder: Path,
    curve: list[tuple[float, float, float]],
    *,
    finished: bool = True,
    kept: int | None = None,
    lengths: dict[int, float] | None = None,
    **options: Any,
) -> Path:
    """A run with a test every 1,000 batches: (perplexity, train coarse, test coarse) each."""
    steps = 1000 * (len(curve) + (not finished))
    config = TrainConfig.from_dict({**SIZES, "steps": steps, **options})
    folder.mkdir(parents=True)
    lines = []
    for number, (perplexity, train, test) in enumerate(curve, 1):
        head = {"step": 1000 * number, "perplexity": perplexity, "learning_rate": 0.001}
        lines.append({**head, "longest": 64, **tested(train, test)})
    _write(folder / "training.json", config.to_dict())
    _write(folder / "environment.json", {"pushpop": "0.1.0", "torch": "2.13.0", "threads": 1})
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    kept = kept or 1000 * len(curve)
    if finished:
        perplexity, train, test = curve[kept // 1000 - 1]
        head = {"stopped_by": "steps", "step": steps, "kept_step": kept, "seconds": 60.0}
        _write(folder / "report.json", {**head, "perplexity": perplexity, **tested(train, test)})
    if lengths:
        rows = [{"length": n, "coarse": c, "fine": (1 + c) / 2} for n, c in lengths.items()]
        _write(folder / "lengths.json", {"step": kept, "rows": rows})
    return folder


def _write(path: Path, data: Any) -> None:
    path.write_text(json.dumps(data))
