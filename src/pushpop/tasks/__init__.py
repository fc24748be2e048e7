"""Transduction tasks: pairs of sequences drawn at random, and the tensors made of them."""

from pushpop.tasks.base import LengthRange, Pairs, Task, batch_rng, parse_lengths
from pushpop.tasks.batching import Batch, batches, draw_batch, make_batch, make_tag_batch
from pushpop.tasks.grammar import Grammar, Link, Rule
from pushpop.tasks.grammar_file import parse_grammar, read_grammar
from pushpop.tasks.itg import GrammarTask
from pushpop.tasks.registry import TASKS, get_task
from pushpop.tasks.vocabulary import Vocabulary

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
    "make_tag_batch",
    "parse_grammar",
    "parse_lengths",
    "read_grammar",
]
