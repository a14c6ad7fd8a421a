"""What mkdocs needs beside docs/*.md: pages of the API, notebooks, and links that a code host has.

The pages stand as they are on a code host, and `make docs` makes a site of them.
"""

import ast
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import dpbt

ROOT = Path(__file__).parent.parent
MODULES = {
    name: f"{package}.{name}"
    for package, names in dpbt._MODULES.items()
    for name in names.split()
    if name != "learners"
} | {
    name: f"dpbt.{name}"
    for name in ("types", "learners.trees", "privacy.mechanism", "owners.estimators")
}
"""The public modules: their names as attributes of `dpbt`, and where they are."""

OUTSIDE = re.compile(r"(?<=\]\()\.\./([\w/.-]+)")
"""The path in a link of a page of docs/ to a file that is not there."""


def on_config(config: MkDocsConfig) -> None:
    """Add the pages of the API to the navigation."""
    pages: list[Any] = [{"dpbt": "api/dpbt.md"}]
    pages += [{f"dpbt.{name}": f"api/{name}.md"} for name in sorted(MODULES)]
    assert config.nav is not None
    config.nav.insert(-1, {"API": pages})


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add pages of the API and of notebooks, and the files of the checkout that pages link to."""
    for name, module in {"": "dpbt", **MODULES}.items():
        title = f"dpbt.{name}".removesuffix(".")
        text = f"# {title}\n\n::: {module}\n    options:\n      members: {_names(module)}\n"
        for found in filter(_is_hidden, [f"{module}.{one}" for one in _names(module)]):
            text += f"\n::: {_path(found)}\n    options:\n      show_root_heading: true\n"
        files.append(File.generated(config, f"api/{name or 'dpbt'}.md", content=text))

    for path in sorted((ROOT / "docs").glob("**/*.ipynb")):
        name = path.relative_to(ROOT / "docs").with_suffix(".md").as_posix()
        files.append(File.generated(config, name, content=_of_notebook(path)))

    texts = [path.read_text() for path in (ROOT / "docs").glob("*.md")]
    for path in sorted({path for text in texts for path in OUTSIDE.findall(text)}):
        files.append(File(path, str(ROOT), config.site_dir, config.use_directory_urls))


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Point links at the site's pages, and indent lists as Python-Markdown reads them."""
    if (ROOT / "docs" / page.file.src_uri).exists():
        markdown = OUTSIDE.sub(r"\1", markdown)
    markdown = markdown.replace("](../docs/", "](../").replace(".ipynb)", ".md)")
    fenced = re.split(r"(^```.*?^```$)", markdown, flags=re.DOTALL | re.MULTILINE)
    prose = (re.sub(r"^ {2,3}(?=\S)", "    ", text, flags=re.MULTILINE) for text in fenced[::2])
    return "".join(text for pair in zip(prose, [*fenced[1::2], ""], strict=True) for text in pair)


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Link names of the API to where they are described: `dpbt.fit` anywhere, `fit` beside it."""
    module = MODULES.get(page.file.name, "dpbt") if page.file.src_uri.startswith("api/") else None

    def link(found: re.Match) -> str:
        short, dot, rest = found[1].removeprefix("dpbt.").partition(".")
        if found[1].startswith("dpbt.") or (dot and short in MODULES):
            name = _path(".".join([MODULES.get(short, f"dpbt.{short}"), rest]).rstrip("."))
        elif f'id="{module}.{found[1]}"' in html and f"<b><code>{found[1]}<" not in html:
            name = f"{module}.{found[1]}"
        else:
            return found[0]
        return f'<autoref optional identifier="{name}"><code>{found[1]}</code></autoref>'

    return re.sub(r"<code>([a-zA-Z_][\w.]*)</code>(?![^<]*</(?:a|b|h\d|autoref)>)", link, html)


def on_post_build(config: MkDocsConfig) -> None:
    """Keep the index of the search as a script, too, for pages that are opened from a folder."""
    index = Path(config.site_dir) / "search" / "search_index.json"
    index.with_suffix(".js").write_text(f"var __index = {index.read_text()}")


def _is_hidden(name: str) -> bool:
    """Whether a module of the same name stands in front of it."""
    return name not in MODULES.values() and (ROOT / f"{name.replace('.', '/')}.py").exists()


def _path(name: str) -> str:
    """Where a name is found: `recipes.additive.additive`, as `recipes.additive` is a module."""
    return f"{name}.{name.rpartition('.')[2]}" if _is_hidden(name) else name


def _names(module: str) -> list[str]:
    """The public names of a module: of `__all__`, or those that it defines or imports as such."""
    path = ROOT / module.replace(".", "/")
    file = path / "__init__.py"
    if not file.exists():  # a folder may be left of a package that became a module
        file = path.with_suffix(".py")
    names = []
    for node in ast.parse(file.read_text()).body:
        match node:
            case ast.Assign(targets=[ast.Name("__all__")]):
                names = ast.literal_eval(node.value)
                break
            case ast.ImportFrom():
                names += [each.name for each in node.names if each.asname == each.name]
            case ast.FunctionDef() | ast.ClassDef():
                names.append(node.name)
            case ast.Assign(targets=[ast.Name(name)]) | ast.AnnAssign(target=ast.Name(name)):
                names.append(name)
    return [name for name in names if not name.startswith("_")]


def _of_notebook(path: Path) -> str:
    """The cells of a notebook and what they printed, as Markdown."""
    parts = []
    for cell in json.loads(path.read_text())["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            if "image/png" in data:
                parts.append(f"![](data:image/png;base64,{''.join(data['image/png']).strip()})")
            else:
                shown = "".join(output.get("text") or data["text/plain"])
                parts.append(f"```\n{shown.rstrip()}\n```")
    words = "This page is [a notebook]({}) that runs in Jupyter, and in the tests."
    return "\n\n".join([*parts, words.format(path.name)]) + "\n"
