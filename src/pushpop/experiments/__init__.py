"""Many runs and what they show: sweeps over presets, and reports from run directories."""

from pushpop.experiments.presets import Preset, load_preset
from pushpop.experiments.sweep import run_sweep

__all__ = ["Preset", "load_preset", "run_sweep"]
