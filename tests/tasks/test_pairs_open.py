"""Files of pairs that are packed, or have commas: what is read, and what every mistake is told."""

import gzip
from pathlib import Path

import pytest

from pushpop.errors import InputError
from pushpop.tasks import get_task
from pushpop.tasks.pairs_file import PairsFile, PairsOptions
from pushpop.tasks.pairs_text import (
    BadLine,
    count_lines,
    is_pairs_file,
    lines_of,
    read_blocks,
    stem_of,
)

GOOD = b"cat\tk ae t\ndog\td o g\nax\tae k s\n"


def read(folder: Path, name: str, data: bytes, **options: object) -> PairsFile:
    path = folder / name
    path.write_bytes(data)
    return PairsFile(path, PairsOptions(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "is_one", "stem"),
    [
        ("words.tsv", True, "words"),
        ("a/words.txt", True, "words"),
        ("words.TSV", True, "words"),
        ("words.tsv.gz", True, "words"),
        ("words.csv", True, "words"),
        ("words.csv.GZ", True, "words"),
        ("words.gz", False, "words"),
        ("words.json", False, "words"),
        ("my.words.tab", True, "my.words"),
        ("copy", False, "copy"),
    ],
)
def test_a_file_of_pairs_is_known_by_its_ending(name: str, is_one: bool, stem: str) -> None:
    assert (is_pairs_file(name), stem_of(name)) == (is_one, stem)


def test_a_packed_file_is_read_as_the_file_in_it(tmp_path: Path) -> None:
    plain = read(tmp_path, "pairs.tsv", GOOD)
    packed = read(tmp_path, "pairs.tsv.gz", gzip.compress(GOOD[:20]) + gzip.compress(GOOD[20:]))
    assert packed.pairs == plain.pairs
    assert packed.digest != plain.digest  # that of the file
    assert read(tmp_path, "other.tsv", gzip.compress(GOOD)).pairs == plain.pairs
    assert count_lines(tmp_path / "pairs.tsv.gz", 100) == 3
    assert count_lines(tmp_path / "pairs.tsv.gz", 2) == 2
    assert count_lines(tmp_path / "gone.tsv", 2) == 0


PACKED = gzip.compress(GOOD * 1000)
BROKEN = {
    "cut off": PACKED[:-20],
    "cut off in the header": PACKED[:5],
    "damaged": PACKED[:40] + bytes([PACKED[40] ^ 255]) + PACKED[41:],
    "wrong sum": PACKED[:-8] + b"\0\0\0\0" + PACKED[-4:],
    "rubbish after it": PACKED + b"rubbish",
}


@pytest.mark.parametrize("data", BROKEN.values(), ids=BROKEN)
def test_a_broken_packed_file_is_named(data: bytes, tmp_path: Path) -> None:
    for skip_bad in (False, True):
        with pytest.raises(InputError, match=r"pairs\.tsv\.gz: a gzip file that is cut off or dam"):
            read(tmp_path, "pairs.tsv.gz", data, skip_bad=skip_bad)


def test_a_name_that_promises_a_packed_file_is_held_to_it(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"pairs\.tsv\.gz: its name ends in \.gz, and it is no"):
        read(tmp_path, "pairs.tsv.gz", GOOD)
    with pytest.raises(InputError, match="the file is empty"):
        read(tmp_path, "pairs.tsv.gz", gzip.compress(b""))
    with pytest.raises(InputError, match="a zip file or a spreadsheet"):
        read(tmp_path, "pairs.tsv.gz", gzip.compress(b"PK\x03\x04"))


def test_a_packed_line_without_end_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "bomb.tsv.gz"
    path.write_bytes(gzip.compress(b"a" * 50_000_000))
    blocks = read_blocks(path)
    (_, _, found), *_ = next(lines_of(blocks))
    assert isinstance(found, BadLine)
    assert found.what.startswith("more than 100,000 characters")


def test_lines_are_the_same_however_they_arrive() -> None:
    data = b"\xef\xbb\xbfone\r\n\ntwo\nthree\xff\nlast"
    whole = [line for lines in lines_of([data]) for line in lines]
    pieces = [data[k : k + 1] for k in range(len(data))]
    assert [line for lines in lines_of(pieces) for line in lines] == whole
    bad = BadLine(6, "byte 0xff at offset 18 is not UTF-8")
    assert whole == [(1, 3, "one"), (2, 8, ""), (3, 9, "two"), (4, 13, bad), (5, 20, "last")]


def test_a_line_that_is_too_long_is_one_bad_line() -> None:
    data = [b"a" * 60_000] * 5 + [b"a\nb\n"]
    whole = [line for lines in lines_of(data) for line in lines]
    assert [number for number, *_ in whole] == [1, 2]
    assert whole[1] == (2, 300_002, "b")


def test_a_program_is_not_taken_for_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="many of its bytes are 0: not text"):
        read(tmp_path, "pairs.tsv", b"\x7fELF\r" + bytes(range(4)) * 10 + bytes(400))


def test_commas_separate_columns_by_the_rules_of_csv(tmp_path: Path) -> None:
    data = b'a,x y\n"b, c",z\n"say ""d""",w\n'
    file = read(tmp_path, "pairs.csv", data, source_symbols="chars")
    assert ["".join(source) for source, _ in file.pairs] == ["a", "b, c", 'say "d"']
    assert file.describe().endswith("; the first line is a pair (a, x y)")
    features = read(tmp_path, "pairs.csv", b"go,went,V;PST\nox,oxen,N;PL\n")
    assert features.form.features
    packed = read(tmp_path, "p.csv.gz", gzip.compress(data), source_symbols="chars")
    assert packed.pairs == file.pairs


@pytest.mark.parametrize("header", [b"source,target\n", b'"Input","Output"\n', b"src, tgt\n"])
def test_a_header_of_names_is_no_pair_and_that_is_said(header: bytes, tmp_path: Path) -> None:
    file = read(tmp_path, "pairs.csv", header + b"a,x\nb,y\n")
    assert len(file.pairs) == 2
    assert "; the first line is a header (" in file.describe()
    tabs = header.replace(b", ", b",").replace(b",", b"\t").replace(b'"', b"")
    file = read(tmp_path, "pairs.tsv", tabs + b"a\tx\nb\ty\n")
    assert len(file.pairs) == 2
    assert "; the first line is a header (" in file.describe()


def test_pairs_of_a_program_have_no_header() -> None:
    file = PairsFile("pairs.tsv", PairsOptions(columns="1,2"), b"source\ttarget\na\tx\n")
    assert len(file.pairs) == 2


def test_columns_are_found_by_the_names_in_the_first_line(tmp_path: Path) -> None:
    data = b"id,Plural,Singular\n1,oxen,ox\n2,cats,cat\n"
    file = read(tmp_path, "pairs.csv", data, columns="singular, plural")
    assert [("".join(s), "".join(t)) for s, t in file.pairs] == [("ox", "oxen"), ("cat", "cats")]
    assert "; the first line is a header (id, Plural, Singular)" in file.describe()
    tabs = read(tmp_path, "p.tsv", data.replace(b",", b"\t"), columns="singular,plural")
    assert tabs.pairs == file.pairs
    with pytest.raises(InputError, match=r"pairs.csv:1: .*no 'plurals'; did you mean 'plural'"):
        read(tmp_path, "pairs.csv", data, columns="singular,plurals")
    with pytest.raises(InputError, match="only a header"):
        read(tmp_path, "pairs.csv", b"a,b\n", columns="a,b")


def test_other_first_lines_are_pairs_and_that_is_said_too(tmp_path: Path) -> None:
    file = read(tmp_path, "pairs.csv", b"word,sound\na,x\n")
    assert len(file.pairs) == 2
    assert "; the first line is a pair (word, sound)" in file.describe()


BAD_ROWS = {
    "one column": (b"cat", ":3:4: 1 column, expected 2"),
    "three columns": (b"cat,k,x", ":3:7: 3 columns, expected 2"),
    "a comma in quotes": (b'"c,at",k,x', ":3:10: 3 columns, expected 2"),
    "quotes in quotes": (b'"c"",""at",', ":3:12: the target is empty"),
    "empty source": (b",k", ":3:1: the source is empty"),
    "quotes around nothing": (b'cat,""', ":3:5: the target is empty"),
    "a quote that stays open": (b'cat,"k', ":3:5: a quote that is not closed in its line"),
    "a quote in the middle": (b'k",cat', ":3:2: a quote in a field that does not begin with one"),
    "text after a quote": (b'"cat"s,k', ":3:5: ',' expected after '\"'"),
    "latin-1": (b"caf\xe9,k", ":3:4: byte 0xe9 at offset 11 is not UTF-8"),
}


@pytest.mark.parametrize(("row", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_is_named_or_skipped(row: bytes, message: str, tmp_path: Path) -> None:
    data = b"a,x\nb,y\n" + row + b"\nc,z\n"
    with pytest.raises(InputError) as caught:
        read(tmp_path, "pairs.csv", data)
    assert f"pairs.csv{message}" in str(caught.value)
    file = read(tmp_path, "pairs.csv", data, skip_bad=True)
    assert len(file.pairs) == 3


@pytest.mark.parametrize(
    ("data", "other"), [(b"a;x\nb;y\n", "semicolons"), (b"a\tx\nb\ty\n", "tabs")]
)
def test_another_separator_than_commas_is_named(data: bytes, other: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f":1: no comma, but {other}; expected source, comma"):
        read(tmp_path, "pairs.csv", data)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("there.json", "there.json: a file; expected a task (pushpop tasks lists them)"),
        ("there.json", "whose name ends in .tsv, .txt, .tab, .csv (or one of them with .gz)"),
        ("gone.json", "gone.json: no such file; expected a task"),
        ("folder", "folder: a directory; expected a task"),
        ("pairs.tsv", "pairs.tsv: a file of pairs, expected a task to draw from"),
        ("revrese", "unknown task 'revrese'; did you mean 'reverse'?"),
    ],
)
def test_a_file_where_a_task_is_wanted_is_told_what_it_is(
    name: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.json").write_text("{}")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError) as caught:
        get_task(name)
    assert message in str(caught.value)
