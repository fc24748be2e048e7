"""The one decorator of every Numba kernel, and what a user is told about compilation.

Kernels are compiled at their first call and cached on disk. Where nothing can be cached (a
read-only installation without a home directory, a full disk) they run uncached. A line on stderr
says that kernels are being compiled, because that takes a while, or that they cannot be cached. A
command compiles all of them at the first one that is missing (`warmup.py`), to say so once.

Importing this module imports Numba: only modules of kernels do so.
"""

import hashlib
import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from numba import njit
from numba.core.caching import FunctionCache
from numba.core.options import DefaultOptions

from pushpop.warmup import NOTICE, compile_elsewhere, is_first_miss

_log = logging.getLogger("pushpop")  # without any handler, warnings go to stderr as they are
_said: set[str] = set()


def compiled(
    *, imports: Iterable[ModuleType] = (), allocates: bool = True, **options: Any
) -> Callable[[Callable[..., Any]], Any]:
    """`numba.njit(nogil=True, **options)`, cached where that is possible.

    `imports` are the modules from which a kernel takes constants, bundles or other kernels: Numba's
    own cache notices edits in a kernel's file only, and would run what was compiled before.

    A kernel that makes no arrays (nor copies one slice to another, which may need an array) can say
    `allocates=False`: Numba then counts no references to arrays, which it otherwise does at every
    view, at every attribute of a bundle and at every call from Python.
    """
    if not allocates and hasattr(DefaultOptions, "_nrt"):
        options["_nrt"] = False
    sources = [Path(str(module.__file__)) for module in imports]

    def decorate(function: Callable[..., Any]) -> Any:
        kernel = njit(nogil=True, **options)(function)
        if hasattr(kernel, "enable_caching"):  # under NUMBA_DISABLE_JIT it is a plain function
            try:
                kernel._cache = _Cache(function, sources)
            except (RuntimeError, OSError) as error:  # RuntimeError: no directory can be written
                _say_uncached(error)
        return kernel

    return decorate


class _Cache(FunctionCache):
    """Numba's cache of a function; a file that cannot be read or written switches it off."""

    def __init__(self, function: Callable[..., Any], sources: list[Path]) -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources))
        self._imported = digest.hexdigest()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        overload = self._load(sig, target_context)
        if overload is None and is_first_miss():
            _say_once(NOTICE)
            compile_elsewhere()
            overload = self._load(sig, target_context)
        is_ours = self._py_func.__module__.startswith("pushpop.")
        if overload is None and self._enabled and is_ours:
            _say_once("compiling CPU kernels; this happens once, then they are cached")
        return overload

    def _load(self, sig: Any, target_context: Any) -> Any:
        try:
            overload = self._or_give_up(super().load_overload, sig, target_context)
        except Exception:  # unpickling what another version of these files left raises anything
            overload = None
            self._or_give_up(self.flush)
        if overload is None or tuple(overload.signature.args) == tuple(sig):
            return overload
        # Two processes that saved at the same moment can leave the code of other types there.
        return self._or_give_up(self.flush)

    def save_overload(self, sig: Any, data: Any) -> None:
        self._or_give_up(super().save_overload, sig, data)

    def _or_give_up(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except OSError as error:
            self.disable()  # type: ignore[no-untyped-call]
            return _say_uncached(error)

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        key = super()._index_key(sig, codegen)  # type: ignore[no-untyped-call]
        return (*key, self._imported)


def _say_uncached(error: Exception) -> None:
    _say_once(
        "CPU kernels cannot be cached and are compiled in every process; set NUMBA_CACHE_DIR to a "
        f"directory that can be written ({error})",
        key="uncached",
    )
    _said.add("compiling")  # it would promise a cache


def _say_once(line: str, key: str = "compiling") -> None:
    if key not in _said:
        _said.add(key)
        _log.warning("pushpop: %s", line)
