"""GPU kernels, by Triton."""
