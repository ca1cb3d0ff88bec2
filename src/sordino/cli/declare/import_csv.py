"""`sordino import`: an odd CSV file to Parquet, every cell as text, for the curator's eyes. Nothing is charged."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer

from sordino.cli.shared.options import Delimiter, Force, Header, Quiet, option, refuse_existing
from sordino.cli.shared.terminal import note
from sordino.core.errors import DeclarationError

Source = Annotated[Path, typer.Argument(metavar="FILE.csv", help="The CSV file.")]
Target = Annotated[Path, typer.Argument(metavar="FILE.parquet", help="The file to write.")]
Quote = Annotated[str, option("--quote", "CHAR", 'The character that cells may be quoted with; "" for none.')]
Encoding = Annotated[str, option("--encoding", "NAME", "The encoding, such as utf-8, latin-1 or cp1252.")]
NullValues = Annotated[list[str] | None, option("--null", "TEXT", "A text that means missing. Empty cells always do.")]


def import_csv(
    source: Source,
    target: Target,
    header: Header = None,
    delimiter: Delimiter = None,
    quote: Quote = '"',
    encoding: Encoding = "utf-8",
    null: NullValues = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Convert an unusual CSV file to Parquet: one with line breaks in cells or another encoding. Cells become trimmed text.

    For the curator, who may see the data (NOT PRIVATE): an error names its row, and the file records which type all cells of
    a column have, for `sordino init` to propose. A row with too few or too many cells stops the import, and no file is
    written. Files larger than memory are fine.
    """
    from sordino import datasets
    from sordino.cli.shared.atomic_file import open_atomic

    if header is None:
        raise DeclarationError("state --header if the first row holds column names, or --no-header if it does not")
    refuse_existing(target, force=force)
    csv: dict[str, Any] = {"delimiter": delimiter, "quote": quote, "encoding": encoding, "null_values": null or ()}
    with open_atomic(target) as place:
        types = datasets.import_csv(source, place.path, header=header, **csv)
        place.commit()
    note(f"wrote {target}: {len(types)} columns of text", quiet=quiet, aside=False)
    counts = Counter(kind for kind in types.values() if kind is not None)
    if counts:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        note(f"all cells of these can be read as: {kinds} (NOT PRIVATE; init proposes it)", quiet=quiet, aside=False)
    note(f"next: sordino init {target}", quiet=quiet, aside=False)
