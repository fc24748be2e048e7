"""`pushpop generate`: lines from a language model."""

import sys
from dataclasses import dataclass

from pushpop.commands.models import (
    Progress,
    checkpoint_option,
    device_option,
    open_model,
    threads_option,
)
from pushpop.errors import InputError, counted, naming
from pushpop.files import as_text, tell
from pushpop.options import Command, argument, option


@dataclass(frozen=True)
class Generate(Command):
    """Write lines that a language model draws, one by one, to standard output.

    Examples:
        pushpop generate runs/lines-deque-seed0 --count 1000 > more.txt
        pushpop generate runs/molecules-stack-seed0 --prefix "CC(=O)" --temperature 0.8
    """

    model: str = argument("a run directory, or a saved model: of lines (pushpop train --form lm)")
    count: int = option(10, "how many lines", least=0, short="-n")
    temperature: float = option(
        1.0, "below 1, likely symbols get likelier; above 1, all get more alike", above=0
    )
    top_p: float = option(
        1.0, "draw from the likeliest symbols only, that have this probability together", above=0
    )
    prefix: str = option("", "what each line begins with")
    seed: int = option(0, "the same seed gives the same lines", least=0)
    max_length: int = option(1000, "the most symbols in a line", least=1)
    unique: bool = option(False, "leave out lines that have been written before")
    checkpoint: str = checkpoint_option()
    threads: int = threads_option()
    device: str = device_option()

    def execute(self) -> None:
        from pushpop.models import LanguageModel
        from pushpop.models.decoding import Sampling
        from pushpop.training.parallel import torch_threads

        sampling = Sampling(self.temperature, self.top_p, self.max_length)
        model = open_model(self.model, self.device, self.checkpoint).model
        if not isinstance(model, LanguageModel):
            raise InputError(
                f"{self.model}: a {model.form}, expected a language model, as pushpop train LINES "
                "--form lm makes one"
            )
        prefix = as_text(self.prefix)
        lines = model.draw(self.count, sampling, prefix=prefix, seed=self.seed, unique=self.unique)
        progress, cut_off = Progress(self.count, counted(self.count, "line")), 0
        try:
            with torch_threads(self.threads), naming(self.model):
                for line in lines:
                    print(line.text, flush=sys.stdout.isatty())
                    cut_off += not line.finished
                    progress()
        finally:
            sys.stdout.flush()
        if cut_off:
            written = counted(progress.done, "line")
            verb = "is" if cut_off == 1 else "are"
            tell(f"{cut_off:,} of {written} {verb} cut off at {self.max_length} symbols")
