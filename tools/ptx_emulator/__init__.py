"""An emulator of compiled GPU kernels that finds races; see README.md beside it."""
