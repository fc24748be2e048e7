"""Run the cells of examples/tour.ipynb and keep what they show.

python docs/figures/tour.py
"""

from pathlib import Path

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "examples" / "tour.ipynb"


def main() -> None:
    """Run the notebook and write it back."""
    nbformat.write(run(), NOTEBOOK)


class LocalKernel(AsyncKernelManager):
    """A kernel that is talked to by files, not over TCP."""

    transport = "ipc"


def run() -> nbformat.NotebookNode:
    """The notebook with the outputs of a run from the first cell to the last."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(
        notebook,
        kernel_manager_class=LocalKernel,
        timeout=280,
        record_timing=False,  # times would make every run another file
        coalesce_streams=True,
    ).execute()
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    return notebook


if __name__ == "__main__":
    main()
