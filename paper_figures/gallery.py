"""The gallery of the documentation: a small picture of each figure, and a page of them all."""

import io
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from matplotlib.figure import Figure

from dpbt.common.storage import write_atomically

FOLDER, PAGE = "gallery", "gallery.md"
DPI, COLOURS = 130, 128
"""Pixels an inch of a picture, and the number of its colours; letters have 12 pixels or more."""

TITLES = {
    "nock_henecka_2020": "Nock & Henecka (2020)",
    "asadi_2022": "Asadi et al. (2022)",
    "bun_2020": "Bun et al. (2020)",
    "bojarski_2014": "Bojarski et al. (2014)",
}
INTRODUCTION = """\
# Gallery

This page shows all figures of the papers, drawn from the aggregated results in
[reproduction/](../reproduction/README.md). It is for readers who compare them with the print.

`make figures` draws them again as PDF and PNG. [reproduction.md](reproduction.md) has the numbers.
Blue is the published calibration and orange is the tight one, unless a legend says otherwise.
Figures are seven inches wide in print. Their letters have seven points or more.
"""


class Shown(NamedTuple):
    """A picture of the page.

    Attributes:
        name: the figure's module, such as bun_2020/theorems.
        file: the picture, below the folder of the page.
        title: the name of the figure.
    """

    name: str
    file: str
    title: str


def add(figure: Figure, name: str, title: str, folder: Path) -> Shown:
    """Write a small picture of a figure.

    Args:
        figure: the figure.
        name: its module, such as bun_2020/theorems.
        title: its name; a module can have many.
        folder: the folder of the page.
    """
    from PIL import Image

    raw = io.BytesIO()
    figure.savefig(raw, dpi=DPI, format="png")
    picture = Image.open(raw).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE)
    file = f"{FOLDER}/{title.replace('/', '_')}.png"
    write_atomically(folder / file, lambda part: picture.save(part, format="png", optimize=True))
    return Shown(name, file, title)


def page(
    shown: Sequence[Shown], tried: Sequence[str], titles: Mapping[str, str], folder: Path
) -> Path:
    """Write gallery.md, and take away pictures that it does not show.

    Args:
        shown: the pictures that were drawn.
        tried: the figures that were to be drawn. All others keep the pictures that they have.
        titles: all figures, in the order of the page, and what stands above each.
        folder: the folder of the page.
    """
    kept = [one for one in pictures(folder) if one.name not in tried]
    everything = [one for name in titles for one in (*shown, *kept) if one.name == name]
    parts = [INTRODUCTION]
    for paper, words in TITLES.items():
        own = [one for one in everything if one.name.split("/")[0] == paper]
        if own:
            parts.append(f"## {words}\n")
        for name in dict.fromkeys(one.name for one in own):
            parts.append(f"### {name}\n\n{titles[name]}\n")
            parts += [f"![{one.title}]({one.file})\n" for one in own if one.name == name]
    path = folder / PAGE
    text = "\n".join(parts)
    write_atomically(path, lambda part: part.write_text(text))
    files = {one.file for one in everything}
    for old in (folder / FOLDER).glob("*.png"):
        if f"{FOLDER}/{old.name}" not in files:
            old.unlink()
    return path


def pictures(folder: Path) -> list[Shown]:
    """The pictures that the page in a folder shows and that are there; none without a page."""
    path, name, found = folder / PAGE, "", []
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.startswith("### "):
            name = line.removeprefix("### ")
        match = re.fullmatch(r"!\[(.*)\]\((.*)\)", line)
        if match and (folder / match[2]).exists():
            found.append(Shown(name, match[2], match[1]))
    return found
