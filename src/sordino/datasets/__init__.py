"""Tables to learn and measure with: a generated census, and a public extract read by path. Knows no engine."""

from sordino.datasets.adult import adult_columns, adult_domain, load_adult
from sordino.datasets.census import census_domain, make_census, write_census_project

__all__ = ["adult_columns", "adult_domain", "census_domain", "load_adult", "make_census", "write_census_project"]
