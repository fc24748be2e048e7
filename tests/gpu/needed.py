"""Import this first where kernels are compiled: it skips the module where they cannot be."""

import os
import platform

import pytest

if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
    pytest.skip("Triton's compiler is for Linux on x86-64", allow_module_level=True)
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("TRITON_INTERPRET is set: nothing is compiled", allow_module_level=True)
triton = pytest.importorskip(
    "triton", reason="Triton is not installed, or cannot be imported here", exc_type=ImportError
)
if triton.__version__ != "3.7.1":
    pytest.skip("the emulator knows the PTX of Triton 3.7.1", allow_module_level=True)
