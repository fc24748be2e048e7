"""Training: a run is a function of its config, and a directory that can be resumed."""

from pushpop.training.config import TrainConfig, read_config_file
from pushpop.training.loop import Diverged, train
from pushpop.training.run import RunDirectory

__all__ = ["Diverged", "RunDirectory", "TrainConfig", "read_config_file", "train"]
