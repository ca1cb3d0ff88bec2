"""A picture: an Altair chart that shows itself in a notebook and goes into one file without the network.

It knows charts and files; not what a chart says.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.core.errors import DeclarationError, nearest
from sordino.reporting.html_page import render

if TYPE_CHECKING:
    import altair as alt

PICTURE_ENDINGS = (".svg", ".png", ".html", ".json")
SHARPNESS = 1.5  # pixels of a PNG per unit of the chart


@dataclass(frozen=True, slots=True, repr=False)
class Picture:
    """Hold a chart: `.chart` is plain Altair, `.save(path)` writes it, a notebook shows it as SVG.

    Nothing here loads anything from the network, neither the notebook's view nor a saved HTML page.
    """

    chart: alt.TopLevelMixin
    title: str

    def save(self, path: str | Path) -> None:
        """Write the picture to a file ending in .svg, .png, .html or .json; see `save`."""
        save(self, path)

    def spec(self) -> dict[str, Any]:
        """Return the Vega-Lite specification, its data in it."""
        made: dict[str, Any] = self.chart.to_dict()
        return made

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

    made: str = vl_convert.vegalite_to_svg(picture.spec(), vl_version=_version())
    return made.encode()


def _png(picture: Picture) -> bytes:
    import vl_convert

    made: bytes = vl_convert.vegalite_to_png(picture.spec(), vl_version=_version(), scale=SHARPNESS)
    return squeeze(made)


def squeeze(png: bytes) -> bytes:
    """Return the same PNG with its pixels packed again, as small as zlib makes them: the converter packs in haste."""
    head, place, chunks, pixels = png[:8], 8, [], b""
    while place < len(png):
        size = int.from_bytes(png[place : place + 4], "big")
        kind, body = png[place + 4 : place + 8], png[place + 8 : place + 8 + size]
        place += 12 + size
        if kind == b"IDAT":
            pixels += body
        else:
            chunks.append((kind, body))
    chunks.insert(-1, (b"IDAT", zlib.compress(zlib.decompress(pixels), 9)))  # the last chunk is IEND
    return head + b"".join(
        len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big") for kind, body in chunks
    )


def _json(picture: Picture) -> bytes:
    return (json.dumps(picture.spec(), ensure_ascii=False, indent=2, allow_nan=False) + "\n").encode()


def _html(picture: Picture) -> bytes:
    """Return one page; its policy forbids the browser to load anything, and the menu has no link to an editor abroad."""
    import vl_convert

    bundle = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=_version())
    if "</script" in bundle.lower():
        raise DeclarationError("the installed vl-convert has scripts that no page can hold; save as .svg or .png")
    return render("picture.html", title=picture.title, bundle=bundle, spec=picture.spec()).encode()


_WRITERS: dict[str, Callable[[Picture], bytes]] = {".svg": _svg, ".png": _png, ".html": _html, ".json": _json}


def _version() -> str:
    """Return the version of Vega-Lite that the installed Altair writes, as the converter names it."""
    import altair

    return ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
