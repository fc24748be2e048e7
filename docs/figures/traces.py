"""Draw traces of the shipped models: docs/figures/trace-TASK.png, trace-reverse.gif, gallery.html.

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
    models = by_task()
    traces = {task: example(entry, task) for task, entry in models.items()}
    for task in PICTURED:
        if task in traces:
            path = DOCS / "figures" / f"trace-{task}.png"
            path.write_bytes(picture(traces[task], "png"))
    (DOCS / "figures" / "trace-reverse.gif").write_bytes(animation(traces["reverse"]))
    page = trace_page(
        [page_data(told, title(told), TEXTS.get(task, "")) for task, told in traces.items()],
        "pushpop: a gallery of memories at work",
        "one model a task; bright is what a read reaches. Press the arrow keys in a picture's bar.",
    )
    (DOCS / "gallery.html").write_text(page, "utf-8")
    print("drew", ", ".join(traces) or "nothing: there are no shipped models")


def by_task() -> dict[str, Entry]:
    """The first shipped model of each task that gets the example right, else the first; a deque
    comes last, as there is more to look at."""
    found: dict[str, Entry] = {}
    for task in TASKS:
        entries = [entry for entry in map(open_model, shipped_models()) if entry.task == task]
        entries.sort(key=lambda entry: entry.model.config.memory == "deque")
        right = [entry for entry in entries if example(entry, task).right]
        if entries:
            found[task] = (right or entries)[0]
    return found


def example(entry: Entry, task: str) -> Trace:
    """The trace that is shown of a model."""
    pair = generate(task, LENGTH.get(task, 12), seed=1)
    return trace(entry.model, pair, name=entry.name, task=task)


def title(told: Trace) -> str:
    """A heading: the task and the memory."""
    return f"{told.task}, with a {told.memory}"


if __name__ == "__main__":
    main()
