"""The commands that the documentation shows are commands: they parse, and those that are quick run.

The others say why not, and are checked as far as they go without training: `train` prints its
options, `sweep` its plan.
"""

import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from pushpop.cli import command_parser, join_negatives, main
from pushpop.commands import COMMANDS
from pushpop.training import TrainConfig, train
from tests.docs.pages import PAGES, ROOT, blocks, name_of, prose, text_of

NOT_RUN = {
    "pushpop train": "trains for minutes",
    "pushpop sweep": "trains for minutes to months",
    "pushpop serve": "serves until it is stopped",
    "pushpop check": "a minute or two, and the GPU of the machine; tests/commands/test_check.py",
    "pushpop evaluate RUN --lengths 128,256,512,1024": "half a minute",
}
"""How commands begin that are not run, and why. All others are."""
CHECKED_BY = {"train": "--print-config", "sweep": "--dry-run"}
"""Options with which these commands look at all others and do nothing."""
PAIRS = "abba\ta b a\napi\ta p i\nbati\tb a t i\npabbi\tp a b i\n"
LABELS = "stop\tC C V C\nopen\tV C V C\nnote\tC V C V\n"
GRAMMAR = "9/10 A -> a A[1] | A[1] b\n1/10 A -> a | b\n"


def shown(page: Path) -> list[str]:
    """The command lines of a page, without comments."""
    block = "\n".join(
        [*blocks(page, ""), *re.findall(r"^    (make .*)", prose(page), re.MULTILINE)]
    )
    lines = re.findall(r"^(?:\$ |(?=make ))(.+)$", block, re.MULTILINE)
    return [re.sub(r"\s+# .*", "", line) for line in lines]


SHOWN = sorted({line for page in PAGES for line in shown(page)})
OURS = [line for line in SHOWN if line.startswith("pushpop ")]
TARGETS = set(re.findall(r"^(\w+):.*##", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_commands_were_found() -> None:
    assert len(OURS) > 20
    assert {line.split()[0] for line in SHOWN} == {"make", "pip", "pushpop", "torchrun"}
    for beginning in NOT_RUN:
        assert any(line.startswith(beginning) for line in OURS), beginning


def arguments(line: str) -> tuple[list[str], str | None]:
    """What a command is given, and the file that it reads from."""
    words = shlex.split(line)
    source = words[words.index("<") + 1] if "<" in words else None
    ends = [words.index(sign) for sign in "<>" if sign in words]
    return join_negatives(words[1 : min(ends, default=None)]), source


@pytest.mark.parametrize("line", SHOWN)
def test_the_command_line_parses(line: str) -> None:
    program, *rest = line.split()
    if program == "make":
        assert rest[0] in TARGETS
    elif program == "pip":
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        (extra,) = re.findall(r"\[(\w+)\]", line)
        assert extra in project["optional-dependencies"]
    else:
        if program == "torchrun":
            line = f"pushpop {line.partition(' -- ')[2]}"
        (command, *given), _ = arguments(line)
        command_parser(command).parse_args(given)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_in_the_text_have_such_names_and_options(page: Path) -> None:
    for span in re.findall(r"`((?:pushpop|make|python) [^`]+)`", text_of(page)):
        program, name, *rest = span.split()
        if program == "make":
            assert name in TARGETS, span
        elif program == "python":
            assert (ROOT / name).exists() or (name, rest[:1]) == ("-m", ["pushpop"]), span
        elif not name.startswith("-") and name != "COMMAND":
            assert name in COMMANDS, span
            known = command_parser(name)._option_string_actions
            options = [word.partition("=")[0] for word in rest if word.startswith("-")]
            assert set(options) - {word for word in options if word[1:2].isdigit()} <= set(known), (
                span
            )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a reader has by then: files of pairs, a grammar, a preset, runs."""
    folder = tmp_path_factory.mktemp("reader")
    for name in ("pairs.tsv", "dev.tsv", "test.tsv", "dates.tsv"):
        (folder / name).write_text(PAIRS)
    (folder / "letters.tsv").write_text(LABELS)
    (folder / "words.txt").write_text("abba\npabbi\n")
    (folder / "dates.txt").write_text("abba\n")
    (folder / "my-grammar.itg").write_text(GRAMMAR)
    tiny: dict[str, Any] = {"hidden": 8, "memory_width": 8, "embedding": 8}
    small = {**tiny, "evaluate_sequences": 2}  # of a task; a file has its own
    runs = folder / "runs"
    for task, memory in (("copy", "queue"), ("reverse", "stack")):
        config = TrainConfig(task, memory=memory, steps=2, **small)
        train(config, runs / f"{task}-{memory}-seed0")
    pairs = TrainConfig(str(folder / "pairs.tsv"), epochs=1, valid=str(folder / "dev.tsv"), **tiny)
    train(pairs, runs / "pairs-deque-seed0")
    shutil.copytree(runs / "pairs-deque-seed0", runs / "dates-queue-seed0")
    molecules = (ROOT / "examples" / "molecules.smi").read_text().splitlines()[:20]
    for name in ("molecules.smi", "test.smi"):
        (folder / name).write_text("\n".join([*molecules, "CC(=O)Oc1ccccc1C(=O)O"]))
    lines = TrainConfig(str(folder / "molecules.smi"), memory="deque", epochs=1, **tiny)
    train(lines, runs / "molecules-deque-seed0")
    for name in ("smoke", "table"):
        shutil.copytree(runs / "copy-queue-seed0", runs / name / "copy-queue-seed0")
    for task, memory, where in (("reverse", "stack", "chomsky"), ("odds-first", "queue", "")):
        config = TrainConfig(f"chomsky/{task}", memory, steps=2, test_lengths="3-4", **small)
        train(config, runs / where / f"chomsky-{task}-{memory}-seed0")
    for sweep in ("mini", "natural"):
        shutil.copytree(ROOT / "results" / sweep, folder / "results" / sweep)
    (folder / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "results.md", folder / "docs")
    return folder


@pytest.mark.parametrize("line", OURS)
def test_the_command_runs(
    line: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(folder)
    given, source = arguments(line)
    if any(line.startswith(beginning) for beginning in NOT_RUN):
        if given[0] not in CHECKED_BY:
            return
        given.append(CHECKED_BY[given[0]])
    with (folder / (source or "words.txt")).open(encoding="utf-8") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        main(given)
    assert capsys.readouterr().out
