"""A file is replaced whole. Text is UTF-8 whatever the locale is, and what a terminal cannot show
stops nothing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pushpop.files import write_file

LOCALES = {
    "C": {"LC_ALL": "C"},
    "C, no coercion": {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    "ASCII": {"PYTHONIOENCODING": "ascii"},
    "Windows": {"PYTHONIOENCODING": "cp1252"},
    "UTF-16": {"PYTHONIOENCODING": "utf-16"},
}


def environment(locale: dict[str, str]) -> dict[str, str]:
    ours = ("LC_ALL", "LANG", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONCOERCECLOCALE")
    return {**{k: v for k, v in os.environ.items() if k not in ours}, **locale}


def run(locale: dict[str, str], *args: str, given: bytes = b"") -> tuple[int, bytes, bytes]:
    command = [sys.executable, "-m", "pushpop.cli", *args]
    done = subprocess.run(
        command, input=given, capture_output=True, env=environment(locale), check=False
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def grammar(tmp_path: Path) -> Path:
    path = tmp_path / "vögel.itg"
    path.write_text("1/2 A -> ʔaː A[1] | A[1] 鳥\n1/2 A -> ende | fin\n", "utf-8")
    return path


@pytest.mark.parametrize("locale", LOCALES.values(), ids=LOCALES)
def test_files_and_output_are_utf_8(locale: dict[str, str], grammar: Path) -> None:
    code, out, err = run(locale, "sample", str(grammar), "-n", "1", "--lengths", "2")
    assert (code, out.decode(), err) == (0, "ʔaː ende ||| fin 鳥\n", b"")


@pytest.mark.parametrize("locale", LOCALES.values(), ids=LOCALES)
def test_a_mistake_is_told_in_any_locale(locale: dict[str, str], tmp_path: Path) -> None:
    code, out, err = run(locale, "sample", str(tmp_path / "größe-鳥.itg"))
    assert (code, out, err.count(b"\n")) == (2, b"", 1)
    assert "größe-鳥.itg: cannot be read".encode() in err


@pytest.mark.slow
def test_lines_are_utf_8_under_windows_encoding(tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"鳥{n:03b}\tʔ {n:03b}\n" for n in range(8)), "utf-8")
    sizes = "--embedding 4 --hidden 4 --memory-width 4 --epochs 1 --memory none"
    directory = str(tmp_path / "läufe")
    code, out, err = run(
        LOCALES["Windows"], "train", str(pairs), "--run", directory, *sizes.split()
    )
    assert code == 0, err
    assert f"run: {directory}".encode() in out
    given = "鳥010\n鴉é\n".encode()
    code, out, err = run(LOCALES["Windows"], "transduce", directory, given=given)
    assert (code, out.count(b"\n")) == (0, 2)
    out.decode()
    assert "'鴉' (1)".encode() in err


def test_a_terminal_that_cannot_show_a_character_shows_its_number(grammar: Path) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "pushpop.cli", "sample", str(grammar), "-n", "1"]
    process = subprocess.Popen(
        [*command, "--lengths", "2"], stdout=theirs, stderr=theirs,
        env=environment(LOCALES["Windows"]),
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    try:
        while block := os.read(ours, 1000):
            shown += block
    except OSError:  # the other side is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    shown = shown.removesuffix(b"\x1b[0m")  # colorama, where it is installed, ends with a reset
    assert shown == b"\\u0294a\\u02d0 ende ||| fin \\u9ce5\r\n"


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"old", b"new"):
        write_file(path, data)
        assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]
