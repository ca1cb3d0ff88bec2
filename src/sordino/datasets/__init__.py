"""Tables to learn and measure with - a generated census, a public extract read by path - and odd CSV files. Knows no engine."""

from sordino.datasets.adult import adult_columns, adult_domain, load_adult
from sordino.datasets.census import census_domain, make_census, write_census_project
from sordino.datasets.csv_import import import_csv

__all__ = [
    "adult_columns",
    "adult_domain",
    "census_domain",
    "import_csv",
    "load_adult",
    "make_census",
    "write_census_project",
]
