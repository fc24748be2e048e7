"""Many runs and what they show: sweeps over presets, and reports from run directories."""

from pushpop.experiments.presets import Preset, load_preset
from pushpop.experiments.sweep import plan, run_sweep
from pushpop.experiments.sweep_view import SweepView
from pushpop.experiments.workers import LocalWorkers, RayWorkers

__all__ = [
    "LocalWorkers",
    "Preset",
    "RayWorkers",
    "SweepView",
    "load_preset",
    "plan",
    "run_sweep",
]
