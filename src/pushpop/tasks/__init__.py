"""Transduction tasks: pairs of sequences drawn at random, and the tensors made of them."""

from typing import TYPE_CHECKING

from pushpop.lazy import import_when_asked

if TYPE_CHECKING:
    from pushpop.tasks.base import Pairs, Task, Vocabulary, batch_rng
    from pushpop.tasks.batching import (
        Batch,
        batches,
        draw_batch,
        make_batch,
        make_line_batch,
        make_tag_batch,
    )
    from pushpop.tasks.grammar import Grammar, Link, Rule, parse_grammar, read_grammar
    from pushpop.tasks.grammar_task import GrammarTask
    from pushpop.tasks.registry import TASKS, LengthRange, get_task, parse_lengths

__all__ = [
    "TASKS",
    "Batch",
    "Grammar",
    "GrammarTask",
    "LengthRange",
    "Link",
    "Pairs",
    "Rule",
    "Task",
    "Vocabulary",
    "batch_rng",
    "batches",
    "draw_batch",
    "get_task",
    "make_batch",
    "make_line_batch",
    "make_tag_batch",
    "parse_grammar",
    "parse_lengths",
    "read_grammar",
]

import_when_asked(__name__)
