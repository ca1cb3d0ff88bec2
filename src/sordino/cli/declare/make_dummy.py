"""`sordino dummy`: a made-up table of the declared shape, to practise on. It reads the declaration, never the data."""

from __future__ import annotations

import sys
from typing import Annotated

from sordino.cli.shared.options import OutputFile, ProjectPath, Quiet, TableName, option
from sordino.cli.shared.terminal import note


def dummy(
    table: TableName = None,
    rows: Annotated[int, option("--rows", "N", "How many rows.")] = 1000,
    seed: Annotated[int | None, option("--seed", "N", "Make the same table each time.")] = None,
    output: OutputFile = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Make a table of the declared shape to practise on: nothing in it is read from the data.

    FILE ends in .csv or .parquet; without one, CSV goes to standard output.
    """
    import sordino as sd
    from sordino.ask.engines.readers.table_file import check_ending, csv_lines, write_tables
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.cli.shared.opening import project_path

    if output is not None:
        check_ending(output)
    declared = sd.connect(project_path(project)).project.table(table)
    rng = None if seed is None else sd.Rng.seeded(seed)
    dummy_table = sd.dummy(declared.domain, rows=rows, unit=declared.neighbors.unit, rng=rng)
    if output is None:
        sys.stdout.writelines(csv_lines(iter([dummy_table])))
        sys.stdout.flush()
        return
    with open_atomic(output) as target:
        write_tables(target.path, iter([dummy_table]), ending=output.suffix)
        target.commit()
    note(f"wrote {rows:,} made-up rows of {declared.name} to {output}", quiet=quiet)
