"""Kernels as torch operators, and which derivatives they support: first-order reverse mode only.

Autograd, fake tensors and `torch.compile` know kernels as operators. What an operator takes is
written once, as the fields of a NamedTuple: an `Operator` reads its schema off the bundles that its
`empty` takes and returns, and finds its gradients by the names of the fields.
"""

import inspect
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Generic, NamedTuple, TypeVar, get_type_hints

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.library import custom_op, infer_schema

Given = TypeVar("Given", bound=tuple[Any, ...])
Returned = TypeVar("Returned", bound=tuple[Any, ...])


def runs_eagerly(x: Tensor) -> bool:
    """Whether a plain call will do: there is no gradient and no graph to take part in.

    The first call of an operator has torch import its compiler, which takes seconds.
    """
    return type(x) is Tensor and not (torch.is_grad_enabled() or torch.compiler.is_compiling())


class Operator(Generic[Given, Returned]):
    """`pushpop::name`, from one NamedTuple to another whose fields are tensors.

    Args:
        name: the operator's name.
        run: computes it.
        empty: the result with its shapes and no numbers; its annotations say which bundles the
            operator takes and returns.
        backend: the backend whose kernels it runs.
        backward: the operator of its backward pass; without one, asking for a gradient raises. Its
            bundle names what it needs: inputs and outputs of this operator by their names (an
            output, where both have one), and gradients of outputs as grad_NAME, `None` if there
            is none. It returns gradients by the names of the inputs.
        devices: the type of the devices it runs on; `None`: any.
    """

    def __init__(
        self,
        name: str,
        run: Callable[[Given], Returned],
        empty: Callable[[Given], Returned],
        backend: str,
        backward: "Operator[Any, Any] | None" = None,
        devices: str | None = None,
    ) -> None:
        self.run, self.backward = run, backward
        self.takes, *_, self.gives = get_type_hints(empty).values()
        self.operator = custom_op(
            f"pushpop::{name}",
            self.run_fields,
            mutates_args=(),
            device_types=devices,
            schema=_schema(self.takes, self.gives),
        )
        self.operator.register_fake(lambda *fields: tuple(empty(self.takes(*fields))))
        if backward is None:
            # Building a graph for this (`create_graph=True`) is not refused: it may never be used.
            self.operator.register_autograd(partial(_refuse, backend))
        else:
            self._register_gradients(backward)

    def __call__(self, bundle: Given) -> Returned:
        returned: Returned = self.gives(*self.operator(*bundle))
        return returned

    def run_fields(self, *fields: Any) -> tuple[Tensor, ...]:
        """What `run` does, from the fields of one bundle to those of the other."""
        return tuple(self.run(self.takes(*fields)))

    def _register_gradients(self, backward: "Operator[Any, Any]") -> None:
        hints = get_type_hints(backward.takes)
        tensors = [name for name, hint in hints.items() if hint is Tensor]  # gradients may be None
        plain = [n for n in hints if n not in tensors and not n.startswith("grad_")]

        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
            ctx.set_materialize_grads(False)
            named = self.takes(*inputs)._asdict() | self.gives(*output)._asdict()
            ctx.plain = {name: named[name] for name in plain}
            ctx.save_for_backward(*(named[name] for name in tensors))

        def differentiate(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
            named = ctx.plain | dict(zip(tensors, ctx.saved_tensors, strict=True))
            for name, grad in zip(self.gives._fields, grads, strict=True):
                named[f"grad_{name}"] = grad
            gradients = backward(backward.takes(*map(named.get, hints)))._asdict()
            return tuple(map(gradients.get, self.takes._fields))

        self.operator.register_autograd(differentiate, setup_context=setup_context)


def declare(
    name: str,
    backend: str,
    function: str,
    empty: Callable[[Given], Returned],
    empty_gradients: Callable[[Any], Any],
    devices: str | None = None,
) -> Operator[Given, Returned]:
    """An operator with its backward pass: module.function and module.function_backward, imported
    when they first run."""
    module, _, function = function.rpartition(".")

    def imported(name: str) -> Callable[[Any], Any]:
        return lambda bundle: getattr(import_module(module), name)(bundle)

    backward: Operator[Any, Any] = Operator(
        f"{name}_backward", imported(f"{function}_backward"), empty_gradients, backend,
        devices=devices,
    )  # fmt: skip
    return Operator(name, imported(function), empty, backend, backward, devices)


def _schema(takes: Any, gives: Any) -> str:
    fields = [
        inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=hint)
        for name, hint in get_type_hints(takes).items()
    ]
    tensors: Any = tuple.__class_getitem__((Tensor,) * len(gives._fields))

    def prototype() -> None: ...

    prototype.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        fields, return_annotation=tensors
    )
    return infer_schema(prototype, mutates_args=())


def under_transform() -> bool:
    """Whether forward-mode derivatives, a transform of `torch.func` or an export to ONNX is active.

    Kernels would be wrong then: a tangent would be lost without an error, and ONNX has none.
    """
    active = getattr(torch._C, "_are_functorch_transforms_active", None)
    in_functorch = active is not None and bool(active())
    forwards = getattr(forward_ad, "_current_level", -1) >= 0
    return in_functorch or forwards or torch.onnx.is_in_onnx_export()


def _refuse(backend: str, ctx: Any, *grads: Any) -> Any:
    raise RuntimeError(f"backend {backend!r} has no second derivative; use backend='reference'")


class _Refused(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        return tuple(_refuse("fused", ctx))


class _FirstOrderOnly(_Refused):
    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
        if not torch.is_grad_enabled():
            return gradients
        refused: tuple[Tensor, ...] = _Refused.apply(*gradients)  # type: ignore[no-untyped-call]
        return refused


def first_order_only(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The same tensors, made by kernels; asking for a derivative of their gradient raises."""
    watched: tuple[Tensor, ...] = _FirstOrderOnly.apply(*tensors)  # type: ignore[no-untyped-call]
    return watched


class WalkInput(NamedTuple):
    """What a walk over whole sequences takes. Gates and strengths are as wide as sums need."""

    kind: int  # in `kinds.KINDS`
    values: Tensor  # [T, B, E, D]
    push: Tensor  # [T, B, E]
    pop: Tensor  # [T, B, E]
    initial: Tensor  # [B, N, D]
    strengths: Tensor  # [B, N]


class WalkOutput(NamedTuple):
    """The reads, the final cells (as `state.WalkResult` has them) and the log of the pops
    (`fused/walk.py`), with room for N + T*E cells. Reads have the dtype of the values, all else
    that is not a whole number that of the strengths.
    """

    reads: Tensor  # [T, B, E, D]
    strengths: Tensor  # [B, room]
    row_ids: Tensor  # [B, room]
    counts: Tensor  # [B]
    log_row_ids: Tensor  # [B, room]
    log_strengths: Tensor  # [B, room]
    dropped: Tensor  # [T*B, 2]
    trimmed_from: Tensor  # [T*B, 2]


def final_of(bundle: Any) -> tuple[Tensor, Tensor, Tensor]:
    """The final cells in a bundle that has them: `final` of `fused.walk`."""
    return bundle.strengths, bundle.row_ids, bundle.counts


def log_of(bundle: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The log of the pops in a bundle that has it: `log` of `fused.walk`."""
    return bundle.log_row_ids, bundle.log_strengths, bundle.dropped, bundle.trimmed_from


class WalkBackwardInput(NamedTuple):
    """What the backward pass of a walk takes."""

    kind: int
    values: Tensor
    initial: Tensor
    strengths: Tensor
    row_ids: Tensor
    counts: Tensor
    log_row_ids: Tensor
    log_strengths: Tensor
    dropped: Tensor
    trimmed_from: Tensor
    grad_reads: Tensor | None
    grad_strengths: Tensor | None


class WalkGradients(NamedTuple):
    """The gradients of the inputs of a walk."""

    values: Tensor
    push: Tensor
    pop: Tensor
    initial: Tensor
    strengths: Tensor


def empty_walk(inputs: WalkInput) -> WalkOutput:
    T, B, E, _ = inputs.values.shape
    room, new = inputs.strengths.shape[1] + T * E, inputs.strengths.new_empty
    return WalkOutput(
        reads=inputs.values.new_empty(inputs.values.shape),
        strengths=new(B, room),
        row_ids=new(B, room, dtype=torch.int64),
        counts=new(B, dtype=torch.int64),
        log_row_ids=new(B, room, dtype=torch.int64),
        log_strengths=new(B, room),
        dropped=new(T * B, 2, dtype=torch.int64),
        trimmed_from=new(T * B, 2),
    )


def empty_walk_gradients(inputs: WalkBackwardInput) -> WalkGradients:
    """The gradients of a walk, empty; zeros for the initial cells."""
    values, initial, strengths = inputs.values, inputs.initial, inputs.strengths
    return WalkGradients(
        values=values.new_empty(values.shape),
        push=strengths.new_empty(values.shape[:3]),
        pop=strengths.new_empty(values.shape[:3]),
        initial=values.new_zeros(initial.shape),
        strengths=strengths.new_zeros(initial.shape[:2]),
    )


def walk_grads(inputs: WalkBackwardInput) -> tuple[Tensor, Tensor]:
    """The gradients of the reads and of the final strengths; zeros where there are none."""
    grad_reads, grad_strengths = inputs.grad_reads, inputs.grad_strengths
    if grad_reads is None:
        grad_reads = torch.zeros_like(inputs.values)
    if grad_strengths is None:
        grad_strengths = torch.zeros_like(inputs.strengths)
    return grad_reads, grad_strengths
