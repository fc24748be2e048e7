"""Training: a run is a function of its config, and a directory that can be resumed."""

from pushpop.training.config import TrainConfig, read_config_file

__all__ = ["TrainConfig", "read_config_file"]
