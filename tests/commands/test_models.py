"""`pushpop models`, and shipped models by name."""

import json
import subprocess
import sys

import pytest

from pushpop import Transducer
from pushpop.cli import main
from pushpop.errors import InputError
from pushpop.models.saving import shipped_models


def test_every_model_is_listed_with_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    main(["models"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    rows = {line.split()[0]: line.split() for line in lines[1 : lines.index("")]}
    assert list(rows) == list(shipped_models())
    row = ["reverse-stack", "reverse", "stack", "lstm", "96", "123,970", "497", "pushpop"]
    assert rows["reverse-stack"] == [*row, "1.000", "1.000"]
    for use in ("pushpop transduce reverse-stack", 'from_pretrained("reverse-stack")'):
        assert any(use in line for line in lines)


def test_as_json_it_is_the_models_own_figures(capsys: pytest.CaptureFixture[str]) -> None:
    main(["models", "--as-json"])
    (one,) = (each for each in json.loads(capsys.readouterr().out) if each["name"] == "flip-queue")
    model = Transducer.from_pretrained("flip-queue")
    report = model.metadata["report"]
    assert one["parameters"] == sum(each.numel() for each in model.parameters())
    for part in ("train", "test"):
        assert one[part] == {key: report[part][key] for key in ("lengths", "coarse", "fine")}
    assert one["made_by"] == "pushpop train flip --memory queue --recipe pushpop --seed 10"


def test_the_list_comes_without_torch() -> None:
    code = """
import sys
from pushpop.cli import main
main(["models"])
assert not {"torch", "numba"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_folder_goes_before_a_name_and_no_name_is_no_folder() -> None:
    model = Transducer.from_pretrained("reverse-stack")
    assert model.transduce(["a1 a2 a3"]) == ["a3 a2 a1"]
    with pytest.raises(InputError, match=r"reverse-stock: no such folder.*mean 'reverse-stack'"):
        Transducer.from_pretrained("reverse-stock")
    with pytest.raises(InputError, match=r"^x+: cannot be read: File name too long"):
        Transducer.from_pretrained("x" * 5000)
