"""Kernels of Triton launched as on a GPU, but compiled to PTX and emulated: CPU tensors in and out.

A call is specialised as Triton's own launcher does it: by the types of the arguments, by integers
that are 1 or divisible by 16, and by pointers that are. So what runs here is what would run there.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from .emulator import Kernel
from .memory import WARP, Memory, Race
from .ptx import parse

TYPES = {
    torch.float32: "fp32", torch.float64: "fp64", torch.float16: "fp16", torch.bfloat16: "bf16",
    torch.int32: "i32", torch.int64: "i64", torch.int8: "i8", torch.uint8: "u8", torch.bool: "i1",
}  # fmt: skip
DIVISIBLE = ["tt.divisibility", 16]


class Report:
    """What the launches of a test or a benchmark amounted to."""

    def __init__(self) -> None:
        self.races: Counter[tuple[str, Race]] = Counter()
        self.launches: Counter[str] = Counter()
        self.instructions: Counter[str] = Counter()

    def by_kernel(self) -> dict[str, dict[str, int]]:
        """Launches, instructions and races of each kernel."""
        races = Counter(name for name, _ in self.races.elements())
        return {
            name: {
                "launches": self.launches[name],
                "instructions": self.instructions[name],
                "races": races[name],
            }
            for name in self.launches
        }


@cache
def compile_kernel(
    function: Any,
    types: tuple[tuple[str, str], ...],
    constants: tuple[tuple[str, Any], ...],
    divisible: tuple[str, ...],
    num_warps: int,
    arch: int,
) -> tuple[Kernel, int]:
    """A kernel as PTX for a GPU of such an architecture, and its shared memory in bytes."""
    index = {name: (number,) for number, name in enumerate(function.arg_names)}
    source = ASTSource(
        fn=function,
        signature={**dict.fromkeys(index, "constexpr"), **dict(types)},
        constexprs={index[name]: value for name, value in constants},
        attrs={index[name]: [DIVISIBLE] for name in divisible},
    )
    target = GPUTarget("cuda", arch, 32)
    compiled = triton.compile(source, target=target, options={"num_warps": num_warps})
    return Kernel(parse(compiled.asm["ptx"])), compiled.metadata.shared


class EmulatedKernel:
    """Stands where a kernel of Triton does, and is launched as that is: `kernel[grid](...)`.

    `num_warps` goes before what the launch says, where a block has numbers for as many threads.
    """

    def __init__(
        self, function: Any, report: Report, num_warps: int | None = None, arch: int = 80,
        seed: int = 0,
    ) -> None:  # fmt: skip
        assert isinstance(function, JITFunction), function
        self.function, self.report = function, report
        self.num_warps, self.arch, self.seed = num_warps, arch, seed

    def __getitem__(self, grid: Sequence[int]) -> Any:
        return lambda *args, **options: self.launch(grid, *args, **options)

    def launch(self, grid: Sequence[int], *args: Any, num_warps: int = 4, **options: Any) -> None:
        """Emulate a launch; the tensors are changed in place."""
        function, name = self.function, self.function.__name__
        if self.num_warps is not None and options.get("BLOCK", 0) >= WARP * self.num_warps:
            num_warps = self.num_warps
        given = dict(zip(function.arg_names, args, strict=False)) | options
        types, constants, divisible = [], [], []
        places = _Places([each for each in given.values() if isinstance(each, Tensor)])
        parameters: list[int | float] = []
        for parameter in function.params:
            value = given[parameter.name]
            if isinstance(value, Tensor):
                number, kind = places.address(value), f"*{TYPES[value.dtype]}"
            else:
                number, kind = value, "fp32" if isinstance(value, float) else "i32"
            special = not parameter.do_not_specialize
            if parameter.is_constexpr or (
                special and value is not None and kind == "i32" and value == 1
            ):
                constants.append((parameter.name, value))
                continue
            types.append((parameter.name, kind))
            parameters.append(number)
            if special and kind != "fp32" and number % 16 == 0:
                divisible.append(parameter.name)
        kernel, shared = compile_kernel(
            function, tuple(types), tuple(constants), tuple(divisible), num_warps, self.arch,
        )  # fmt: skip
        unused = len(kernel.program.parameters) - len(parameters)
        executed = kernel.run(grid, [*parameters, *[0] * unused], places.memory, shared, self.seed)
        places.copy_back()
        self.report.launches[name] += 1
        self.report.instructions[name] += executed
        for race, count in places.memory.races.items():
            self.report.races[name, race] += count


class _Places:
    """The storages of some tensors in emulated memory; tensors may share one."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self.bytes: dict[int, np.ndarray[Any, np.dtype[np.uint8]]] = {}
        for tensor in tensors:
            storage = tensor.untyped_storage()
            view = torch.empty(0, dtype=torch.uint8).set_(storage)  # type: ignore[call-overload]
            self.bytes[storage.data_ptr()] = view.numpy()
        size = sum(len(each) // 256 * 256 + 512 for each in self.bytes.values()) + 512
        self.memory = Memory(size, min([4, *(tensor.itemsize for tensor in tensors)]))
        self.start = {at: self.memory.allocate(each) for at, each in self.bytes.items()}

    def address(self, tensor: Tensor) -> int:
        storage = tensor.untyped_storage().data_ptr()
        return self.start[storage] + tensor.storage_offset() * tensor.itemsize

    def copy_back(self) -> None:
        for at, each in self.bytes.items():
            start = self.start[at]
            each[:] = self.memory.bytes[start : start + len(each)]


@contextmanager
def emulated(kernels: Sequence[tuple[ModuleType, str]], **options: Any) -> Iterator[Report]:
    """Have these kernels, named by their modules, emulated inside; tells what happened."""
    report = Report()
    before = [(module, name, getattr(module, name)) for module, name in kernels]
    for module, name, function in before:
        setattr(module, name, EmulatedKernel(function, report, **options))
    try:
        yield report
    finally:
        for module, name, function in before:
            setattr(module, name, function)
