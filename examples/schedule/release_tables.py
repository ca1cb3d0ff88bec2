"""Release the tables that a file lists, one charge a table and day: run it again, or after a kill, and nothing is charged twice.

python release_tables.py nightly.toml --project sordino.toml --day 2026-11-24 --folder releases
"""

from __future__ import annotations

import argparse
import datetime
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import sordino as sd

_KEYS = {"name", "sql", "epsilon", "delta", "rho"}


def main() -> int:
    """Release each table of the file, and return what the command line would end with."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tables", type=Path, help="the TOML file of tables and their losses")
    parser.add_argument("--project", type=Path, default=Path("sordino.toml"))
    parser.add_argument(
        "--day", type=datetime.date.fromisoformat, required=True, help="of which day, such as 2026-11-24"
    )
    parser.add_argument("--folder", type=Path, default=Path("releases"))
    parser.add_argument("--spender", help="whose share of the budget is charged")
    parser.add_argument("--dummy", action="store_true", help="ask the made-up table: staging, free")
    stated = parser.parse_args()
    try:
        tables = read_tables(stated.tables)
        connection = sd.connect(stated.project, spender=stated.spender)
        stated.folder.mkdir(parents=True, exist_ok=True)
        for name, sql, loss in tables:
            # the same id on the same day: the stored answer comes back, and nothing is charged
            release = connection.ask(
                sd.sql(sql), request_id=f"{name}-{stated.day}", on="dummy" if stated.dummy else "data", **loss
            )
            # of one SELECT, as `read_tables` checks
            assert isinstance(release, sd.Release)
            target = stated.folder / f"{name}-{stated.day}.csv"
            # written beside it first, so that nobody ever reads half a table
            draft = target.with_suffix(".draft")
            release.to_csv(draft, intervals=True)
            os.replace(draft, target)
            print(f"{target}: {release.charge}, {release.cost.describe()}, left {release.remaining.describe()}")
    except sd.errors.SordinoError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def read_tables(path: Path) -> list[tuple[str, str, dict[str, Any]]]:
    """Return each table's name, its SQL and its loss; raises DeclarationError before anything is asked."""
    try:
        stated = tomllib.loads(path.read_text("utf-8")).get("table", [])
    except (OSError, ValueError) as error:
        raise sd.errors.DeclarationError(f"{path} is no TOML file of tables: {error}") from None
    tables: dict[str, tuple[str, dict[str, Any]]] = {}
    for one in stated:
        unknown = sorted(set(one) - _KEYS)
        if unknown or not {"name", "sql"} <= set(one) or not {"epsilon", "rho"} & set(one):
            wrong = f"{unknown[0]} is unknown" if unknown else "a name, sql and a loss are needed"
            raise sd.errors.DeclarationError(f"{path}: {wrong}; a table has {', '.join(sorted(_KEYS))}")
        name = str(one["name"])
        if name in tables or not name.replace("_", "").isalnum():
            raise sd.errors.DeclarationError(f"{path}: a table's name is its own, of letters, digits and _: {name!r}")
        if len(sd.sql(str(one["sql"])).statements()) != 1:
            raise sd.errors.DeclarationError(f"{path}: a table is one SELECT: {name!r} has several")
        tables[name] = (str(one["sql"]), {key: one[key] for key in ("epsilon", "delta", "rho") if key in one})
    if not tables:
        raise sd.errors.DeclarationError(f"{path} lists no table: begin one with [[table]]")
    return [(name, sql, loss) for name, (sql, loss) in tables.items()]


if __name__ == "__main__":
    sys.exit(main())
