"""CPU kernels, by Numba."""
