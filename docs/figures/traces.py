"""Draw traces of the shipped models: docs/figures/trace-TASK.png, trace-reverse.gif. Of all their
tasks `make docs` makes a gallery.

python docs/figures/traces.py
"""

from pathlib import Path

from pushpop.models import shipped_models
from pushpop.tasks.registry import TASKS
from pushpop.viewer.draw import animation, picture
from pushpop.viewer.export import page_data, trace_page
from pushpop.viewer.tracing import Entry, Trace, generate, open_model, trace

DOCS = Path(__file__).parents[1]
PICTURED = ("copy", "reverse", "flip")
LENGTH = {"svo-sov": 14, "gender": 14}
TEXTS = {
    "copy": "The target is the source. Symbols go in at one end and come out at the other.",
    "reverse": "The target is the source read backwards: what went on last comes off first.",
    "flip": "Every two neighbours change places, so two cells must be within reach at a time.",
    "svo-sov": "Subject verb object becomes subject object verb. The main verb alone is not "
    "pushed: the controller keeps it in mind.",
    "gender": "Words from a language without genders to one that has them: articles depend on "
    "nouns that come later.",
}


def main() -> None:
    """Draw everything again."""
    traces = by_task()
    for task in PICTURED:
        if task in traces:
            path = DOCS / "figures" / f"trace-{task}.png"
            path.write_bytes(picture(traces[task], "png"))
    (DOCS / "figures" / "trace-reverse.gif").write_bytes(animation(traces["reverse"]))
    print("drew", ", ".join(traces) or "nothing: there are no shipped models")


def gallery() -> str:
    """A page with a trace of every task."""
    return trace_page(
        [page_data(told, title(told), TEXTS.get(task, "")) for task, told in by_task().items()],
        "pushpop: a gallery of memories at work",
        "one model a task; bright is what a read reaches. Press the arrow keys in a picture's bar.",
    )


def by_task() -> dict[str, Trace]:
    """The trace of the first shipped model of each task that gets the example right, else of the
    first; a deque comes last, as there is more to look at."""
    traces: dict[str, Trace] = {}
    for task in TASKS:
        entries = [entry for entry in map(open_model, shipped_models()) if entry.task == task]
        entries.sort(key=lambda entry: entry.model.config.memory == "deque")
        told = [example(entry, task) for entry in entries]
        if told:
            traces[task] = next((one for one in told if one.right), told[0])
    return traces


def example(entry: Entry, task: str) -> Trace:
    """The trace that is shown of a model."""
    pair = generate(task, LENGTH.get(task, 12), seed=1)
    return trace(entry.model, pair, name=entry.name, task=task)


def title(told: Trace) -> str:
    """A heading: the task and the memory."""
    return f"{told.task}, with a {told.memory}"


if __name__ == "__main__":
    main()
