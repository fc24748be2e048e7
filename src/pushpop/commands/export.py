"""`pushpop export`."""

from dataclasses import dataclass
from pathlib import Path

from pushpop.errors import InputError
from pushpop.files import check_folder_of
from pushpop.options import Command, argument, option


@dataclass(frozen=True)
class Export(Command):
    """Write a model's step as an ONNX graph, to be run without torch.

    Examples:
        pushpop export reverse-stack --onnx step.onnx
    """

    model: str = argument(
        "a run directory, a saved model, or the name of a model that comes with pushpop"
    )
    onnx: str = option(
        "", "the file to write, as in step.onnx; a model with an encoder has a second one beside it"
    )

    def execute(self) -> None:
        if not self.onnx:
            raise InputError("no file given: expected --onnx FILE, as in --onnx step.onnx")
        check_folder_of(Path(self.onnx))
        import logging

        from pushpop.models.saving import find_model

        folder_or_name = find_model(self.model)

        # The exporter warns of packages that it does not need here.
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        from pushpop.models.export import export_onnx
        from pushpop.training.run import load_trained

        for path in export_onnx(load_trained(folder_or_name).model, self.onnx):
            print(path)
