"""`pushpop generate`: lines from a language model."""

import sys
import time
from dataclasses import dataclass

from pushpop.devices import find_device, read_device
from pushpop.errors import InputError
from pushpop.options import Command, argument, option
from pushpop.stdio import as_text

PROGRESS_EVERY = 5.0  # seconds


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
    checkpoint: str = option("", "a checkpoint of the run: best, latest, or after how many batches")
    threads: int = option(1, "threads that torch computes with", least=1)
    device: str = option(
        "cpu",
        "where it runs: cpu, cuda or cuda:N (a GPU), mps (Apple's), auto: cuda or else cpu",
    )

    def execute(self) -> None:
        """Write lines as they are drawn; say on stderr how far it is where that takes long."""
        read_device("device", self.device)
        from pushpop.models import LanguageModel, find_model
        from pushpop.models.language_model import Sampling
        from pushpop.training.parallel import torch_threads
        from pushpop.training.run import load_trained

        sampling = Sampling(self.temperature, self.top_p, self.max_length)
        model = load_trained(find_model(self.model), checkpoint=self.checkpoint).model
        if not isinstance(model, LanguageModel):
            raise InputError(
                f"{self.model}: a {model.form}, expected a language model, as pushpop train LINES "
                "--form lm makes one"
            )
        model.to(find_device(self.device))
        prefix = as_text(self.prefix)
        lines = model.draw(self.count, sampling, prefix=prefix, seed=self.seed, unique=self.unique)
        written = cut_off = 0
        told = time.monotonic()
        try:
            with torch_threads(self.threads):
                for line in lines:
                    print(line.text, flush=sys.stdout.isatty())
                    written, cut_off = written + 1, cut_off + (not line.finished)
                    if time.monotonic() - told > PROGRESS_EVERY:
                        told = time.monotonic()
                        self._say(f"{written:,} of {self.count:,} lines")
        except InputError as error:
            raise InputError(f"{self.model}: {error}") from None
        finally:
            sys.stdout.flush()
        if cut_off:
            self._say(f"{cut_off:,} of {written:,} lines are cut off at {self.max_length} symbols")

    def _say(self, text: str) -> None:
        print("pushpop:", text, file=sys.stderr, flush=True)
