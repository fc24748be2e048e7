"""Files of lines: an index is made in one pass, lines are read when they are needed."""

import gzip
from collections import Counter
from pathlib import Path

import pytest

from pushpop.errors import InputError
from pushpop.tasks import Vocabulary
from pushpop.tasks.lines import LinesData, LinesFile, encode_lines
from pushpop.tasks.pairs_file import PairsOptions, parse_columns


def written(folder: Path, text: str, name: str = "lines.txt") -> Path:
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


def lines_of(file: LinesFile) -> list[str]:
    return ["".join(file[row]) for row in range(len(file))]


@pytest.mark.parametrize("name", ["lines.txt", "lines.txt.gz"])
def test_lines_are_symbols_by_number_and_blank_ones_are_left_out(tmp_path: Path, name: str) -> None:
    file = LinesFile(written(tmp_path, "\ufeffC(=O)\r\n\n  \n äb \nz", name))
    assert lines_of(file) == ["C(=O)", "äb", "z"]
    assert file[0] == ["C", "(", "=", "O", ")"]
    assert file.lengths.tolist() == [5, 2, 1]
    assert file.alphabet == set("C(=O)äbz")
    assert file.describe() == f"{file.path}: 3 lines; characters, 8 different ones; NFC"


def test_symbols_between_spaces_are_recognised_or_told(tmp_path: Path) -> None:
    path = written(tmp_path, "the cat sat\nthe dog\n")
    assert LinesFile(path)[1] == ["the", "dog"]
    assert LinesFile(path, PairsOptions(target_symbols="chars"))[1] == list("the dog")


@pytest.mark.parametrize(
    ("name", "text", "column", "lines"),
    [
        ("mols.csv", 'SMILES,SPLIT\nCC,train\n"C,N",test\n', "1", ["CC", "C,N"]),
        ("mols.csv.gz", "SPLIT,SMILES\ntrain,CC\n", "2", ["CC"]),
        ("one.csv", "text\nCC\nN\n", "guess", ["CC", "N"]),
        ("one.csv", "CC\nN\n", "guess", ["CC", "N"]),
        ("some.tsv", "1\tCC\n2\tN\n", "2", ["CC", "N"]),
        ("mols.csv", "SPLIT,SMILES\ntrain,CC\ntest,N\n", "smiles", ["CC", "N"]),
        ("mols.tsv", "\ufeffid\tMy text\r\n1\tCC\r\n", "my text", ["CC"]),
        ("mols.smi", "CC ethane\nC#N\thydrogen cyanide\nN\n", "guess", ["CC", "C#N", "N"]),
    ],
)
def test_a_column_is_read(
    tmp_path: Path, name: str, text: str, column: str, lines: list[str]
) -> None:
    file = LinesFile(written(tmp_path, text, name), PairsOptions(column))
    assert lines_of(file) == lines
    assert ("header" in file.describe()) == ("SMILES" in text or "text" in text)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("CC\n\nN\tx\n", "guess", ":3: 2 columns, expected one, or --columns N"),
        ("CC\tN\nN\n", "2", ":2:2: no column 2; the line has 1"),
        ("CC\tN\n\tN\n", "1", ":2:1: column 1 is empty"),
        (
            "id\tsmiles\n1\tCC\n",
            "smile",
            r":1: columns is 'smile', .* \(id, smiles\): no 'smile'; did you mean 'smiles'\?",
        ),
        ("CC\nN\x07\n", "guess", r":2:2: a control character \(U\+0007\)"),
        ("\n \n", "guess", ": only blank lines, expected lines of text"),
        ("", "guess", ": the file is empty"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, column: str, message: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(InputError, match=f"^{path}{message}"):
        LinesFile(path, PairsOptions(column))


def test_a_line_without_a_molecule_is_named(tmp_path: Path) -> None:
    path = written(tmp_path, "CC ethane\n\t\n", "mols.smi")
    with pytest.raises(InputError, match=f"^{path}:2:1: only tabs, expected a molecule"):
        LinesFile(path)


def test_bad_lines_are_left_out_and_counted_if_wanted(tmp_path: Path) -> None:
    file = LinesFile(written(tmp_path, "CC\nN\x07\nO\n\x00\n"), PairsOptions(skip_bad=True))
    assert lines_of(file) == ["CC", "O"]
    assert file.describe_skipped() == (
        f"{file.path}: 2 bad lines skipped, the first: {file.path}:2:2: a control character "
        "(U+0007)"
    )


def test_a_line_with_a_symbol_that_is_not_known_is_named_or_left_out(tmp_path: Path) -> None:
    path = written(tmp_path, "ab\n\nbxa\nc\n")
    assert len(LinesFile(path, PairsOptions(alphabet=frozenset("abcx")))) == 3
    known = frozenset("abc")
    with pytest.raises(InputError, match=f"^{path}:3: unknown symbol 'x', which no line of train"):
        LinesFile(path, PairsOptions(alphabet=known))
    file = LinesFile(path, PairsOptions(skip_bad=True, alphabet=known))
    assert lines_of(file) == ["ab", "c"]
    assert "1 bad line skipped" in file.describe_skipped()
    with pytest.raises(InputError, match="no good line; "):
        LinesFile(path, PairsOptions(skip_bad=True, alphabet=frozenset("z")))


def test_an_epoch_has_every_line_once_and_batches_of_like_length(tmp_path: Path) -> None:
    lines = ["a" * (1 + 7 * n % 60) + "b" * (n % 3) for n in range(500)]
    file = LinesFile(written(tmp_path, "\n".join(lines)))
    rows = [row for row in range(500) if row % 5]
    vocabulary = Vocabulary((), ("a", "b"))
    data = LinesData(file, rows, vocabulary, batch_size=20)
    assert (len(data), data.batches_per_epoch) == (400, 20)
    for epoch in (0, 1):
        batches = [data.batch(3, 20 * epoch + k) for k in range(20)]
        seen = Counter(
            "".join(vocabulary.decode_output(column.tolist()))
            for batch in batches
            for column in batch.outputs.T
        )
        assert seen == Counter(lines[row] for row in rows)
        padding = sum(int((~batch.mask).sum()) for batch in batches)
        assert padding < 0.1 * sum(batch.mask.numel() for batch in batches)
    again = LinesData(file, rows, vocabulary, batch_size=20)
    assert again.batch(3, 27).inputs.equal(data.batch(3, 27).inputs)
    assert not again.batch(4, 27).inputs.equal(data.batch(3, 27).inputs)


def test_lines_are_targets_of_pairs_without_a_source(tmp_path: Path) -> None:
    file = LinesFile(written(tmp_path, "ab\nb\n"))
    pairs = encode_lines(file, [1, 0], Vocabulary((), ("a", "b")))
    assert pairs.source_lengths.tolist() == [0, 0]
    assert [target.tolist() for _, target in pairs] == [[1], [0, 1]]


def test_columns_have_numbers_from_one_or_names() -> None:
    assert parse_columns("2", lines=True) == ["2"]
    assert parse_columns(" SMILES", lines=True) == ["smiles"]
    for text in ("0", "1,2", "-1", ""):
        with pytest.raises(InputError, match=f"columns is '{text}', expected the number"):
            parse_columns(text, lines=True)
