"""`pushpop evaluate` on what takes long, or cannot be."""

import json
from pathlib import Path

import pytest
import torch

from pushpop import Transducer
from pushpop.cli import main
from pushpop.commands import models
from tests.commands.test_pairs import refused


def test_a_long_row_tells_how_far_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "SECONDS", 0)
    main(["evaluate", "reverse-stack", "--lengths", "2000", "--sequences", "9"])
    said = capsys.readouterr().err.splitlines()
    told = [line for line in said if "compiling" not in line]  # where the cache is cold
    assert len(told) == 3  # four sequences a pass
    assert told[0].startswith("pushpop: lengths 2000: 1 of about 3 passes, about ")


def test_rows_of_lengths_are_printed_as_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", "reverse-stack", "--lengths", "4,6-7", "--sequences", "3", "--as-json"])
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["lengths"] for row in rows] == [[4, 4], [6, 7]]
    assert {"coarse", "fine", "perplexity", "sequences"} <= set(rows[0])


def test_a_perplexity_that_is_hardly_a_number_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Transducer.from_pretrained("reverse-stack")
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(1e19)
    model.save_pretrained(tmp_path)
    arguments = ["evaluate", str(tmp_path), "--lengths", "4", "--sequences", "5"]
    said = refused(capsys, *arguments)
    assert f"{tmp_path}: the model's outputs are not numbers" in said
