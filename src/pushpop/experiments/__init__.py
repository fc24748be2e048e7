"""Many runs and what they show: sweeps over presets, and reports on runs, in directories or packed.

paper     the paper's tasks, models, results and sizes
presets   YAML files that stand for many runs
sweep     trains the runs of a preset, on this machine or on a cluster
runs      what the files of a run say, and packed runs
tables    which run stands for a model, and the rows of a report; chomsky: those of that benchmark
figures   the figures of a report
report    all of it as files
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
