"""Stacks and queues over whole sequences on a GPU, as four operators; `triton_linked.py` has the
kernels and says what links are.

`link_strength` is a differentiable function of the births and pops, and reads are one of values,
births and link strengths. So each half has its own operator and backward operator, and what is left
at the end is plain torch on their results.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

from pushpop.memory.autograd import refuse_second_derivative
from pushpop.memory.state import Cells, Walked

STACK = 0  # as in ops.KINDS
DEVICES = ("cuda", "cpu")  # the CPU under Triton's interpreter


class Linked(NamedTuple):
    """The cells that a sequence leaves, found by their links only if somebody asks for them."""

    kind: int
    birth: Tensor  # [B, N + T]
    link_strength: Tensor
    link: Tensor
    pushed: Tensor  # [T, B, 1, D]
    initial: Tensor  # [B, N, D]
    versions: int = 0  # as in `Walked`

    @property
    def shape(self) -> tuple[int, int]:
        return self.birth.shape[0], self.pushed.shape[-1]

    @property
    def dtype(self) -> torch.dtype:
        return self.pushed.dtype

    @property
    def device(self) -> torch.device:
        return self.birth.device

    @property
    def requires_grad(self) -> bool:
        tensors = (self.birth, self.link_strength, self.pushed, self.initial)
        return any(x.requires_grad for x in tensors)

    def watched(self) -> "Linked":
        """As `Walked.watched`."""
        return self._replace(versions=1 + self.pushed._version + self.initial._version)

    def cells(self) -> Cells:
        B, M = self.birth.shape
        N = self.initial.shape[1]
        live, strengths = (self._of_stack if self.kind == STACK else self._of_queue)()
        places = torch.arange(M, device=self.device)
        newest = places == M - 1
        # A row that met a NaN keeps it at its top; adding it elsewhere would add NaN to 0 there.
        last = self.link_strength[:, -1:].detach()
        strengths = torch.where(newest & last.isnan(), last, strengths)
        # Only a cell just pushed can have a gradient without strength.
        keep = live & ((strengths != 0) | newest)
        rows = torch.arange(B, device=self.device)[:, None]
        row_ids = torch.where(places >= N, (places - N) * B + rows, ~(rows * N + places))
        order = keep.to(torch.uint8).argsort(dim=1, descending=True, stable=True)
        walked = Walked(
            torch.where(keep, strengths, 0).gather(1, order),
            row_ids.gather(1, order),
            keep.sum(1),
            self.pushed,
            self.initial,
            self.versions,
        )
        return walked.cells()

    def _of_stack(self) -> tuple[Tensor, Tensor]:
        """Which cells are on the list of the last one, and their strengths, [B, M] each."""
        M = self.birth.shape[1]
        places = torch.arange(M, device=self.device)
        # Live: no later cell was pushed onto one further down. The strength of a live cell is the
        # link strength of the next one.
        lowest_later = _smallest_after(self.link.long(), M)
        live = lowest_later >= places
        above = _smallest_after(torch.where(live, places, M), M).clamp(max=M - 1)
        beneath = self.link_strength.gather(1, above)
        return live, torch.cat([beneath[:, :-1], self.birth[:, -1:]], dim=1)

    def _of_queue(self) -> tuple[Tensor, Tensor]:
        places = torch.arange(self.birth.shape[1], device=self.device)
        lowest = self.link[:, -1:]
        trimmed = (places == lowest) & (places < len(places) - 1)
        return places >= lowest, torch.where(trimmed, self.link_strength[:, -1:], self.birth)

    def detach(self) -> "Linked":
        return self._replace(
            birth=self.birth.detach(),
            link_strength=self.link_strength.detach(),
            pushed=self.pushed.detach(),
            initial=self.initial.detach(),
        )


def _smallest_after(x: Tensor, none: int) -> Tensor:
    """min_{j > i} x[:, j] for every i; `none` at the last."""
    later = torch.nn.functional.pad(x[:, 1:], (0, 1), value=none)
    return later.flip(1).cummin(1).values.flip(1)


def run(
    kind: int, values: Tensor, push: Tensor, pop: Tensor, initial: Tensor, strengths: Tensor
) -> tuple[Tensor, Linked]:
    """values [T, B, 1, D], push and pop [T, B, 1], initial [B, N, D], strengths [B, N] -> reads
    [T, B, 1, D], and what is left."""
    birth = torch.cat([strengths, push[..., 0].T], dim=1)
    link_strength, link, depth = links(kind, birth, pop[..., 0].T)
    reads = gather(kind, values, initial, birth, link_strength, link, depth)[0]
    return reads, Linked(kind, birth, link_strength, link, values, initial)


@torch.library.custom_op("pushpop::links", mutates_args=(), device_types=DEVICES)
def links(kind: int, birth: Tensor, pop: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """birth [B, M] and pop [B, T] -> link strength, link and depth [B, M]."""
    from pushpop.memory import triton_launch

    out = _fake_links(kind, birth, pop)
    triton_launch.links(kind, birth, pop, *out)
    return out


def _fake_links(kind: int, birth: Tensor, pop: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    link, depth = (birth.new_empty(birth.shape, dtype=torch.int32) for _ in range(2))
    return birth.new_empty(birth.shape), link, depth


@torch.library.custom_op("pushpop::links_backward", mutates_args=(), device_types=DEVICES)
def links_backward(
    kind: int, birth: Tensor, pop: Tensor, link_strength: Tensor, link: Tensor, grad: Tensor
) -> tuple[Tensor, Tensor]:
    """The gradients of births and pops from that of the link strengths."""
    from pushpop.memory import triton_launch

    return triton_launch.links_backward(kind, birth, pop, link_strength, link, grad)


@links_backward.register_fake
def _(kind: int, birth: Tensor, pop: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
    return birth.new_empty(birth.shape), pop.new_empty(pop.shape)


def _links_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    kind, birth, pop = inputs
    ctx.kind = kind
    ctx.save_for_backward(birth, pop, *output[:2])


def _links_gradients(ctx: Any, grad: Tensor, *_: Any) -> Any:
    return None, *links_backward(ctx.kind, *ctx.saved_tensors, grad)


@torch.library.custom_op("pushpop::gather", mutates_args=(), device_types=DEVICES)
def gather(
    kind: int,
    values: Tensor,
    initial: Tensor,
    birth: Tensor,
    link_strength: Tensor,
    link: Tensor,
    depth: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The reads [T, B, 1, D]; of every window [T, B] the number of cells it holds in full, how much
    it holds of the cell that it cuts, and that cell."""
    from pushpop.memory import triton_launch

    out = _fake_gather(kind, values, initial, birth)
    triton_launch.gather(kind, values, initial, birth, link_strength, link, *out)
    return out


def _fake_gather(
    kind: int, values: Tensor, initial: Tensor, birth: Tensor, *_: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    T, B = values.shape[:2]
    n_full, cut_cell = (birth.new_empty(T, B, dtype=torch.int32) for _ in range(2))
    return values.new_empty(values.shape), n_full, birth.new_empty(T, B), cut_cell


@torch.library.custom_op("pushpop::gather_backward", mutates_args=(), device_types=DEVICES)
def gather_backward(
    kind: int,
    values: Tensor,
    initial: Tensor,
    birth: Tensor,
    link_strength: Tensor,
    link: Tensor,
    depth: Tensor,
    n_full: Tensor,
    cut: Tensor,
    cut_cell: Tensor,
    grad: Tensor,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The gradients of values, initial values, births and link strengths from that of the reads."""
    from pushpop.memory import triton_launch

    return triton_launch.gather_backward(
        kind, values, initial, birth, link_strength, link, depth, n_full, cut, cut_cell, grad
    )


@gather_backward.register_fake
def _(
    kind: int, values: Tensor, initial: Tensor, birth: Tensor, *_: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    given = (values, initial, birth, birth)
    grad_values, grad_initial, grad_birth, grad_link = (x.new_empty(x.shape) for x in given)
    return grad_values, grad_initial, grad_birth, grad_link


def _gather_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.kind = inputs[0]
    ctx.save_for_backward(*inputs[1:], *output[1:])


def _gather_gradients(ctx: Any, grad: Tensor, *_: Any) -> Any:
    return None, *gather_backward(ctx.kind, *ctx.saved_tensors, grad), None, None


links.register_fake(_fake_links)
links.register_autograd(_links_gradients, setup_context=_links_context)
gather.register_fake(_fake_gather)
gather.register_autograd(_gather_gradients, setup_context=_gather_context)
refuse_second_derivative(links_backward, "triton")
refuse_second_derivative(gather_backward, "triton")
