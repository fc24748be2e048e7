"""Many runs and what they show: sweeps over presets, and reports on runs, in directories or packed.

paper     the paper's results and sizes, and which of our runs stand beside them
presets   YAML files that stand for many runs
sweep     trains the runs of a preset, on this machine or on a cluster
runs      what the files of a run say, and packed runs
chomsky   the scores of the Chomsky-hierarchy benchmark beside the published ones
figures   the figures of a report
report    tables in all formats, the page, and all of it as files
"""

from typing import TYPE_CHECKING

from pushpop.lazy import import_when_asked

if TYPE_CHECKING:
    from pushpop.experiments.presets import Preset, load_preset
    from pushpop.experiments.sweep import LocalWorkers, RayWorkers, SweepView, plan, run_sweep

__all__ = [
    "LocalWorkers",
    "Preset",
    "RayWorkers",
    "SweepView",
    "load_preset",
    "plan",
    "run_sweep",
]

import_when_asked(__name__)
