"""A golden record of what a refactoring may not change, and the comparison with it.

    python tools/golden.py write           record this tree in tools/golden.json
    python tools/golden.py check [PART..]  compare this tree with the record; exit 1 if it differs

Parts: names (public names and signatures), help (texts of the command line), weights (keys and
bits of seeded models), layers (bits of outputs and gradients, or the error, by memory, cell,
backend, dtype, hook and transform), backends (which backend a memory takes), outputs (what the
models that come with pushpop predict), runs (logs and weights of short trainings), reports (bytes
of every report), resume (a run begun by the recorded tree, finished by this one).
"""

import hashlib
import importlib
import inspect
import io
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import redirect_stderr, redirect_stdout
from itertools import product
from pathlib import Path
from typing import Any

os.environ["COLUMNS"] = "100"
os.environ["TERM"] = "dumb"

import torch
from torch import nn

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
RECORD = HERE / "golden.json"
BEGUN = HERE / "golden_run"
PACKAGES = ("", ".memory", ".layers", ".models", ".tasks", ".training", ".experiments", ".viewer")
MEMORIES = ("stack", "queue", "deque", "superposition", "tape")
REPORTS = ("mini", "natural", "ours", "ours-lstm", "unseen", "chomsky", "chomsky-longer")
SIZES = ["--embedding", "8", "--hidden", "12", "--memory-width", "6", "--seed", "3"]
SHORT = ["--steps", "30", "--report-every", "5", "--threads", "1", "--batch-size", "4"]
TESTED = ["--evaluate-every", "15", "--evaluate-sequences", "10"]


def digest(*parts: Any) -> str:
    """A short fingerprint of tensors, bytes and texts."""
    sha = hashlib.sha256()
    for part in parts:
        if isinstance(part, torch.Tensor):
            part = part.detach().contiguous().cpu().flatten().view(torch.uint8).numpy().tobytes()
        sha.update(part if isinstance(part, bytes) else str(part).encode())
    return sha.hexdigest()[:16]


def command(*arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command of pushpop, in this process."""
    from pushpop.cli import main

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            code = main(list(arguments)) or 0
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else 1
    lines = err.getvalue().splitlines(keepends=True)
    return code, out.getvalue(), "".join(line for line in lines if "compiling" not in line)


def names() -> Iterable[tuple[str, Any]]:
    for suffix in PACKAGES:
        package = importlib.import_module(f"pushpop{suffix}")
        yield f"pushpop{suffix}", sorted(package.__all__)
        for name in package.__all__:
            value = getattr(package, name)
            if callable(value):
                yield f"pushpop{suffix}.{name}", _signature(value)
            if inspect.isclass(value):
                for key in sorted(key for key in dir(value) if not key.startswith("_")):
                    part = inspect.getattr_static(value, key)
                    owner = next(c for c in value.__mro__ if key in vars(c))
                    if not owner.__module__.startswith("pushpop"):
                        continue
                    part = getattr(part, "__func__", part)
                    shown = _signature(part) if callable(part) else type(part).__name__
                    yield f"pushpop{suffix}.{name}.{key}", shown


def _signature(value: Any) -> str:
    """Names, kinds and defaults of the arguments; annotations may be spelled in other ways."""
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return "?"
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in parameters]
    return re.sub(r" at 0x[0-9a-f]+", "", f"({', '.join(map(str, plain))})")


def help_texts() -> Iterable[tuple[str, Any]]:
    overview = command("--help")[1]
    yield "pushpop", overview
    for name in ("version", "tasks", "models", "sample", "sizes", "train", "evaluate", "transduce",
                 "export", "sweep", "report", "trace", "serve", "check"):  # fmt: skip
        yield name, command(name, "--help")[1]
    for line in ("tasks", "models", "sizes", "sample copy --count 3", "sample svo-sov --count 2",
                 "train nosuchtask", "train copy --memory heap", "sample nosuchtask",
                 "train copy --hidden x", "sweep nosuch", "transduce nosuch",
                 "train copy --push-bias 1,2", "report nosuch",
                 "trace reverse-stack zz"):  # fmt: skip
        yield line, list(command(*line.split()))


def weights() -> Iterable[tuple[str, Any]]:
    from pushpop import DeepLSTM, MemoryAttention, MemoryRNN, Tagger, Transducer, TransducerConfig
    from pushpop.tasks import get_task

    def described(module: nn.Module) -> dict[str, str]:
        state = module.state_dict()
        return {key: f"{tuple(t.shape)} {digest(t)}" for key, t in state.items()}

    for memory, cell, layers in product(MEMORIES, ("lstm", "gru", "rnn"), (1, 2)):
        torch.manual_seed(7)
        yield (
            f"MemoryRNN {memory} {cell} {layers}",
            described(MemoryRNN(5, 6, memory=memory, cell=cell, num_layers=layers, memory_width=4)),
        )
    for memory in MEMORIES:
        torch.manual_seed(7)
        yield f"MemoryAttention {memory}", described(MemoryAttention(8, memory, num_heads=2))
    torch.manual_seed(7)
    yield "DeepLSTM", described(DeepLSTM(5, 6, num_layers=3))
    vocabulary = get_task("copy").vocabulary
    for memory, layers in product((*MEMORIES, "none"), (1, 2)):
        torch.manual_seed(7)
        config = TransducerConfig(
            memory=memory, layers=layers, embedding=4, hidden=5, memory_width=3
        )
        yield f"Transducer {memory} {layers}", described(Transducer(config, vocabulary))
        yield f"Tagger {memory} {layers}", described(Tagger(config, vocabulary))
    torch.manual_seed(7)
    config = TransducerConfig(
        embedding=4, hidden=5, memory_width=3, encoder="bidirectional", attention=True
    )
    yield "Transducer attention", described(Transducer(config, vocabulary))
    torch.manual_seed(7)
    config = TransducerConfig(memory="deque", memories=2, push_bias="drift", hidden=5)
    yield "Transducer drift", described(Transducer(config, vocabulary))


def layers() -> Iterable[tuple[str, Any]]:
    from pushpop import DeepLSTM, MemoryRNN

    variants: dict[str, dict[str, Any]] = {
        "plain": {}, "two layers": {"num_layers": 2}, "two memories": {"num_memories": 2},
        "parallel": {"backend": "parallel"}, "reference": {"backend": "reference"},
        "fused": {"backend": "fused"}, "triton": {"backend": "triton"}, "float64": {},
        "bfloat16": {}, "hook on memory": {}, "hook on cell": {}, "vmap": {}, "meta": {},
        "lengths": {}, "step": {}, "no grad": {}, "second order": {},
    }  # fmt: skip
    for memory, cell, (name, options) in product(MEMORIES, ("lstm", "gru"), variants.items()):
        torch.manual_seed(5)
        key = f"{memory} {cell} {name}"
        try:
            rnn = MemoryRNN(5, 6, memory=memory, cell=cell, memory_width=4, **options)
            yield key, _ran(rnn, name)
        except Exception as error:
            yield key, f"{type(error).__name__}: {error}"
    torch.manual_seed(5)
    yield "DeepLSTM", _ran(DeepLSTM(5, 6, num_layers=3), "plain")


def _ran(rnn: Any, how: str) -> str:
    x = torch.randn(9, 3, 5, requires_grad=how not in ("no grad", "vmap", "meta"))
    if how == "meta":
        output, _ = rnn.to("meta")(x.to("meta"))
        return str(tuple(output.shape))
    if how in ("float64", "bfloat16"):
        dtype = getattr(torch, how)
        rnn, x = rnn.to(dtype), x.detach().to(dtype).requires_grad_()
    if how.startswith("hook on "):
        for module_name, module in rnn.named_modules():
            if module_name.endswith(how.removeprefix("hook on ")):
                module.register_forward_hook(lambda *_: None)
    if how == "vmap":
        return digest(torch.func.vmap(lambda row: rnn(row)[0])(torch.stack([x, x + 1])))
    if how == "step":
        state, read = None, []
        for t in range(4):
            output, state = rnn.step(x[t], state)
            read.append(output)
        return digest(*read)
    if how == "lengths":
        output, _ = rnn(x, lengths=torch.tensor([9, 2, 5]))
    elif how == "no grad":
        with torch.no_grad():
            return digest(rnn(x)[0])
    else:
        output, _ = rnn(x)
    wanted = [x, *rnn.parameters()]
    if how == "second order":
        (grad,) = torch.autograd.grad(output.square().sum(), x, create_graph=True)
        grads: Iterable[Any] = torch.autograd.grad(grad.square().sum(), wanted, allow_unused=True)
    else:
        grads = torch.autograd.grad(output.square().sum(), wanted, allow_unused=True)
    return digest(output, *(grad for grad in grads if grad is not None))


def backends() -> Iterable[tuple[str, Any]]:
    from pushpop.memory import BACKENDS, make_memory

    yield "BACKENDS", list(BACKENDS)
    dtypes = (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int64)
    for memory, backend in product(MEMORIES, ("auto", *BACKENDS)):
        try:
            made = make_memory(memory, 4, backend=backend)
        except Exception as error:
            yield f"{memory} {backend}", f"{type(error).__name__}: {error}"
            continue
        for device, dtype in product(("cpu", "meta"), dtypes):
            key = f"{memory} {backend} {device} {dtype}"
            like = torch.zeros(2, 3, 4, device=device, dtype=dtype)
            try:
                yield key, made.choose_backend(like)
            except Exception as error:
                yield key, f"{type(error).__name__}: {error}"


def outputs() -> Iterable[tuple[str, Any]]:
    from pushpop import Transducer
    from pushpop.tasks import batch_rng, get_task

    for folder in sorted(p for p in (ROOT / "models").iterdir() if p.is_dir()):
        model = Transducer.from_pretrained(folder)
        config = json.loads((folder / "config.json").read_text())
        task = get_task(config["metadata"]["training"]["task"])
        pairs = task.sample(batch_rng(0, "golden", 0), 12, (20, 60))
        sources = [" ".join(task.vocabulary.source[i] for i in source) for source, _ in pairs]
        yield folder.name, digest(*model.transduce(sources))


def runs() -> Iterable[tuple[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        for name, arguments in _run_arguments(Path(folder)):
            run = Path(folder) / name.replace(" ", "-").replace("/", "-")
            tested = [] if arguments[0].endswith(".tsv") else TESTED
            code, _, err = command("train", *arguments, *SIZES, *SHORT, *tested, "--run", str(run))
            if code:
                yield name, [code, err.strip().splitlines()[-1].replace(folder, "DIR")]
                continue
            saved = run / "model.safetensors"
            yield name, {
                "metrics": digest((run / "metrics.jsonl").read_bytes()),
                "options": digest((run / "training.json").read_bytes().replace(
                    folder.encode(), b"DIR")),
                "model": digest(saved.read_bytes()) if saved.exists() else None,
                "files": sorted(p.name for p in run.iterdir()),
            }  # fmt: skip


def _run_arguments(folder: Path) -> Iterable[tuple[str, list[str]]]:
    for recipe, memory, cell in product(
        ("paper", "pushpop"), (*MEMORIES, "none"), ("lstm", "gru", "rnn")
    ):
        lengths = ["--train-lengths", "4-9", "--test-lengths", "10-12"]
        options = ["--recipe", recipe, "--memory", memory, "--cell", cell, *lengths]
        yield f"{recipe} {memory} {cell}", ["copy", *options]
    for task, memory in product(("reverse", "svo-sov", "gender", "flip"), ("stack", "deque")):
        yield f"{task} {memory}", [task, "--memory", memory, "--train-lengths", "4-9",
                                   "--test-lengths", "10-12"]  # fmt: skip
    for task, memory in product(("chomsky/even-pairs", "chomsky/reverse"), MEMORIES):
        yield f"{task} {memory}", [task, "--memory", memory]
    pairs, labels = folder / "pairs.tsv", folder / "labels.tsv"
    words = [f"{'abc'[i % 3]}{'xyz'[i % 2]}{'pqrst'[i % 5]}{'uv'[i % 7 % 2]}" for i in range(60)]
    pairs.write_text("".join(f"{w}\t{w[::-1]}\n" for w in words))
    labels.write_text("".join(f"{' '.join(w)}\t{' '.join(w.upper())}\n" for w in words))
    for memory, cell in product((*MEMORIES, "none"), ("lstm", "gru")):
        yield f"pairs {memory} {cell}", [str(pairs), "--memory", memory, "--cell", cell]
        yield f"labels {memory} {cell}", [
            str(labels), "--form", "tagger", "--memory", memory, "--cell", cell,
        ]  # fmt: skip


def reports() -> Iterable[tuple[str, Any]]:
    for name in REPORTS:
        with tempfile.TemporaryDirectory() as folder:
            code, out, _ = command("report", str(ROOT / "results" / name), "--out", folder)
            yield (
                f"{name} printed",
                [code, digest(out.replace(folder, "DIR").replace(str(ROOT), ""))],
            )
            for path in sorted(p for p in Path(folder).rglob("*") if p.is_file()):
                yield f"{name}/{path.relative_to(folder)}", digest(path.read_bytes())


def resume() -> Iterable[tuple[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        shutil.copytree(BEGUN, run)
        code, _, err = command("train", "--resume", str(run), "--steps", "40")
        yield "resume", [code, err.strip().splitlines()[-1] if code else "",
                         digest((run / "metrics.jsonl").read_bytes()),
                         digest((run / "model.safetensors").read_bytes())]  # fmt: skip


def begin() -> None:
    """The run that `resume` finishes, at batch 20 of 40."""
    shutil.rmtree(BEGUN, ignore_errors=True)
    arguments = ["train", "copy", "--memory", "deque", "--recipe", "paper", *SIZES, "--steps", "20",
                 "--train-lengths", "4-9", "--test-lengths", "10-12", "--report-every", "5",
                 "--evaluate-every", "10", "--evaluate-sequences", "10"]  # fmt: skip
    code, _, err = command(*arguments, "--run", str(BEGUN))
    assert code == 0, err


PARTS: dict[str, Callable[[], Iterable[tuple[str, Any]]]] = {
    "names": names, "help": help_texts, "weights": weights, "layers": layers,
    "backends": backends, "outputs": outputs, "runs": runs, "reports": reports, "resume": resume,
}  # fmt: skip


def main(action: str, *chosen: str) -> int:
    torch.set_num_threads(1)
    os.chdir(ROOT)
    if action == "write":
        if not chosen or "resume" in chosen:
            begin()
        record = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        for part in chosen or PARTS:
            record[part] = dict(PARTS[part]())
            print(part, len(record[part]), file=sys.stderr)
        RECORD.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")
        return 0
    record, differing = json.loads(RECORD.read_text()), 0
    for part in chosen or PARTS:
        before, now = record[part], json.loads(json.dumps(dict(PARTS[part]())))
        differences = [key for key in sorted({*before, *now}) if before.get(key) != now.get(key)]
        print(f"{part}: {len(now)} recorded, {len(differences)} differ")
        for key in differences:
            print(f"  {key}\n    was {before.get(key)!r:.1500}\n    is  {now.get(key)!r:.1500}")
        differing += len(differences)
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main(*(sys.argv[1:] or ["check"])))
