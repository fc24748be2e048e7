"""Import this first where kernels are compiled: it skips the module where they cannot be."""

import os
import platform

import pytest

if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
    pytest.skip("Triton's compiler is for Linux on x86-64", allow_module_level=True)
if os.environ.get("TRITON_INTERPRET") == "1":
    pytest.skip("TRITON_INTERPRET is set: nothing is compiled", allow_module_level=True)
pytest.importorskip("triton", reason="Triton is not installed, or cannot be imported here")
