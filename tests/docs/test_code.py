"""The Python blocks of a page run, in their order, as one program."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, blocks, name_of

WITH_CODE = [page for page in PAGES if blocks(page, "python")]
PRINTED = {
    "README.md": r"\['a3 a2 a1'\]\n",
    "docs/experiments.md": r"(.*\n)+\['done'\]\n\*\*With the recipe `paper`\*\*\n[\s\S]*",
    "docs/models.md": r"\{'task': 'reverse'\}.*\n(.+\n){3}\['\S+ \S+ \S+ \S+'\]\n",
    "docs/training.md": r"(.+\n){3}",
}
"""What a page prints, where it can be said."""


@pytest.mark.parametrize("page", WITH_CODE, ids=name_of)
def test_the_python_blocks_run(
    page: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    code = "\n".join(blocks(page, "python"))
    exec(compile(code, name_of(page), "exec"), {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert re.fullmatch(PRINTED.get(name_of(page), r"[\s\S]*"), printed), printed


def test_most_pages_have_code() -> None:
    assert {name_of(page) for page in WITH_CODE} >= {"docs/index.md", "docs/tasks.md", *PRINTED}
