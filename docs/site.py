"""What mkdocs needs beside docs/*.md: pages of the API, notebooks, and links that a code host has.

The pages stand as they are on a code host, and `make docs` makes a site of them. Ledgers become
tables there, and `site.css` stacks the cells of wide tables on a phone.
"""

import ast
import html
import itertools
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
    for name in ("types", "learners.trees", "privacy.mechanism_types", "owners.estimators")
}
"""The public modules: their names as attributes of `dpbt`, and where they are."""

OUTSIDE = re.compile(r"(?<=\]\()\.\./([\w/.-]+)")
"""The path in a link of a page of docs/ to a file that is not there."""

SEARCH_BOOSTS = {"questions": 4, "api/": 0.5}
"""How a page begins -> what its rank in a search is multiplied by: answers come before names."""

FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
"""A block of code or of printed text."""

LEDGER_HEADER = re.compile(r"site {2,}mechanism {2,}releases ")
"""How the columns of a printed ledger begin."""

PHONE_LETTERS = 50
"""The letters of a table that fit beside each other on a phone."""

MIN_PROSE_LETTERS = 16
"""The narrowest column in which sentences can be read."""

NUMBER = re.compile(r"[+-]?[\d.,]+(e[+-]?\d+)?%?")
"""A cell that is one number, which no line may break."""

QUARTER_LETTERS, HALF_LETTERS = 11, 27
"""The longest values of a stacked table that have a quarter and a half of a phone's width."""


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
    """Point links at the site's pages, indent lists as Python-Markdown reads them, show ledgers."""
    boost = next((SEARCH_BOOSTS[name] for name in SEARCH_BOOSTS if page.url.startswith(name)), 1)
    page.meta["search"] = {"boost": boost}
    if (ROOT / "docs" / page.file.src_uri).exists():
        markdown = OUTSIDE.sub(r"\1", markdown)
    markdown = markdown.replace("](../docs/", "](../").replace(".ipynb)", ".md)")
    parts = FENCE.split(markdown)
    prose = (re.sub(r"^ {2,3}(?=\S)", "    ", text, flags=re.MULTILINE) for text in parts[::2])
    blocks = [*map(_show_ledger, parts[1::2]), ""]
    return "".join(text for pair in zip(prose, blocks, strict=True) for text in pair)


def on_page_content(content: str, page: Page, **_: Any) -> str:
    """Link names of the API to where they are described, and prepare tables for narrow windows.

    `dpbt.fit` is linked anywhere, and `fit` on the page of its module.
    """
    module = MODULES.get(page.file.name, "dpbt") if page.file.src_uri.startswith("api/") else None

    def link(found: re.Match) -> str:
        short, dot, rest = found[1].removeprefix("dpbt.").partition(".")
        if found[1].startswith("dpbt.") or (dot and short in MODULES):
            name = _path(".".join([MODULES.get(short, f"dpbt.{short}"), rest]).rstrip("."))
        elif f'id="{module}.{found[1]}"' in content and f"<b><code>{found[1]}<" not in content:
            name = f"{module}.{found[1]}"
        else:
            return found[0]
        return f'<autoref optional identifier="{name}"><code>{found[1]}</code></autoref>'

    names = r"<code>([a-zA-Z_][\w.]*)</code>(?![^<]*</(?:a|b|h\d|autoref)>)"
    content = re.sub(names, link, content)
    content = re.sub(r"<code>(?=--[\w-]{1,20}</code>)", "<code data-option>", content)
    tables = re.compile(r"<table>.*?</table>", re.DOTALL)
    return tables.sub(lambda found: _prepare_table(found[0]), content)


def on_post_build(config: MkDocsConfig) -> None:
    """Keep the index of the search as a script, too, for pages that are opened from a folder."""
    index = Path(config.site_dir) / "search" / "search_index.json"
    index.with_suffix(".js").write_text(f"var __index = {index.read_text()}")


def _show_ledger(block: str) -> str:
    """The block, in which the columns of a printed ledger are a table; other blocks as they are."""
    fence, *lines = block.split("\n")
    header = next((at for at, line in enumerate(lines) if LEDGER_HEADER.match(line)), None)
    if header is None:
        return block
    starts = [found.start() for found in re.finditer(r"(?<=  )\S|^\S", lines[header])]
    stop = header + 1
    while all(lines[stop][start - 2 : start].isspace() for start in starts[1:]):
        stop += 1  # a line that fills the columns, as that with the total does not
    ends = [*starts[1:], None]
    rows = [
        [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]
        for line in lines[header:stop]
    ]
    rows.insert(1, ["---"] * len(starts))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    before = [fence, *lines[:header], "```", ""] if header else []
    return "\n".join([*before, table, "", fence, *lines[stop:]])


def _prepare_table(table: str) -> str:
    """The table, with the words of its header at each cell if a phone must stack its cells.

    Long names of code get places to break at, and numbers get none.
    """
    table = re.sub(r"(?<=<code>)[^<]{13,}(?=</code>)", _break_name, table)
    table = re.sub(rf"<td([^>]*)>(?={NUMBER.pattern}</td>)", r"<td data-number\1>", table)
    header, *rows = [
        re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL)
        for row in re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    ]
    columns = [[_text_of(cell) for cell in column] for column in zip(header, *rows, strict=True)]
    letters = 2 * len(columns)
    for texts in columns:
        longest_word = max(map(len, " ".join(texts).split()), default=0)
        letters += max(longest_word, min(MIN_PROSE_LETTERS, max(map(len, texts))))
    if letters <= PHONE_LETTERS:
        return table

    labels = itertools.cycle(_text_of(label.replace("<wbr>", "")) for label in header)

    def label_cell(found: re.Match) -> str:
        label = next(labels)
        # Code is wider than prose, and a label may have two lines.
        width = max(len(_text_of(found[2])) + 3 * ("<code" in found[2]), len(label) // 2)
        span = "full" if width > HALF_LETTERS else "half" if width > QUARTER_LETTERS else "quarter"
        shown = html.escape(label, quote=True)
        return f'<td data-label="{shown}" data-width="{span}"{found[1]}>{found[2]}</td>'

    head, body = table.split("<tbody>")
    body = re.sub(r"<td([^>]*)>(.*?)</td>", label_cell, body, flags=re.DOTALL)
    return f"{head.replace('<table', '<table data-stack', 1)}<tbody>{body}"


def _break_name(found: re.Match) -> str:
    """A name with places to break at, behind its dots, slashes, commas and underscores."""
    return re.sub(r"([/_.:,=(]+)(?=[^\s/_.:,=()])", r"\1<wbr>", found[0])


def _text_of(cell: str) -> str:
    """The text of a cell, with a space at each place where a name may break."""
    return html.unescape(re.sub(r"<[^>]+>", "", cell.replace("<wbr>", " "))).strip()


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
