"""Tables to learn and measure with - a generated census, a public extract read by path - and odd CSV files. Knows no engine."""

from sordino.ask.engines.readers.csv_import import import_csv
from sordino.lab.datasets.adult import adult_columns, adult_domain, load_adult
from sordino.lab.datasets.census import census_domain, make_census, write_census_project

__all__ = [
    "adult_columns",
    "adult_domain",
    "census_domain",
    "import_csv",
    "load_adult",
    "make_census",
    "write_census_project",
]

# A package to importlib, so that the old paths of modules in it are found (core/moved.py).
__path__: list[str] = []
