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

`make figures` draws them again as PDF and PNG. [Reproduction](reproduction.md) has the numbers.
Blue is the published calibration and orange is the tight one, unless a legend says otherwise.
Figures are seven inches wide in print. Their letters have seven points or more.
"""


class Picture(NamedTuple):
    """A picture of the page.

    Attributes:
        name: the figure's module, such as bun_2020/theorems.
        file: the picture, below the folder of the page.
        title: the name of the figure.
    """

    name: str
    file: str
    title: str


def add_picture(figure: Figure, name: str, title: str, folder: Path) -> Picture:
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
    write_atomically(
        folder / file, lambda partial_path: picture.save(partial_path, format="png", optimize=True)
    )
    return Picture(name, file, title)


def write_page(
    drawn_pictures: Sequence[Picture], names: Sequence[str], titles: Mapping[str, str], folder: Path
) -> Path:
    """Write gallery.md, and take away pictures that it does not show.

    Args:
        drawn_pictures: the pictures that were drawn.
        names: the figures that were to be drawn. All others keep the pictures that they have.
        titles: all figures, in the order of the page, and what stands above each.
        folder: the folder of the page.
    """
    old_pictures = [picture for picture in read_pictures(folder) if picture.name not in names]
    all_pictures = [
        picture
        for name in titles
        for picture in (*drawn_pictures, *old_pictures)
        if picture.name == name
    ]
    sections = [INTRODUCTION]
    for paper, words in TITLES.items():
        of_paper = [picture for picture in all_pictures if picture.name.split("/")[0] == paper]
        if of_paper:
            sections.append(f"## {words}\n")
        for name in dict.fromkeys(picture.name for picture in of_paper):
            sections.append(f"### {name}\n\n{titles[name]}\n")
            sections += [
                f"![{picture.title}]({picture.file})\n"
                for picture in of_paper
                if picture.name == name
            ]
    path = folder / PAGE
    text = "\n".join(sections)
    write_atomically(path, lambda partial_path: partial_path.write_text(text))
    files = {picture.file for picture in all_pictures}
    for path_of_picture in (folder / FOLDER).glob("*.png"):
        if f"{FOLDER}/{path_of_picture.name}" not in files:
            path_of_picture.unlink()
    return path


def read_pictures(folder: Path) -> list[Picture]:
    """The pictures that the page in a folder shows and that are there; none without a page."""
    path, name, pictures = folder / PAGE, "", []
    for line in path.read_text().splitlines() if path.exists() else ():
        if line.startswith("### "):
            name = line.removeprefix("### ")
        match = re.fullmatch(r"!\[(.*)\]\((.*)\)", line)
        if match and (folder / match[2]).exists():
            pictures.append(Picture(name, match[2], match[1]))
    return pictures
