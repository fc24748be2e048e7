"""What `--help` shows: options in groups with all their values, and examples that can be typed."""

import re
import shlex
from dataclasses import fields

import pytest

from pushpop.cli import command_parser, examples, main
from pushpop.commands import COMMANDS
from pushpop.commands.train import option_groups, option_values
from pushpop.training import TrainConfig

OPTIONS = [each.name for each in fields(TrainConfig) if each.name != "task"]
GROUPS = option_groups(TrainConfig)


def shown(capsys: pytest.CaptureFixture[str], command: str) -> str:
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main([command, "--help"])
    return capsys.readouterr().out


def test_every_option_of_training_is_in_one_group(capsys: pytest.CaptureFixture[str]) -> None:
    listed = [name for names in GROUPS.values() for name in names]
    assert len(listed) == len(set(listed))
    assert set(listed) == {"task", *OPTIONS}
    text = shown(capsys, "train")
    for name in OPTIONS:
        assert len(re.findall(rf"^  --{name.replace('_', '-')}\s", text, re.MULTILINE)) == 1
    for title in ("run", *GROUPS):
        assert f"\n{title}:\n" in text


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (
            "learning_rate",
            "default: 0.001; recipe pushpop: 0.003; chomsky/ tasks: 0.003; a file: 0.003",
        ),
        ("batch_size", "default: 10; chomsky/ tasks: 128; a file: 8, from 2,000 pairs on 32"),
        (
            "recipe",
            "default: paper; chomsky/ tasks: chomsky; a file: pairs; a file of labels: labels",
        ),
        ("attention", "default: false; a file: true; a file of labels: false"),
        ("train_lengths", "default: 8-64; recipe pushpop: 1-64"),
        ("seed", "default: 0"),
    ],
)
def test_an_option_shows_the_values_of_recipes(
    name: str, values: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert values in " ".join(shown(capsys, "train").split())


def test_the_values_shown_are_those_that_a_config_has() -> None:
    configs = {
        "default": TrainConfig("copy"),
        "recipe pushpop": TrainConfig("copy", recipe="pushpop"),
        "a file": TrainConfig("pairs.tsv"),
        "a file of labels": TrainConfig("pairs.tsv", form="tagger"),
        "a file of lines": TrainConfig("lines.txt", form="lm"),
    }
    told_otherwise = ("recipe", "push_bias", "pop_bias", "form")  # given here, or "auto"
    for name in OPTIONS:
        values = option_values(name)
        for who, config in configs.items():
            fallback = values.get("a file") if who.startswith("a file of") else None
            wanted = values.get(who) or fallback or values["default"]
            found = getattr(config, name)
            found = "none" if found is None or found == "" else str(found).lower()
            assert name in told_otherwise or wanted.partition(", from")[0] == found, (name, who)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_examples_of_a_command_are_right(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = examples(COMMANDS[command])
    assert lines
    text = shown(capsys, command)
    for line in lines:
        assert line in text
        typed = re.split(r" {2,}| [<>] ", line)[0]  # a remark, or where input and output are
        program, name, *rest = shlex.split(typed)
        assert (program, name) == ("pushpop", command)
        command_parser(command).parse_args(rest)
