"""A file of pairs on the command line: train, transduce, evaluate, export, and every mistake."""

import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from pushpop import Transducer
from pushpop.cli import main

ROWS = [(f"{n:04b}", " ".join(f"{n:04b}".replace("0", "a").replace("1", "b"))) for n in range(16)]
DATA = "".join(f"{source}\t{target}\n" for source, target in ROWS).encode()
SMALL = "--embedding 8 --hidden 8 --memory-width 4 --epochs 2 --batch-size 4".split()  # noqa: SIM905


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    (folder / "pairs.tsv").write_bytes(DATA)
    main(["train", str(folder / "pairs.tsv"), "--run", str(folder / "run"), *SMALL])
    return folder / "run"


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> Callable[[bytes], None]:
    def give(data: bytes) -> None:
        stdin = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stdin)

    return give


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    printed = capsys.readouterr()
    assert left.value.code == 2
    assert printed.err.count("\n") == 1
    assert "Traceback" not in printed.err
    return printed.err


def test_training_says_how_the_file_was_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mine.tsv"
    path.write_bytes(DATA)
    main(["train", str(path), "--run", str(tmp_path / "run"), *SMALL, "--epochs", "1"])
    printed = capsys.readouterr().out
    assert "mine.tsv: 16 pairs; source in column 1, target in column 2" in printed
    assert "no --valid given: 2 pairs are held out to validate on, 14 are trained on" in printed
    assert "valid accuracy" in printed


def test_lines_are_answered_in_order_and_blank_lines_stay(
    run: Path, typed: Callable[[bytes], None], capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(sys.modules["pushpop.commands.transduce"], "AT_ONCE", 2)
    capsys.readouterr()
    typed(b"\xef\xbb\xbf0101\r\n\n  \n11\n0\n1010")
    main(["transduce", str(run)])
    lines = capsys.readouterr().out.split("\n")
    model = Transducer.from_pretrained(run)
    first, second, third, last = model.transduce(["0101", "11", "0", "1010"])
    assert lines == [first, "", "", second, third, last, ""]


def test_several_predictions_come_as_tsv_with_their_scores(
    run: Path, typed: Callable[[bytes], None], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    typed(b"0101\n\n11\n")
    main(["transduce", str(run), "--nbest", "3"])
    rows = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [row[0] for row in rows] == ["0101"] * 3 + [""] + ["11"] * 3
    scores = [float(row[2]) for row in rows[:3]]
    assert scores == sorted(scores, reverse=True)
    found = Transducer.from_pretrained(run).decode(["0101"], beam=3, nbest=3)[0]
    assert scores == pytest.approx([one.score for one in found], abs=1e-3)


def test_unknown_symbols_are_counted_on_stderr(
    run: Path, typed: Callable[[bytes], None], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    typed("01ñ\nññ\n".encode())
    main(["transduce", str(run)])
    printed = capsys.readouterr()
    assert len(printed.out.splitlines()) == 2
    assert printed.err == "pushpop: 3 symbols are unknown to the model: 'ñ' (3)\n"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"0\xff1", "standard input:2:2: byte 0xff at offset 6 is not UTF-8"),
        (b"0\x001", "standard input:2:2: a NUL character"),
        (b"01\t11", "standard input:2: '01\\t11': a tab"),
    ],
)
def test_a_bad_line_is_named_after_the_good_ones_are_answered(
    line: bytes,
    message: str,
    run: Path,
    typed: Callable[[bytes], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    typed(b"0101\n" + line + b"\n")
    assert message in refused(capsys, "transduce", str(run))


def test_predictions_are_made_on_one_thread_unless_more_are_asked_for(
    run: Path, typed: Callable[[bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []
    decode = Transducer.decode

    def watched(*arguments: Any, **options: Any) -> Any:
        used.append(torch.get_num_threads())
        return decode(*arguments, **options)

    monkeypatch.setattr(Transducer, "decode", watched)
    before = torch.get_num_threads()
    typed(b"0110\n")
    main(["transduce", str(run)])
    typed(b"0110\n")
    main(["transduce", str(run), "--threads", "2"])
    main(["evaluate", str(run), str(run.parent / "pairs.tsv")])
    assert used == [1, 2, 1]
    assert torch.get_num_threads() == before


def test_transduce_refuses_what_makes_no_sense(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "beam is '0'" in refused(capsys, "transduce", str(run), "--beam", "0")
    assert "no such folder" in refused(capsys, "transduce", str(tmp_path / "gone"))


def test_a_file_is_evaluated(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pairs = str(run.parent / "pairs.tsv")
    capsys.readouterr()
    main(["evaluate", str(run), pairs, "--worst", "2"])
    printed = capsys.readouterr().out
    assert "16 pairs" in printed
    for name in ("accuracy", "word error rate", "symbol error rate", "without memory"):
        assert name in printed
    assert "\nlength " in printed
    assert len(printed.split("worst: source, target, prediction\n")[1].splitlines()) == 2
    main(["evaluate", str(run), pairs, "--as-json"])
    figures = json.loads(capsys.readouterr().out)
    assert figures == Transducer.from_pretrained(run).score(ROWS)


def test_evaluate_wants_pairs_of_the_models_kind(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "was trained on a file: expected pairs" in refused(capsys, "evaluate", str(run))
    path = tmp_path / "test.tsv"
    path.write_text("go\twent\tV;PST\nbe\twas\tV;PST\n")
    assert "expected no features" in refused(capsys, "evaluate", str(run), str(path))
    path.write_text("01\n")
    assert "test.tsv:1: no tab" in refused(capsys, "evaluate", str(run), str(path))


BAD_FILES = {
    "missing": (None, "cannot be read: No such file"),
    "empty": (b"", "the file is empty"),
    "one column": (b"a\tx\nb\n", ":2:2: 1 column, expected 2"),
    "empty side": (b"a\tx\nb\t\n", ":2:3: the target is empty"),
    "not utf-8": (b"a\tx\n\xe9\ty\n", ":2:1: byte 0xe9 at offset 4 is not UTF-8"),
    "control character": (b"a\tx\nb\x07\ty\n", ":2:2: a control character (U+0007)"),
    "gzip": (b"\x1f\x8b\x08", "a gzip file"),
    "one pair": (b"a\tx\n", "1 pair: expected at least 2"),
}


@pytest.mark.parametrize(("data", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_bad_file_is_one_line_and_exit_code_2(
    data: bytes | None, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pairs.tsv"
    if data is not None:
        path.write_bytes(data)
    told = refused(capsys, "train", str(path), "--run", str(tmp_path / "run"), *SMALL)
    assert "pairs.tsv" in told
    assert message in told
    assert not (tmp_path / "run").exists()


def test_export_wants_a_file_in_a_folder_that_is_there(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "expected --onnx FILE" in refused(capsys, "export", str(run))
    gone = str(tmp_path / "gone" / "step.onnx")
    assert "no such folder" in refused(capsys, "export", str(run), "--onnx", gone)


def test_export_says_where_the_graphs_are_and_nothing_else(run: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxscript")
    path = tmp_path / "step.onnx"
    command = [sys.executable, "-m", "pushpop", "export", str(run), "--onnx", str(path)]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert told.stdout == f"{path}\n{tmp_path / 'step-source.onnx'}\n"
    assert told.stderr == ""
