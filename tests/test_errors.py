"""What is said of a file that cannot be read or written."""

from pathlib import Path

import pytest

from pushpop.errors import InputError, counted, reading, writing
from pushpop.files import write_file


def test_one_thing_is_no_plural() -> None:
    assert counted(1, "pair") == "1 pair"
    assert counted(2_000, "pair") == "2,000 pairs"


def test_a_file_that_cannot_be_read_is_named_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "gone"
    with pytest.raises(InputError, match=r"gone: cannot be read: No such file"), reading(path):
        path.read_bytes()
    path.write_bytes(b"\xff")
    with pytest.raises(InputError, match="gone: cannot be read: 'utf-8' codec"), reading(path):
        path.read_text("utf-8")


def test_a_file_that_cannot_be_written_is_named_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "gone" / "file"
    told = pytest.raises(InputError, match=r"file: cannot be written: No such file.*; kept$")
    with told, writing(path, "; kept"):
        write_file(path, b"")


def test_what_was_found_wrong_inside_is_passed_on(tmp_path: Path) -> None:
    for context in (reading(tmp_path), writing(tmp_path)):
        with pytest.raises(InputError, match=r"^mine$"), context:
            raise InputError("mine")
