"""A file is replaced whole."""

from pathlib import Path

from pushpop.files import write_file


def test_a_file_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    for data in (b"old", b"new"):
        write_file(path, data)
        assert path.read_bytes() == data
    assert list(tmp_path.iterdir()) == [path]
