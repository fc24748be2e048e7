"""All kernels are compiled together, at the first one that a command misses."""

import importlib
import io
import sys
from pathlib import Path

import pytest

from pushpop.cli import main
from pushpop.warmup import compile_kernels
from tests.test_compiled import kernel, run_python  # noqa: F401  kernel is a fixture

MODULES = [
    "pushpop.layers.backends.fused.kernels",
    "pushpop.memory.backends.fused.walk",
    "pushpop.memory.backends.fused.mixing",
    "pushpop.memory.backends.fused.ring",
    "pushpop.tasks.grammar_sampling",
]
SMALL = "--hidden 4 --memory-width 4 --steps 2"
TESTS = "--evaluate-sequences 2 --test-lengths 8"  # of tasks: a file is tested on its own pairs


def compiled() -> set[tuple[str, str, str]]:
    """What is compiled or loaded by now: modules, names and types."""
    return {
        (module, name, str(types))
        for module in MODULES
        for name, each in vars(importlib.import_module(module)).items()
        for types in getattr(each, "signatures", ())
    }


@pytest.mark.slow
def test_the_commands_use_no_kernel_that_is_not_compiled_with_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compile_kernels()
    before = compiled()
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{n:04b}\tx {n:04b}\n" for n in range(16)))
    trained = (
        "copy",
        "flip --memory deque --recipe pushpop --train-lengths 2-6",
        "gender --memory queue --layers 2 --cell gru",
        "copy --memory tape --heads 2",
        "copy --memory none --layers 2",
        "chomsky/parity --cell rnn",
        f"{pairs} --epochs 1 --valid {pairs}",
    )
    for number, options in enumerate(trained):
        tests = "" if str(pairs) in options else TESTS
        task, *rest = f"{options} {tests}".split()
        main(["train", task, *SMALL.split(), *rest, "--run", str(tmp_path / str(number))])
    main(["tasks"])
    main(["evaluate", str(tmp_path / "6"), str(pairs), "--beam", "2"])
    main(["evaluate", "svo-sov-queue", "--sequences", "2"])
    main(["trace", "copy-deque", "-o", str(tmp_path / "trace.json")])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a1 a2\n")))
    main(["transduce", "reverse-stack", "--nbest", "2"])
    assert compiled() - before == set()


COMMAND = """
import logging, sys
import pushpop.compiled, pushpop.warmup

logging.basicConfig(format="%(message)s")
pushpop.compiled.compile_elsewhere = lambda: print("all")
if len(sys.argv) > 1:
    pushpop.warmup.compile_all_at_first_miss()
import kernel
print(kernel.scale(3), kernel.scale(0.5))
"""


def test_the_first_miss_brings_all_others_and_one_line(kernel: Path) -> None:  # noqa: F811
    cache = str(kernel / "cache")
    wanted = COMMAND.replace("len(sys.argv) > 1", "True")
    told = [run_python(wanted, kernel, NUMBA_CACHE_DIR=cache) for _ in range(2)]
    assert told[0][0] == "all\n6 1.0"
    assert told[0][1].count("\n") == told[0][1].count("compiling CPU kernels for all commands") == 1
    assert told[1] == ("6 1.0", "")


def test_a_program_compiles_what_it_needs(kernel: Path) -> None:  # noqa: F811
    out, err = run_python(COMMAND, kernel, NUMBA_CACHE_DIR=str(kernel / "cache"))
    assert (out, "for all commands" in err) == ("6 1.0", False)
