"""The package and the command start without torch, and give every name when it is asked for."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

import pushpop
from pushpop.commands import COMMANDS
from pushpop.lazy import PACKAGES
from pushpop.memory import MEMORIES
from pushpop.memory.kinds import BIASES, ENDS, MEMORY_NAMES

LAZY = ["", ".experiments", ".layers", ".memory", ".models", ".tasks", ".training"]
HEAVY = """
import sys
from pushpop.cli import main
try:
    main(sys.argv[1:])
finally:
    assert not {"torch", "numba"} & sys.modules.keys()
"""


def run_python(code: str, *args: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-c", code, *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", ["", "--help", *(f"{name} --help" for name in COMMANDS)])
def test_help_comes_without_torch(arguments: str) -> None:
    done = run_python(HEAVY, *arguments.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("usage: pushpop")


def test_the_version_comes_without_torch() -> None:
    done = run_python(HEAVY, "--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"pushpop {version('pushpop')}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("trian copy", "did you mean 'train'?"),
        ("sample", "required: task"),
        ("sample copy --lenths 8", "did you mean '--lengths'?"),
        ("sample copy -n many", "count is 'many'"),
        ("sample revrese", "did you mean 'reverse'?"),
        ("evaluate", "required: model"),
        ("export copy", "expected --onnx FILE"),
        ("train", "no task given"),
        ("train copy --hiden 8", "did you mean '--hidden'?"),
        ("train copy --hidden wide", "hidden is 'wide'"),
        ("train copy --resume run", "leave out TASK"),
        ("train revrese", "did you mean 'reverse'?"),
        ("train copy --device gpu", "device is 'gpu'"),
        ("evaluate copy-queue --device gpu", "device is 'gpu'"),
        ("transduce copy-queue --device gpu", "device is 'gpu'"),
        ("serve --device gpu", "device is 'gpu'"),
        ("check --device gpu", "device is 'gpu'"),
        ("check --json nowhere/figures.json", "nowhere: no such folder"),
    ],
)
def test_a_mistake_is_told_without_torch(arguments: str, message: str) -> None:
    done = run_python(HEAVY, *arguments.split())
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert message in done.stderr


def test_options_are_listed_without_numpy() -> None:
    code = """
import sys
from pushpop.training.config import DEFAULTS
assert DEFAULTS["task"] == "copy"
assert "numpy" not in sys.modules
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_options_are_read_and_checked_without_numpy_or_torch() -> None:
    code = """
import sys
from pushpop.errors import InputError
from pushpop.training.config import TrainConfig
config = TrainConfig("reverse", "deque", recipe="pushpop", push_bias="[1, -8]")
assert [each.seed for each in config.start_configs()] == [0, 1_000_000]
assert TrainConfig.from_saved(config.to_dict()) == config.override({"hidden": config.hidden})
try:
    TrainConfig("chomsky/parity", "stack", pop_bias=[1, 2])
except InputError as error:
    assert "pop_bias of a stack must be one number" in str(error)
else:
    raise AssertionError
assert not {"torch", "numba", "numpy"} & sys.modules.keys()
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr


def test_the_package_imports_no_torch_before_it_is_used() -> None:
    code = """
import sys
import pushpop
from pushpop import layers, memory, models, tasks, training
assert pushpop.tasks.get_task("copy").name == "copy"
assert pushpop.training.TrainConfig.__name__ == "TrainConfig"
assert not {"torch", "numba"} & sys.modules.keys()
from pushpop import *
assert Transducer is models.Transducer is pushpop.models.transducer.Transducer
assert "torch" in sys.modules
"""
    done = run_python(code)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", [f"pushpop{each}" for each in LAZY])
def test_the_names_of_a_package_are_those_that_its_modules_have(name: str) -> None:
    package = importlib.import_module(name)
    table = {key: f"{name}.{module}" for key, module in PACKAGES[name].items()}
    assert package.__file__ is not None
    tree = ast.parse(Path(package.__file__).read_text("utf-8"))
    (typed,) = (node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    assert table == {each.name: node.module for node in imports for each in node.names}
    assert set(package.__all__) == set(table) - {"__version__"}
    assert set(package.__all__) <= set(dir(package))
    modules = {each.name for each in pkgutil.iter_modules(package.__path__)}
    assert not modules & set(table), "a module would hide the name"
    for key, module in table.items():
        assert getattr(package, key) is getattr(importlib.import_module(module), key)
        assert key in vars(package)


def test_only_these_packages_are_lazy() -> None:
    for each in pkgutil.iter_modules(pushpop.__path__):
        if each.ispkg:
            importlib.import_module(f"pushpop.{each.name}")
    assert sorted(PACKAGES) == [f"pushpop{each}" for each in LAZY]


def test_a_name_that_a_package_has_not_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'pushpop' has no attribute 'Transduser'"):
        _ = pushpop.Transduser  # type: ignore[attr-defined]
    with pytest.raises(ImportError, match="cannot import name 'get_tsk'"):
        exec("from pushpop.tasks import get_tsk")


def test_what_a_module_misses_is_not_taken_for_a_missing_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needy.py").write_text("import a_package_that_nobody_has\n")
    monkeypatch.setattr(pushpop, "__path__", [*pushpop.__path__, str(tmp_path)])
    with pytest.raises(ModuleNotFoundError, match="a_package_that_nobody_has"):
        _ = pushpop.needy  # type: ignore[attr-defined]


def test_the_version_is_that_of_the_installed_package() -> None:
    assert pushpop.__version__ == version("pushpop")


def test_the_memories_have_the_names_that_are_listed() -> None:
    own = {name: each for name, each in MEMORIES.items() if name in MEMORY_NAMES}
    assert tuple(own) == MEMORY_NAMES == tuple(each.kind for each in own.values())


def test_the_biases_that_are_checked_without_torch_are_those_of_the_memories() -> None:
    for name in MEMORY_NAMES:
        assert MEMORIES[name].biases == (BIASES if name in ENDS else {})
        assert getattr(MEMORIES[name], "ends", None) == ENDS.get(name)


def test_a_model_is_fitted_and_loaded_by_whoever_imports_it_alone(tmp_path: Path) -> None:
    code = """
import sys
from pushpop.models.transducer import Transducer
pairs = [("a b", "x y"), ("b a", "y x")] * 5
options = dict(epochs=1, hidden=4, embedding=4, memory_width=4)
model = Transducer.fit(pairs, form="tagger", **options)
model.save_pretrained(sys.argv[1])
"""
    load = """
import sys
from pushpop.models.transducer import Transducer
print(type(Transducer.from_pretrained(sys.argv[1])).__name__)
"""
    done = run_python(code, str(tmp_path / "model"))
    assert done.returncode == 0, done.stderr
    done = run_python(load, str(tmp_path / "model"))
    assert (done.returncode, done.stdout) == (0, "Tagger\n"), done.stderr


INTERRUPT = """
import sys

class Interrupt:
    def find_spec(self, name, *rest):
        if name == sys.argv[1]:
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
from pushpop.cli import main
main(sys.argv[2:])
"""


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("argparse", "--help"),
        ("pushpop.commands", "--help"),
        ("importlib.metadata", "--version"),
        ("pushpop.training.config", "train --help"),
        ("torch", "evaluate reverse-stack"),
        ("torch.nn", "evaluate reverse-stack"),
        ("numpy", "sample copy"),
    ],
)
def test_ctrl_c_while_something_is_imported_is_quiet(module: str, arguments: str) -> None:
    done = run_python(INTERRUPT, module, *arguments.split())
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
