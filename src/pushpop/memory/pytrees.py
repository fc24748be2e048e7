"""States as torch knows them: trees of tensors, which `torch.load` trusts.

With it `tree_map`, `torch.func`, `torch.export` and distributed wrappers find the tensors of a
state, and `torch.load(weights_only=True)`, the default, loads one.
"""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch.utils import _pytree as pytree


def register_state(
    state: type, children: Callable[[Any], dict[str, Any]], make: Callable[..., Any]
) -> None:
    """Make a type known by its tensors, or by states of its own, each with a name; `make` takes
    them in their order."""

    def flatten(tree: Any) -> tuple[list[Any], None]:
        return list(children(tree).values()), None

    def flatten_with_keys(tree: Any) -> tuple[list[tuple[Any, Any]], None]:
        return [(pytree.GetAttrKey(name), child) for name, child in children(tree).items()], None

    def unflatten(leaves: Iterable[Any], context: None) -> Any:
        return make(*leaves)

    pytree.register_pytree_node(
        state, flatten, unflatten,
        serialized_type_name=f"{state.__module__}.{state.__qualname__}",
        flatten_with_keys_fn=flatten_with_keys,
    )  # fmt: skip
    torch.serialization.add_safe_globals([state])
