"""Files of pairs: what is read, how it is guessed, and what every mistake is answered with."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pushpop.errors import InputError
from pushpop.tasks.lines import LinesFile
from pushpop.tasks.pairs_file import PairsFile, PairsOptions
from pushpop.tasks.pairs_text import TextForm, count_lines

GOOD = b"cat\tk ae t\ndog\td o g\nax\tae k s\n"


def read(folder: Path, data: bytes, **options: object) -> PairsFile:
    path = folder / "pairs.tsv"
    path.write_bytes(data)
    return PairsFile(path, PairsOptions(**options))  # type: ignore[arg-type]


def texts(file: PairsFile) -> list[tuple[str, str]]:
    return [(" ".join(source), " ".join(target)) for source, target in file.pairs]


def test_letters_on_one_side_and_spaced_symbols_on_the_other_are_guessed(tmp_path: Path) -> None:
    file = read(tmp_path, GOOD)
    assert file.form == TextForm("chars", "spaces")
    assert texts(file) == [("c a t", "k ae t"), ("d o g", "d o g"), ("a x", "ae k s")]
    assert file.describe().endswith(
        "pairs.tsv: 3 pairs; source in column 1, target in column 2; source: characters, target: "
        "space-separated symbols; NFC"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"\xef\xbb\xbf" + GOOD,
        GOOD.replace(b"\n", b"\r\n"),
        GOOD.rstrip(b"\n"),
        b"\n\n" + GOOD.replace(b"\n", b"\n \n\n"),
        GOOD.replace(b"cat\t", b"  cat \t  "),
        GOOD.replace(b"k ae t", b"k  ae   t"),
    ],
    ids=["bom", "crlf", "no last newline", "blank lines", "spaces at the ends", "several spaces"],
)
def test_what_does_not_matter_changes_nothing(data: bytes, tmp_path: Path) -> None:
    assert read(tmp_path, data).pairs == read(tmp_path, GOOD).pairs


def test_there_are_no_quotes_and_no_comments(tmp_path: Path) -> None:
    file = read(tmp_path, b'"a"\tx\n#b\t"\n')
    assert texts(file) == [('" a "', "x"), ("# b", '"')]


def test_a_space_inside_a_side_of_characters_is_a_symbol(tmp_path: Path) -> None:
    file = read(tmp_path, b"new york\tny\nrome\tr\nbern\tb\n")
    assert file.pairs[0][0] == list("new york")


def test_sides_are_read_as_told(tmp_path: Path) -> None:
    file = read(tmp_path, GOOD, source_symbols="spaces", target_symbols="chars")
    assert file.pairs[0] == (["cat"], ["k", " ", "a", "e", " ", "t"])


def test_features_are_symbols_before_the_source(tmp_path: Path) -> None:
    file = read(tmp_path, b"go\twent\tV;PST\nox\toxen\tN;PL\n")
    assert file.form.features
    assert file.pairs[0] == (["<V>", "<PST>", "g", "o"], list("went"))
    assert "features in column 3" in file.describe()


def test_a_column_of_features_is_found_in_the_middle(tmp_path: Path) -> None:
    file = read(tmp_path, b"go\tV;PST\twent\nox\tN;PL\toxen\n")
    assert file.pairs[1] == (["<N>", "<PL>", "o", "x"], list("oxen"))


def test_columns_are_taken_as_told(tmp_path: Path) -> None:
    file = read(tmp_path, b"1\twent\tgo\tV\n2\toxen\tox\tN\n", columns="3,2,4")
    assert file.pairs[0] == (["<V>", "g", "o"], list("went"))


def test_a_third_column_without_lists_is_left_alone(tmp_path: Path) -> None:
    assert texts(read(tmp_path, b"a\tx\tseen\nb\ty\tnew\n")) == [("a", "x"), ("b", "y")]


def test_text_is_brought_into_the_form_asked_for(tmp_path: Path) -> None:
    data = "e\u0301\t\ufb01\n".encode()
    assert read(tmp_path, data).pairs == [(["\u00e9"], ["\ufb01"])]
    assert read(tmp_path, data, normalise="nfkc").pairs == [(["\u00e9"], ["f", "i"])]
    assert read(tmp_path, data, normalise="none").pairs == [(["e", "\u0301"], ["\ufb01"])]


BAD_ROWS = {
    "one column": (b"cat", ":4:4: 1 column, expected 2"),
    "three columns": (b"cat\tk ae t\tx", ":4:12: 3 columns, expected 2"),
    "a tab at the end": (b"cat\tk ae t\t", ":4:12: 3 columns, expected 2"),
    "a tab at the start": (b"\tcat\tk ae t", ":4:6: 3 columns, expected 2"),
    "empty source": (b"\tk ae t", ":4:1: the source is empty"),
    "empty target": (b"cat\t", ":4:5: the target is empty"),
    "source of spaces": (b"  \tk ae t", ":4:1: the source is empty"),
    "target of spaces": (b"cat\t   ", ":4:5: the target is empty"),
    "only tabs": (b"\t", ":4:1: the source is empty"),
    "latin-1": (b"caf\xe9\tk", ":4:4: byte 0xe9 at offset 34 is not UTF-8"),
    "cut-off utf-8": (b"cat\tk \xc3", ":4:7: byte 0xc3 at offset 37 is not UTF-8"),
    "overlong utf-8": (b"c\xc0\xaft\tk", ":4:2: byte 0xc0"),
    "surrogate": (b"c\xed\xa0\x80\tk", ":4:2: byte 0xed"),
    "bad byte after letters of two bytes": ("éé".encode() + b"\xff\tk", ":4:3: byte 0xff"),
    "nul": (b"ca\x00t\tk", ":4:3: a NUL character (U+0000)"),
    "bell": (b"cat\tk\x07", ":4:6: a control character (U+0007)"),
    "escape": (b"\x1b[1mcat\tk", ":4:1: a control character (U+001B)"),
    "delete": (b"cat\x7f\tk", ":4:4: a control character (U+007F)"),
    "c1 control": ("cat\x85\tk".encode(), ":4:4: a next-line character (U+0085)"),
    "vertical tab": (b"cat\x0b\tk", ":4:4: a control character (U+000B)"),
    "carriage return inside": (b"cat\rdog\tk", ":4:4: a carriage return inside a line (U+000D)"),
    "line separator": ("cat\u2028\tk".encode(), ":4:4: a line separator (U+2028)"),
    "bom in the middle": ("\ufeffcat\tk".encode(), ":4:1: a byte order mark inside the text"),
    "replacement character": ("c\ufffdt\tk".encode(), ":4:2: a replacement character"),
    "noncharacter": ("cat\uffff\tk".encode(), ":4:4: a character that does not exist"),
    "too long": (
        b"a" * 100_001 + b"\tk",
        ":4:100001: 100,003 characters, expected at most 100,000",
    ),
}


@pytest.mark.parametrize(("row", "message"), BAD_ROWS.values(), ids=BAD_ROWS)
def test_a_bad_row_is_named_with_line_and_column_or_skipped(
    row: bytes, message: str, tmp_path: Path
) -> None:
    data = GOOD + row + b"\nend\te n d\n"
    with pytest.raises(InputError) as caught:
        read(tmp_path, data)
    assert f"pairs.tsv{message}" in str(caught.value)
    file = read(tmp_path, data, skip_bad=True)
    assert len(file.pairs) == 4
    assert "1 bad row skipped" in file.describe_skipped()
    assert message in file.describe_skipped()


BAD_FEATURES = {
    "empty": (b"be\twas\t", ":3:8: the features are empty"),
    "an empty one": (b"be\twas\tV;;PST", ":3:10: an empty feature in 'V;;PST'"),
    "an empty one at the end": (b"be\twas\tV;", ":3:10: an empty feature"),
    "a space": (b"be\twas\tV; PST", ":3:10: a space in the feature ' PST'"),
    "missing": (b"be\twas", ":3:7: 2 columns, expected 3"),
}


@pytest.mark.parametrize(("row", "message"), BAD_FEATURES.values(), ids=BAD_FEATURES)
def test_bad_features_are_named(row: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, b"go\twent\tV;PST\nox\toxen\tN;PL\n" + row)
    assert f"pairs.tsv{message}" in str(caught.value)


BAD_FILES = {
    "empty": (b"", "the file is empty"),
    "blank lines": (b"\n\n  \n", "only blank lines"),
    "only a bom": (b"\xef\xbb\xbf", "only blank lines"),
    "utf-16": ("a\tb\n".encode("utf-16"), "UTF-16 text; save it as UTF-8"),
    "utf-16 without bom": (("ab\tb\n" * 40).encode("utf-16-le"), "as in UTF-16; save it as UTF-8"),
    "gzip": (b"\x1f\x8b\x08\x00rest", "a gzip file that is cut off or damaged"),
    "spreadsheet": (b"PK\x03\x04rest", "export it as tab-separated text"),
    "cr alone": (b"a\tb\rc\td\r", ":1: lines end with CR alone"),
    "commas": (b"a,b\nc,d\n", ":1: no tab, but commas; expected source, tab, target"),
    "semicolons": (b"a;b\nc;d\n", ":1: no tab, but semicolons"),
    "spaces": (b"a  b\nc  d\n", ":1: no tab, but several spaces"),
    "bars": (b"a ||| b\nc ||| d\n", ":1: no tab, but '|||'"),
    "words": (b"a\nb\n", ":1: no tab; expected source, tab, target"),
}


@pytest.mark.parametrize(("data", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_a_file_that_is_no_file_of_pairs_is_refused(
    data: bytes, message: str, tmp_path: Path
) -> None:
    for skip_bad in (False, True):
        with pytest.raises(InputError) as caught:
            read(tmp_path, data, skip_bad=skip_bad)
        assert "pairs.tsv" in str(caught.value)
        assert message in str(caught.value)


def test_a_file_that_is_not_there_or_not_readable_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.tsv: cannot be read: No such file"):
        PairsFile(tmp_path / "gone.tsv")
    with pytest.raises(InputError, match="a directory, expected a file of pairs"):
        PairsFile(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        PairsFile("nul\0name.tsv")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_a_named_pipe_is_refused_rather_than_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pairs.tsv")
    with pytest.raises(InputError, match=r"pairs\.tsv: a pipe or a device, expected a file"):
        PairsFile(tmp_path / "pairs.tsv")
    with pytest.raises(InputError, match=r"pairs\.tsv: a pipe or a device, expected a file"):
        LinesFile(tmp_path / "pairs.tsv")
    assert count_lines(tmp_path / "pairs.tsv", 10) == 0


def test_lists_that_spaces_split_into_symbols_that_hardly_recur_are_told(tmp_path: Path) -> None:
    rows = [f"{day}, {year};\t{year}-{day:02}" for year in range(1900, 1960) for day in range(9)]
    (told,) = read(tmp_path, "\n".join(f"{row} x{row}" for row in rows).encode()).describe_one_off()
    assert "different symbols among" in told
    assert "--target-symbols chars" in told
    again = "\n".join(rows).encode()
    assert not read(tmp_path, again, source_symbols="spaces").describe_one_off()
    words = "\n".join(f"{n % 7} w{n % 50} w{n % 31}\tv{n % 50} v{n % 31}" for n in range(500))
    assert not read(tmp_path, words.encode()).describe_one_off()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_without_permission_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_bytes(GOOD)
    path.chmod(0)
    with pytest.raises(InputError, match="cannot be read: Permission denied"):
        PairsFile(path)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("1", "columns is '1', expected the numbers of the source and the target"),
        ("0,1", "columns is '0,1', expected"),
        ("a,b", "columns is 'a,b', expected"),
        ("1,2,3,4", "columns is '1,2,3,4', expected"),
        ("-1,2", "columns is '-1,2', expected"),
        ("2,2", "columns is '2,2': the same column twice"),
        ("1,5", "pairs.tsv:1:11: no column 5; the line has 2"),
    ],
)
def test_columns_that_cannot_be_are_refused(columns: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, GOOD, columns=columns)
    assert message in str(caught.value)


def test_a_file_with_nothing_but_bad_rows_is_refused_even_if_they_are_skipped(
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError, match=r"no good row; the first: .*:1:1: the source is empty"):
        read(tmp_path, b"\tx\n\ty\n", skip_bad=True)
    with pytest.raises(InputError, match="no good row"):
        read(tmp_path, b"\x00\n\x01\n", skip_bad=True)


@given(st.binary(max_size=200))
def test_no_bytes_lead_to_anything_but_pairs_or_an_input_error(data: bytes) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        try:
            file = read(Path(folder), data, skip_bad=True)
        except InputError:
            return
        assert all(source and target for source, target in file.pairs)


@given(
    st.lists(
        st.tuples(*[st.text("abñé ", min_size=1).filter(lambda text: text.strip(" "))] * 2),
        min_size=1,
    )
)
def test_pairs_of_characters_come_back(pairs: list[tuple[str, str]]) -> None:
    from tempfile import TemporaryDirectory

    data = "".join(f"{source}\t{target}\n" for source, target in pairs).encode()
    with TemporaryDirectory() as folder:
        file = read(Path(folder), data, source_symbols="chars", target_symbols="chars")
    assert [(file.form.target_text(s), file.form.target_text(t)) for s, t in file.pairs] == [
        (source.strip(" "), target.strip(" ")) for source, target in pairs
    ]
