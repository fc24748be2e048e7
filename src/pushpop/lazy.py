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


def import_when_asked(package: str, names: Mapping[str, str] | None = None) -> None:
    """Give a package `__getattr__` and `__dir__` (PEP 562): each name is imported from the module
    that has it, once. The package's own modules are found as well, as after any `import` of them.

    The names are those that the package imports `if TYPE_CHECKING`, unless they are given.
    """
    names = _typed_imports(package) if names is None else names
    PACKAGES[package] = names
    content = vars(sys.modules[package])

    def find(name: str) -> Any:
        if name in names:
            content[name] = getattr(import_module(f"{package}.{names[name]}"), name)
            return content[name]
        if not name.startswith("_"):
            module = f"{package}.{name}"
            try:
                return import_module(module)
            except ModuleNotFoundError as error:
                if error.name != module:  # the module exists, and what it imports does not
                    raise
        where = sys.modules[package]
        raise AttributeError(f"module {package!r} has no attribute {name!r}", name=name, obj=where)

    content["__getattr__"] = find
    content["__dir__"] = lambda: sorted({*content, *names})


def _typed_imports(package: str) -> dict[str, str]:
    """Which module of a package each name comes from that is imported for type checkers."""
    tree = ast.parse(Path(str(sys.modules[package].__file__)).read_text("utf-8"))
    return {
        alias.name: str(node.module).removeprefix(f"{package}.")
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
