"""`pushpop check`: verify and time every backend on this machine."""

from dataclasses import asdict, dataclass
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pushpop.commands.listing import plain_table
from pushpop.devices import find_device, read_device
from pushpop.errors import InputError, writing
from pushpop.files import check_folder_of, write_file
from pushpop.options import Command, option
from pushpop.warmup import compile_all_at_first_miss

if TYPE_CHECKING:
    import torch
    from rich.console import Console
    from rich.table import Table

    from pushpop.verification.agreement import Comparison

PRECISIONS = ("float64", "float32", "bfloat16")


@dataclass(frozen=True)
class Check(Command):
    """Compare and time everything that computes on this machine; exit 1 if something is wrong.

    Examples:
        pushpop check
        pushpop check --quick
        pushpop check --device cuda --json check.json
    """

    device: str = option(
        "auto",
        "what to check beside the CPU: cuda or cuda:N (a GPU), mps (Apple's), auto: cuda if "
        "it is there; cpu: nothing else",
        read=read_device,
    )
    quick: bool = option(False, "small sizes, in seconds; the times then say little")
    json: str = option("", "a file to write all figures into")

    def execute(self) -> None:
        path = Path(self.json)
        check_folder_of(path)
        if self.json and path.is_dir():
            raise InputError(f"{path}: a folder, expected a file to write the figures into")
        from rich.console import Console

        from pushpop.training.parallel import torch_threads

        compile_all_at_first_miss(False)
        where = find_device(self.device)
        with torch_threads(1):
            figures, wrong = run_checks(where, self.quick, Console())
        if self.json:
            from json import dumps

            with writing(path):
                write_file(path, f"{dumps(figures, indent=1, allow_nan=False)}\n".encode())
            print(f"wrote {self.json}")
        if wrong:
            raise SystemExit(1)


def run_checks(
    where: "torch.device", quick: bool, console: "Console"
) -> tuple[dict[str, Any], bool]:
    """All figures, as they are saved, and whether something is wrong; prints as it goes."""
    import torch

    from pushpop.verification import QUICK, Setting, describe_machine, time_layers, time_memories
    from pushpop.verification.agreement import Sizes, compare_layers, compare_memories

    say = partial(console.print, highlight=False, soft_wrap=True)
    machine = describe_machine(where)
    say(_listed(machine))
    sizes, setting = (Sizes(12, 3, 16), QUICK) if quick else (Sizes(), Setting())
    comparisons: list[Comparison] = []
    times: dict[str, Any] = {}
    for device in dict.fromkeys((torch.device("cpu"), where)):
        here = [*compare_memories(device, sizes), *compare_layers(device, sizes)]
        console.print(agreement_table(str(device), here))
        comparisons += here
        if any(comparison.failure for comparison in here):
            continue
        try:
            memories, layers = time_memories(device, setting), time_layers(device, setting)
        except Exception as error:  # a GPU may have no room; what was compared is known
            times[str(device)] = {"failure": f"{type(error).__name__}: {error}"}
            say(f"{device}: not timed: {error}")
            continue
        times[str(device)] = {"memories": memories, "layers": layers}
        console.print(times_table(str(device), memories, layers, _listed(asdict(setting))))
    wrong = [comparison for comparison in comparisons if not comparison.agrees]
    for comparison in wrong:
        say(f"WRONG: {comparison}")
    verdict = f"all {len(comparisons)} comparisons with the equations agree"
    if wrong:
        verdict = f"{len(wrong)} of {len(comparisons)} comparisons with the equations are wrong"
    say(verdict)
    figures = {
        "machine": machine,
        "verdict": verdict,
        "comparisons": [_as_json(comparison) for comparison in comparisons],
        "setting": asdict(setting),
        "milliseconds": times,
    }
    return figures, bool(wrong)


def _as_json(comparison: "Comparison") -> dict[str, Any]:
    """JSON has no infinity: what was NaN or infinite is null."""
    errors = {name: x if isfinite(x) else None for name, x in comparison.errors.items()}
    return {**asdict(comparison), "errors": errors, "agrees": comparison.agrees}


def agreement_table(device: str, comparisons: "list[Comparison]") -> "Table":
    """A row for each memory or layer and backend: the worst difference of all cases."""
    rows: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in comparisons:
        name, *cell_and_memory = comparison.what.split()
        what = " ".join([name, *cell_and_memory[1:]])  # the controllers share a row
        rows.setdefault((what, comparison.backend), []).append(comparison)
    table = plain_table(
        f"{device}: largest difference from the equations (in float64 on the CPU)",
        "of reads, outputs, states and every gradient, in units of the largest number",
        ["what", "backend"],
        [*PRECISIONS, ""],
    )
    for names, group in rows.items():
        worst = [[each.worst for each in group if each.dtype == dtype] for dtype in PRECISIONS]
        cells = [f"{max(errors):.0e}" if errors else "" for errors in worst]
        table.add_row(*names, *cells, "ok" if all(each.agrees for each in group) else "WRONG")
    return table


def times_table(
    device: str, memories: dict[str, dict[str, float]], layers: dict[str, float], setting: str
) -> "Table":
    """Milliseconds, and what they are beside the fastest backend and beside nn.LSTM."""
    table = plain_table(
        f"{device}: milliseconds, forward and backward, float32",
        f"medians of calls that took turns; {setting}",
        ["what", "backend"],
        ["ms", "/ fastest", "/ nn.LSTM"],
    )
    for kind, by_backend in memories.items():
        for backend, ms in by_backend.items():
            fastest = min(by_backend.values())
            table.add_row(kind, backend, f"{ms:.2f}", f"{ms / fastest:.1f}", "")
    for name, ms in layers.items():
        kind, _, backend = name.partition(" ")
        what = kind if kind == "nn.LSTM" else f"MemoryRNN {kind}"
        table.add_row(what, backend, f"{ms:.2f}", "", f"{ms / layers['nn.LSTM']:.1f}")
    return table


def _listed(figures: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in figures.items())
