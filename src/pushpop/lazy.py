"""Packages whose names are imported when somebody asks for them.

To import torch takes seconds. `pushpop --help` does without, and a mistake in the arguments too.
"""

import ast
import sys
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

PACKAGES: dict[str, Mapping[str, str]] = {}
"""The names of every such package, and which of its modules has them."""


def import_when_asked(package: str) -> None:
    """Give a package `__getattr__` and `__dir__` (PEP 562): each name that it imports `if
    TYPE_CHECKING` is imported from the module that has it, once. The package's own modules are
    found as well, as after any `import` of them."""
    content = vars(sys.modules[package])
    PACKAGES[package] = names = {
        alias.name: str(statement.module).removeprefix(f"{package}.")
        for block in ast.parse(Path(content["__file__"]).read_text("utf-8")).body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }

    def find(name: str) -> Any:
        if name in names:
            content[name] = getattr(import_module(f"{package}.{names[name]}"), name)
            return content[name]
        module = f"{package}.{name}"
        try:
            if not name.startswith("_"):
                return import_module(module)
        except ModuleNotFoundError as error:
            if error.name != module:  # the module exists, and what it imports does not
                raise
        where = sys.modules[package]
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=where)

    content["__getattr__"] = find
    content["__dir__"] = lambda: sorted({*content, *names})
