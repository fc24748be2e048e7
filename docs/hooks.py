"""Hooks of `make docs`: pages made from the repository, and links that lead out of docs/.

The API pages list the public names of each package, the tour is the notebook in examples/, the
gallery has a trace of every task of the models that come with pushpop, and a file that a page links
to by `../` is copied into the site, so that the link works there too.
"""

import ast
import json
import re
import runpy
from pathlib import Path
from posixpath import dirname, normpath, relpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
TOUR = "examples/tour.ipynb"
OUTSIDE = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md", "tour.md": TOUR}
"""Pages of the site that are made from files outside docs/."""
PACKAGES = ("memory", "layers", "models", "tasks", "training", "viewer", "experiments")
MODULES = {"evaluation": ["evaluate", "evaluate_lengths", "score", "Scores"]}
"""A module without an `__all__`, and what it has for users."""
OPTIONS = {"TrainConfig": "\n    options: {show_signature: false}"}
"""Of mkdocstrings: the defaults of `TrainConfig` are calls, and docs/training.md lists them."""
LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that are not files in docs/."""
    made = {page: (ROOT / path).read_text("utf-8") for page, path in OUTSIDE.items()}
    made["tour.md"] = notebook_page(json.loads(made["tour.md"]))
    made["gallery.html"] = runpy.run_path(str(ROOT / "docs/figures/traces.py"))["gallery"]()
    for page, content in {**made, **api_pages()}.items():
        files.append(File.generated(config, page, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files outside docs/ lead to their pages, or to copies of them in the site."""
    here = page.file.src_uri
    source = OUTSIDE.get(here, f"docs/{here}")
    pages = {path: name for name, path in OUTSIDE.items()} | {"README.md": "index.md"}

    def follow(link: re.Match[str]) -> str:
        path = normpath(f"{dirname(source)}/{link[1]}").lstrip("/")
        target = pages.get(path, path.removeprefix("docs/"))
        if target not in files.src_uris and (ROOT / path).is_file():
            files.append(File.generated(config, target, content=(ROOT / path).read_bytes()))
        if target not in files.src_uris:
            return link[0]  # mkdocs says what is wrong with it
        return f"]({relpath(target, dirname(here) or '.')}{link[2] or ''})"

    return as_on_code_hosts(LINK.sub(follow, markdown))


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """A bar in the code of a table is written as `\\|`, and shown without the backslash."""
    return re.sub(r"<code>[^<]*</code>", lambda code: code[0].replace(r"\|", "|"), html)


def as_on_code_hosts(markdown: str) -> str:
    """Lists right after a paragraph, and Markdown inside <details>: here they need a sign."""
    markdown = markdown.replace("<details>", "<details markdown>")
    return re.sub(r"^(?![-|> ])(.+)\n(?=- )", r"\1\n\n", markdown, flags=re.MULTILINE)


def notebook_page(notebook: dict[str, Any]) -> str:
    """The cells of a notebook with their outputs, as Markdown."""
    parts = []
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                parts.append(
                    f"![output](data:image/png;base64,{''.join(data['image/png']).strip()})"
                )
            elif printed := output.get("text") or data.get("text/plain"):
                parts.append(f"```text\n{''.join(printed).rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def api_pages() -> dict[str, str]:
    """A page a package: the first line of its docstring, then what it exports."""
    top = exported("__init__.py")
    names = {package: exported(f"{package}/__init__.py") for package in PACKAGES} | MODULES
    for listed in names.values():
        listed.sort(key=lambda name: name not in top)
    pages = {
        f"api/{module}.md": "\n\n".join(
            [f"# pushpop.{module}", summary(module)]
            + [f"::: pushpop.{module}.{name}{OPTIONS.get(name, '')}" for name in listed]
        )
        for module, listed in names.items()
    }
    where = {name: module for module, listed in names.items() for name in listed}
    links = "\n".join(
        f"- [`{name}`]({where[name]}.md#pushpop.{where[name]}.{name})" for name in top
    )
    rows = "\n".join(f"| [pushpop.{name}]({name}.md) | {summary(name)} |" for name in names)
    pages["api/index.md"] = (
        "# API reference\n\nMade from the docstrings. What most programs need can be imported from "
        f"`pushpop` itself:\n\n{links}\n\n| package | |\n|---|---|\n{rows}\n"
    )
    return pages


def exported(path: str) -> list[str]:
    """`__all__` of a file of the package, without running it: classes, functions, constants."""
    tree = ast.parse((ROOT / "src" / "pushpop" / path).read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = ast.literal_eval(node.value)
            return sorted(names, key=lambda name: (name.isupper(), name[0].islower(), name.lower()))
    raise ValueError(f"{path} has no __all__")


def summary(module: str) -> str:
    """The first paragraph of a module's docstring."""
    folder = ROOT / "src" / "pushpop"
    file = folder / module / "__init__.py" if module in PACKAGES else folder / f"{module}.py"
    text = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return " ".join(text.partition("\n\n")[0].split())
