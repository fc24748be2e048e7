"""Training: a run is a function of its config, and a directory that can be resumed."""

from typing import TYPE_CHECKING

from pushpop.lazy import import_when_asked

if TYPE_CHECKING:
    from pushpop.training.config import TrainConfig, read_config_file
    from pushpop.training.loop import train
    from pushpop.training.run import RunDirectory
    from pushpop.training.trainer import Diverged

__all__ = ["Diverged", "RunDirectory", "TrainConfig", "read_config_file", "train"]

import_when_asked(__name__)
