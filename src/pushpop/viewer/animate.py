"""A trace as an animated GIF."""

from collections.abc import Iterator
from io import BytesIO

import numpy as np
import numpy.typing as npt
from PIL import Image

from pushpop.viewer.frames import THIN, Moment, Painter
from pushpop.viewer.trace import Trace

GLIDE = 3  # frames of a pop, and of a push
GLIDING = 45  # steps; longer traces jump from step to step
MOST_FRAMES = 160
QUICK, STEP, HOLD = 60, 200, 3000  # milliseconds: in between, of a step, of the last frame
SAMPLES = 8  # frames whose colours are counted
COLOURS, UNKNOWN = 200, 255


def animation(trace: Trace) -> bytes:
    """The GIF file; it repeats, with a pause at the end. The same trace gives the same bytes."""
    painter, moments = Painter(trace), list(_moments(trace))
    chosen = [moments[(len(moments) - 1) * k // (SAMPLES - 1)] for k in range(SAMPLES)]
    palette = _Palette([painter.frame(one) for one in chosen])
    frames = [palette.reduced(painter.frame(one)) for one in moments]
    file = BytesIO()
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:], loop=0, disposal=1,
                   duration=[one.milliseconds for one in moments])  # fmt: skip
    return file.getvalue()


class _Palette:
    """The colours that are seen most. Pillow's own choice would change those of the bands."""

    def __init__(self, samples: list[Image.Image]) -> None:
        found = [np.unique(_codes(one), return_counts=True) for one in samples]
        codes, where = np.unique(np.concatenate([few for few, _ in found]), return_inverse=True)
        counts = np.bincount(where, np.concatenate([many for _, many in found]))
        self.parts = _parts(codes[np.argsort(-counts, kind="stable")][:COLOURS])
        self.numbers = np.full(2**24, UNKNOWN, np.uint8)  # by code

    def reduced(self, image: Image.Image) -> Image.Image:
        """The image in these colours, each pixel in the nearest."""
        codes = _codes(image)
        new = np.unique(codes[self.numbers[codes] == UNKNOWN])
        far = ((_parts(new)[:, None] - self.parts) ** 2).sum(axis=2)
        self.numbers[new] = far.argmin(axis=1)
        found = Image.frombytes("P", image.size, self.numbers[codes].tobytes())
        found.putpalette(self.parts.astype(np.uint8).tobytes())
        return found


def _codes(image: Image.Image) -> npt.NDArray[np.uint32]:
    """A number for each pixel's colour."""
    return np.frombuffer(image.convert("RGBA").tobytes(), np.uint32) & np.uint32(0xFFFFFF)


def _parts(codes: npt.NDArray[np.uint32]) -> npt.NDArray[np.int64]:
    """Red, green and blue."""
    return np.stack([codes & 255, codes >> 8 & 255, codes >> 16], axis=1).astype(np.int64)


def _moments(trace: Trace) -> Iterator[Moment]:
    n_steps = len(trace.steps)
    stride = -(-n_steps // MOST_FRAMES)
    glides = n_steps <= GLIDING and trace.picture == "intervals"
    for t, step in enumerate(trace.steps):
        if glides:
            yield from _glide(trace, t)
        if t == n_steps - 1:
            yield Moment(t, "done", 1.0, False, HOLD)
        elif glides:
            pause = 2 * STEP if step.part == "separator" else STEP // 2
            yield Moment(t, "done", 1.0, False, pause)
        elif t % stride == 0:
            yield Moment(t, "done", 1.0, False, STEP if n_steps <= GLIDING else STEP // 2)


def _glide(trace: Trace, t: int) -> Iterator[Moment]:
    """The frames between two steps: what is popped goes, then what is pushed comes."""
    step = trace.steps[t]
    held = trace.steps[t - 1].top - trace.steps[t - 1].bottom if t else 0.0
    popped = held + sum(step.push) - (step.top - step.bottom)
    pops = t > 0 and (popped > THIN or step.output is not None)
    if pops:
        yield from (Moment(t, "pop", k / GLIDE, True, QUICK) for k in range(1, GLIDE))
    if sum(step.push) > THIN:
        yield from (Moment(t, "push", k / GLIDE, not pops, QUICK) for k in range(GLIDE))
