"""The text of a compiled kernel (PTX, NVIDIA's assembly language) as a list of instructions."""

import re
from dataclasses import dataclass

REGISTERS = re.compile(r"\.reg\s+\.(\w+)\s+(%\w+)<(\d+)>;")
LABEL = re.compile(r"(\$\w+):")
INSTRUCTION = re.compile(r"(?:@(!?)(%\w+)\s+)?([a-z][\w.]*)\s*(.*?);")
OPERAND = re.compile(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*")
SCRATCH = re.compile(r"\{ \.reg \.\w+ \w+; (.*) \}")  # an instruction with a register of its own
SOURCE_LINE = re.compile(r"\.loc\s.*//\s*(\S+?):(\d+):\d+")


@dataclass(frozen=True)
class Instruction:
    """An operation with its operands, as they are written."""

    operation: tuple[str, ...]  # ("ld", "global", "b32")
    operands: tuple[str, ...]
    predicate: str | None  # the register that says which lanes take part
    negated: bool
    source: str  # the line of the kernel's source that it comes from, as in triton_walk.py:83

    def __str__(self) -> str:
        return f"{'.'.join(self.operation)} {', '.join(self.operands)}  ({self.source})"


@dataclass(frozen=True)
class Program:
    """A kernel: its instructions, where its labels are, and what it declares."""

    instructions: tuple[Instruction, ...]
    labels: dict[str, int]
    registers: dict[str, str]  # types by prefix: "b32" of "%r"
    threads: int  # in a block
    parameters: tuple[str, ...]


def parse(text: str) -> Program:
    """The one kernel in a text."""
    head, _, rest = text[text.index(".entry") :].partition("\n{")
    body = rest[: rest.index("$L__func_end")]
    threads = re.search(r"\.reqntid (\d+)", head)
    assert threads is not None
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    registers: dict[str, str] = {}
    source = "?"
    for raw in body.splitlines():
        if found := SOURCE_LINE.search(raw):
            source = f"{found[1]}:{found[2]}"
        line = SCRATCH.sub(r"\1", raw.partition("//")[0].strip())
        if found := REGISTERS.match(line):
            registers[found[2]] = found[1]
        elif found := LABEL.match(line):
            labels[found[1]] = len(instructions)
        elif line and line[0] not in ".{}":
            found = INSTRUCTION.match(line)
            assert found is not None, line
            operands = tuple(each.strip() for each in OPERAND.findall(found[4]))
            operation = tuple(found[3].split("."))
            instructions.append(Instruction(operation, operands, found[2], bool(found[1]), source))
    parameters = tuple(re.findall(r"\.param \.[^,)]*?(\w+)\s*[,)\n]", head))
    return Program(tuple(instructions), labels, registers, int(threads[1]), parameters)
