"""The command line as a user meets it."""

import subprocess
import sys
from pathlib import Path

import pytest

from pushpop.cli import command_parser, main
from pushpop.commands import COMMANDS
from pushpop.commands.listing import EXAMPLES
from pushpop.tasks import TASKS, get_task


def run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pushpop", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_version_names_the_packages_that_compute() -> None:
    result = run("version")
    assert result.returncode == 0
    assert result.stdout.startswith("pushpop ")
    assert "torch 2." in result.stdout


def test_unknown_command_exits_2_without_traceback() -> None:
    result = run("frobnicate")
    assert result.returncode == 2
    assert "frobnicate" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("smaple copy", "invalid choice: 'smaple'"),
        ("smaple copy", "did you mean 'sample'?"),
        ("sample copy --lenths 8", "unrecognized arguments: --lenths 8; did you mean '--lengths'?"),
        ("sample copy --length 8", "unrecognized arguments: --length 8; did you mean"),
        ("sample copy -n many", "count is 'many', expected a whole number"),
        ("sample copy -n 1.5", "count is '1.5', expected a whole number"),
        ("sample copy more", "unrecognized arguments: more"),
        ("transduce copy --max-length x", "max_length is 'x', expected a whole number"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(arguments.split())
    printed = capsys.readouterr()
    assert (left.value.code, printed.out, printed.err.count("\n")) == (2, "", 1)
    assert message in printed.err


def test_without_a_command_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    main([])
    printed = capsys.readouterr()
    assert printed.out.startswith("usage: pushpop")
    assert "pushpop models" in printed.out
    assert printed.err == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("models > /dev/full", 2, "No space left"),
        ("models >&-", 0, ""),
        ("transduce reverse-stack </dev/null >&-", 2, "standard output is closed"),
        ("transduce reverse-stack <&-", 2, "standard input is closed"),
        ("transduce " + 300 * "a", 2, "File name too long"),
    ],
)
def test_what_the_system_refuses_is_one_line(command: str, code: int, said: str) -> None:
    line = f"{sys.executable} -m pushpop.cli {command}"
    result = subprocess.run(line, shell=True, capture_output=True, text=True, check=False)
    assert (result.returncode, "Traceback" in result.stderr) == (code, False), result.stderr
    assert said in result.stderr


def test_options_may_stand_between_the_arguments(tmp_path: Path) -> None:
    main(["trace", "reverse-stack", "-o", str(tmp_path / "trace.json"), "a1 a2"])
    assert (tmp_path / "trace.json").exists()


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_says_what_its_arguments_are(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main([command, "--help"])
    assert left.value.code == 0
    shown = capsys.readouterr().out
    for each in command_parser(command)._actions:
        assert each.help
        assert all(name in shown for name in each.option_strings)


def test_sample_prints_a_pair_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    main(["sample", "reverse", "-n", "7", "--lengths", "8-12"])
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 7
    for line in lines:
        source, target = (side.split() for side in line.split(" ||| "))
        assert 8 <= len(source) <= 12
        assert target == source[::-1]


def test_sample_of_the_same_seed_begins_with_the_same_pairs(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = []
    for options in (["-n", "3"], ["-n", "9"], ["-n", "3", "--seed", "1"]):
        main(["sample", "gender", "--lengths", "10", *options])
        printed.append(capsys.readouterr().out)
    assert printed[1].startswith(printed[0])
    assert printed[2] != printed[0]


def test_sample_reads_a_grammar_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.itg"
    path.write_text("1/2 A -> a A[1] | A[1] b\n1/2 A -> end | fin\n")
    main(["sample", str(path), "-n", "1", "--lengths", "3"])
    assert capsys.readouterr().out == "a a end ||| fin b b\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("revrese", "unknown task 'revrese'; did you mean 'reverse'?"),
        ("copy --lengths 12-8", "lengths 12-8: expected"),
        ("copy --lengths some", "lengths 'some': expected"),
        ("flip --lengths 9", "none is a multiple of 2"),
        ("gender --lengths 2-4", "gender has no source of length 2-4"),
        ("copy -n 0", "count is '0', expected a whole number of 1 or more"),
        ("copy -n many", "many"),
        ("copy --seed -1", "seed -1"),
        ("copy --lenths 8", "--lenths"),
        ("missing.itg", "missing.itg: cannot be read"),
        ("", "task"),
    ],
)
def test_sample_says_in_one_line_what_is_wrong(
    arguments: str, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        main(["sample", *arguments.split()])
    printed = capsys.readouterr()
    assert left.value.code == 2
    assert printed.out == ""
    assert printed.err.count("\n") == 1
    assert message in printed.err


def test_tasks_lists_every_task_under_its_family_with_an_example(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["tasks"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    headings = [line for line in lines[:-1] if line and not line.startswith(" ")]
    assert headings == ["The paper's", "More transductions", "Chomsky hierarchy"]
    listed = {line.split()[0]: line for line in lines if " ||| " in line}
    assert list(listed) == list(TASKS)
    for name, line in listed.items():
        assert get_task(name).summary in line
    assert lines[lines.index("Chomsky hierarchy") + 1] == listed["chomsky/even-pairs"]
    assert listed["chomsky/stack-manipulation"].endswith("  0 1 0 pop ||| 1 0 2 0 0")
    assert listed["reverse"].startswith("  reverse  The source read from its end.  ")


EXAMPLE_SEED, EXAMPLE_LENGTH = 186, 4
EXAMPLE_LENGTHS = {
    "gender": 5,
    "duplicate": 3,
    "chomsky/modular-arithmetic": 5,
    "chomsky/modular-arithmetic-brackets": 5,
    "chomsky/solve-equation": 7,
    "chomsky/duplicate": 3,
}


@pytest.mark.parametrize("name", TASKS)
def test_the_example_of_a_task_is_a_pair_of_it(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    length = str(EXAMPLE_LENGTHS.get(name, EXAMPLE_LENGTH))
    main(["sample", name, "-n", "1", "--lengths", length, "--seed", str(EXAMPLE_SEED)])
    assert capsys.readouterr().out == f"{EXAMPLES[name]}\n"


def test_the_tasks_are_listed_without_kernels() -> None:
    code = """
import sys
from pushpop.cli import main
main(["tasks"])
assert not {"torch", "numba"} & sys.modules.keys()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_help_of_sample_says_where_the_tasks_are_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["sample", "--help"])
    assert "`pushpop tasks`" in capsys.readouterr().out


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = [sys.executable, "-m", "pushpop.cli", "sample", "copy", "-n", "100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait() == 141
