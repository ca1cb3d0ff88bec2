"""Pictures: chart specifications rendered to SVG and PNG, light and dark, and pages that hold them."""

from __future__ import annotations

import json
import re
import textwrap
import zlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.core.errors import DeclarationError, nearest
from sordino.core.templates import open_templates

if TYPE_CHECKING:
    import altair as alt


# ---- What all pictures share: titles in lines, the mark NOT PRIVATE, colors, rows as inline data. It knows no subject

if TYPE_CHECKING:
    import altair as alt

    AnyChart = alt.LayerChart | alt.FacetChart | alt.HConcatChart | alt.VConcatChart

NOT_PRIVATE = "NOT PRIVATE"
SEEDED = "its noise was seeded"
# Okabe and Ito's palette, distinct to the color-blind, then darker ones.
COLORS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"),
    *("#7f3c8d", "#8c564b", "#999999", "#4b5320", "#b22222"),
)


def mark_title(title: str, mark: str | None) -> str:
    """Return a title that starts with the mark.

    >>> mark_title("Ages", "its noise was seeded")
    'NOT PRIVATE (its noise was seeded): Ages'
    """
    return title if mark is None else f"{NOT_PRIVATE} ({mark}): {title}"


def title_of(title: str, notes: Sequence[str], *, width: int, alarm: bool) -> alt.TitleParams:
    """Return a title and its notes in lines that fit a picture of `width`; in red where `alarm`."""
    import altair as alt

    more: dict[str, Any] = {"color": "#b22222"} if alarm else {}
    return alt.TitleParams(
        # DejaVu, the widest font that a plain system falls back on, fits too.
        text=_lines(title, width * 10 // 93),
        subtitle=[line for note in notes for line in _lines(note, width * 10 // 66)],
        anchor="start",
        fontSize=14,
        subtitleFontSize=11,
        subtitleColor="#555555",
        offset=12,
        **more,
    )


def add_title(
    chart: Any, title: str, notes: Sequence[str], *, width: int, mark: str | None = None
) -> tuple[AnyChart, str]:
    """Give a chart its title and notes; return it, and the title as text: in red, and NOT PRIVATE, where there is a `mark`."""
    words = mark_title(title, mark)
    chart.title = title_of(words, notes, width=width, alarm=mark is not None)
    return chart, words


def unchecked() -> AbstractContextManager[None]:
    """Let parts of charts be made without a look at Vega-Lite's schema, which takes longer than all else of a drawing.

    The tests hold whole pictures to the schema.
    """
    from altair.utils.schemapi import debug_mode

    return debug_mode(False)


def join_panels(panels: Sequence[Any]) -> Any:
    """Return panels side by side, or the only one by itself."""
    import altair as alt

    return panels[0] if len(panels) == 1 else alt.hconcat(*panels)


def data_of(rows: Sequence[dict[str, Any]]) -> Any:
    """Return rows as data inside a chart, however many."""
    import altair as alt

    # Altair copies what a layer or a panel holds, lists and dictionaries within it too: a tuple it passes on as it is.
    return alt.Data(values=tuple(rows))  # type: ignore[no-untyped-call]


def _lines(text: str, room: int) -> list[str]:
    return textwrap.wrap(text, max(30, room)) or [""]


# ---- HTML pages of released things, from the templates beside this file: a page loads nothing from the network


def render(template: str, **values: object) -> str:
    """Return a page from one of the templates beside this file."""
    return open_templates(Path(__file__).with_name("templates")).get_template(template).render(values)


# ---- A picture: an Altair chart that shows itself in a notebook and goes into one file without the network
#
# It knows charts and files; not what a chart says.

PICTURE_ENDINGS = (".svg", ".png", ".html", ".json")
# Pixels of a PNG per unit of the chart.
SHARPNESS = 1.5


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """Hold a chart: `.chart` is plain Altair, `.save(path)` writes it, `.slide()` fills a slide, a notebook shows it as SVG.

    Nothing here loads anything from the network, neither the notebook's view nor a saved HTML page.
    """

    chart: alt.TopLevelMixin
    title: str

    def save(self, path: str | Path) -> None:
        """Write the picture to a file ending in .svg, .png, .html or .json; see `save`."""
        save(self, path)

    def slide(self, *, dark: bool = False) -> str:
        """Return the picture as the SVG of a slide, 1280 by 720: as large as fits, on a ground of its own; see `slide_of`."""
        return slide_of(self, dark=dark)

    def spec(self) -> dict[str, Any]:
        """Return the Vega-Lite specification, its data in it."""
        specification: dict[str, Any] = self.chart.to_dict(validate=False)
        return specification

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        del include, exclude
        return {"image/svg+xml": _svg(self).decode(), "text/plain": repr(self)}

    def __repr__(self) -> str:
        return f"<Picture {self.title}>"


def read_picture(spec: str, title: str) -> Picture:
    """Return the picture that a specification in JSON states."""
    import altair as alt

    return Picture(alt.Chart.from_dict(json.loads(spec)), title)


def save(picture: Picture, path: str | Path) -> None:
    """Write a picture to `path`: .svg, .png, .html (one page, scripts included, no network) or .json (Vega-Lite).

    Raises DeclarationError for another ending, or where the file cannot be written.
    """
    where = Path(path)
    content = encode_picture(picture, where.suffix)
    try:
        where.write_bytes(content)
    except OSError as error:
        raise DeclarationError(f"{where} cannot be written: {error.strerror}; name another place") from None


def encode_picture(picture: Picture, ending: str) -> bytes:
    """Return the bytes of a picture's file, for one of PICTURE_ENDINGS; raises DeclarationError for another."""
    return writer_of(ending)(picture)


def writer_of(ending: str) -> Callable[[Picture], bytes]:
    """Return what writes a picture's file that ends so; raises DeclarationError for an ending that none has."""
    writer = _WRITERS.get(ending.lower())
    if writer is None:
        raise DeclarationError(f"a picture's file ends in {', '.join(PICTURE_ENDINGS)}; {nearest(ending, _WRITERS)}")
    return writer


def need_plots() -> None:
    """Raise DeclarationError, with the way to install them, unless Altair and its converter are there."""
    try:
        import altair
        import vl_convert
    except ImportError:
        raise DeclarationError("pictures need Altair and vl-convert: pip install 'sordino[plots]'") from None
    del altair, vl_convert


def _svg(picture: Picture) -> bytes:
    import vl_convert

    svg: str = vl_convert.vegalite_to_svg(picture.spec(), vl_version=_version())
    return svg.encode()


def _png(picture: Picture) -> bytes:
    import vl_convert

    png: bytes = vl_convert.vegalite_to_png(picture.spec(), vl_version=_version(), scale=SHARPNESS)
    return squeeze(png)


def squeeze(png: bytes) -> bytes:
    """Return the same PNG with its pixels packed again, as small as zlib makes them: the converter packs in haste."""
    head = png[:8]
    place = 8
    chunks = []
    pixels = b""
    while place < len(png):
        size = int.from_bytes(png[place : place + 4], "big")
        kind = png[place + 4 : place + 8]
        body = png[place + 8 : place + 8 + size]
        place += 12 + size
        if kind == b"IDAT":
            pixels += body
        else:
            chunks.append((kind, body))
    # The last chunk is IEND.
    chunks.insert(-1, (b"IDAT", zlib.compress(zlib.decompress(pixels), 9)))
    return head + b"".join(
        len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big") for kind, body in chunks
    )


def _json(picture: Picture) -> bytes:
    return (json.dumps(picture.spec(), ensure_ascii=False, indent=2, allow_nan=False) + "\n").encode()


def _html(picture: Picture) -> bytes:
    """Return one page; its policy forbids the browser to load anything, and the menu has no link to an editor abroad."""
    return render("picture.html", title=picture.title, bundle=_scripts(_version()), spec=picture.spec()).encode()


@cache
def _scripts(version: str) -> str:
    """Return the scripts of a page, which are the same for all and take 1.5 s to gather."""
    import vl_convert

    bundle: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=version)
    if "</script" in bundle.lower():
        raise DeclarationError("the installed vl-convert has scripts that no page can hold; save as .svg or .png")
    return bundle


_WRITERS: dict[str, Callable[[Picture], bytes]] = {".svg": _svg, ".png": _png, ".html": _html, ".json": _json}


def _version() -> str:
    """Return the version of Vega-Lite that the installed Altair writes, as the converter names it."""
    import altair

    return ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])


# ---- A picture for dark pages: the same chart, its ground dark and its words light. It changes no number

_GROUND = "#1b1e24"
_WORDS = "#e6e8ec"
_LINES = "#3a3f49"
_FINE = "#a9b0bb"
_LIGHTER = {
    "black": _WORDS,
    "#000000": _WORDS,
    "#222222": _WORDS,
    "#333333": _WORDS,
    "#444444": _FINE,
    "#555555": _FINE,
    "#666666": _FINE,
    "#0072b2": "#4d9fd6",
}
_LABELS = {"labelColor": _WORDS, "titleColor": _WORDS}
# Cells of a color scale that starts at white hold words, so on a dark page the scale starts at this color instead.
_WHITE = "#ffffff"
_MIDDLE = "#2b313a"


def darken(picture: Picture) -> Picture:
    """Return the picture with a dark ground: what was drawn dark is light; other colors stand out on both."""
    import altair as alt

    with unchecked():
        spec = _lighten(picture.spec())
        spec["config"] = spec.get("config", {}) | {
            "background": _GROUND,
            "axis": _LABELS | {"gridColor": _LINES, "domainColor": _WORDS, "tickColor": _WORDS},
            "title": {"color": _WORDS, "subtitleColor": _FINE},
            "legend": _LABELS,
            "header": _LABELS,
            "text": {"color": _WORDS},
            "view": {"stroke": _LINES},
        }
        return Picture(alt.Chart.from_dict(spec), picture.title)


def _lighten(part: Any) -> Any:
    """Return a part of a specification in which dark colors are light; the data in it stays."""
    if isinstance(part, dict):
        return {name: value if name in ("datasets", "data") else _lighten(value) for name, value in part.items()}
    if isinstance(part, list) and _WHITE in part:
        return [_MIDDLE if value == _WHITE else value for value in part]
    if isinstance(part, list):
        return [_lighten(value) for value in part]
    return _LIGHTER.get(part, part) if isinstance(part, str) else part


# ---- A picture as a slide: the same drawing, scaled to 16 by 9

_SLIDE = (1280, 720)
_MARGIN = 30
_SVG_SIZE = re.compile(r'<svg\b[^>]*?\bwidth="([\d.]+)"[^>]*?\bheight="([\d.]+)"[^>]*>', re.DOTALL)


def slide_of(picture: Picture, *, dark: bool = False) -> str:
    """Return a picture as the SVG of a slide of 1280 by 720: as large as fits, in the middle, on a ground of its own.

    Everything grows alike, letters too, so that what is read on a page is read from the last row.
    """
    svg = encode_picture(darken(picture) if dark else picture, ".svg").decode()
    start = _SVG_SIZE.search(svg)
    assert start is not None
    width, height = (float(side) for side in start.groups())
    scale = min((_SLIDE[0] - 2 * _MARGIN) / width, (_SLIDE[1] - 2 * _MARGIN) / height)
    # The picture keeps its own coordinates, so that every size in it grows alike.
    left = (_SLIDE[0] - scale * width) / 2
    top = (_SLIDE[1] - scale * height) / 2
    ground = _GROUND if dark else _WHITE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_SLIDE[0]}" height="{_SLIDE[1]}" viewBox="0 0 {_SLIDE[0]} {_SLIDE[1]}">'
        f'<rect width="{_SLIDE[0]}" height="{_SLIDE[1]}" fill="{ground}"/>'
        f'<g transform="translate({left:.2f},{top:.2f}) scale({scale:.4f})">{svg[start.start() :]}</g></svg>\n'
    )
