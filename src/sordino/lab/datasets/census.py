"""A generated census: people that never were, with the shapes that make private questions hard. Fast and seeded.

Laws are tables of 65,536 places, looked up by 16 random bits a cell. It knows no engine and reads no file.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sordino.core.domain import Category, Domain, Identifier, Integer, Real
from sordino.core.errors import DeclarationError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from sordino.core.noise.rng import Rng

    Codes = npt.NDArray[Any]

_ROWS_MOST = 10**9
# Rows made at a time: the working set stays in the cache.
_CHUNK = 2**18

_SEXES = ("Female", "Male")
_REGIONS = ("North", "East", "South", "West", "Capital", "Islands")
_OCCUPATIONS = (
    "Administration",
    "Agriculture",
    "Care",
    "Construction",
    "Education",
    "Engineering",
    "Health",
    "Hospitality",
    "Management",
    "Manufacturing",
    "Sales",
    "Transport",
)


def make_census(rows: int, rng: Rng) -> pa.Table:
    """Return `rows` made-up people: household, region, sex, age, education_num, occupation, hours_per_week and gain.

    Households have 1 to 6 rows, age (1 in 100) and occupation (1 in 20) miss cells, gain is mostly 0 with a long tail
    of cents up to 100,000; texts are dictionary-encoded. The same seed gives the same table. Raises DeclarationError
    unless `rows` is from 0 to 10^9.

    >>> from sordino.core.noise.rng import Rng
    >>> make_census(1000, Rng.seeded(7)).num_rows
    1000
    """
    import pyarrow as pa

    if isinstance(rows, bool) or not isinstance(rows, int) or not 0 <= rows <= _ROWS_MOST:
        raise DeclarationError(f"rows must be a whole number from 0 to 10^9, not {rows!r}")
    laws = _Laws()
    batches: list[pa.RecordBatch] = []
    household = 1
    for start in range(0, rows, _CHUNK):
        batch, household = _people(min(_CHUNK, rows - start), household, laws, rng)
        batches.append(batch)
    return pa.Table.from_batches(batches or [_people(0, 1, laws, rng)[0]])


def census_domain() -> Domain:
    """Return what is public about a generated census: the generator's own bounds and values.

    >>> census_domain()["age"].upper
    90
    """
    return Domain(
        {
            "household": Identifier(),
            "region": Category(_REGIONS),
            "sex": Category(_SEXES),
            "age": Integer(17, 90),
            "education_num": Integer(1, 16),
            "occupation": Category(_OCCUPATIONS, missing="keep"),
            "hours_per_week": Integer(1, 99),
            "gain": Real(0, 100_000, resolution="0.01"),
        }
    )


def write_census_project(directory: Path, rows: int, rng: Rng) -> Path:
    """Write census.parquet and a sordino.toml that declares it into `directory`; return the path of the latter.

    Raises DeclarationError where either file is there already: nothing is overwritten.
    """
    import pyarrow.parquet as pq

    directory = Path(directory)
    project, data = free_for_project(directory)
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(make_census(rows, rng), data, row_group_size=2**20)
    quoted = {"occupations": _OCCUPATIONS, "regions": _REGIONS, "sexes": _SEXES}
    words = {name: ", ".join(f'"{value}"' for value in values) for name, values in quoted.items()}
    project.write_text(_PROJECT.format(**words), encoding="utf-8")
    return project


def free_for_project(directory: Path) -> tuple[Path, Path]:
    """Return where a generated project would lie, and its data; raises DeclarationError where something is there already."""
    if directory.exists() and not directory.is_dir():
        raise DeclarationError(f"{directory} is a file: name a directory")
    project = directory / "sordino.toml"
    data = directory / "census.parquet"
    for path in (project, data):
        if path.exists():
            raise DeclarationError(f"{directory} holds {path.name} already; name an empty or new directory")
    return project, data


def _people(count: int, household: int, laws: _Laws, rng: Rng) -> tuple[pa.RecordBatch, int]:
    """Return `count` people in households numbered from `household` on, and the next household's number."""
    import numpy as np
    import pyarrow as pa

    sizes = laws.household[_bits(count, rng)]
    ends = np.cumsum(sizes, dtype=np.int64)
    homes = int(np.searchsorted(ends, count)) + 1 if count else 0
    home = np.repeat(np.arange(homes), sizes[:homes])[:count]
    region = laws.region[_bits(homes, rng)][home]
    sex = laws.sex[_bits(count, rng)]
    age = laws.age[_bits(count, rng)]
    band = laws.band[age]
    education = _given(laws.education, band, count, rng)
    level = laws.level[education]
    occupation = _given(laws.occupation, level * np.int8(2) + sex, count, rng)
    hours = _given(laws.hours, band, count, rng)
    gain = np.zeros(count)
    lucky = np.flatnonzero(_given(laws.gains, level, count, rng))
    # Pareto, without a finite variance.
    spread = 1200.0 * (1.0 - rng.uniform_doubles(len(lucky))) ** (-1 / 1.2) - 1100.0
    gain[lucky] = np.round(np.minimum(spread, 100_000.0), 2)

    def text(codes: Codes, values: Sequence[str]) -> pa.Array:
        return pa.DictionaryArray.from_arrays(pa.array(codes, mask=codes == len(values)), pa.array(values))

    columns = {
        "household": pa.array(home + household),
        "region": text(region, _REGIONS),
        "sex": text(sex, _SEXES),
        "age": pa.array((age + 17).astype(np.int16), mask=age == laws.no_age),
        "education_num": pa.array((education + 1).astype(np.int16)),
        "occupation": text(occupation, _OCCUPATIONS),
        "hours_per_week": pa.array((hours + 1).astype(np.int16)),
        "gain": pa.array(gain),
    }
    return pa.RecordBatch.from_pydict(columns), household + homes


def _bits(count: int, rng: Rng) -> npt.NDArray[np.uint16]:
    import numpy as np

    return rng.words(count, np.uint16)


def _given(law: Codes, group: Codes, count: int, rng: Rng) -> Codes:
    """Return a code for each row by the law of its group."""
    import numpy as np

    codes: Codes = law.reshape(-1)[(group.astype(np.int32) << 16) | _bits(count, rng)]
    return codes


class _Laws:
    """The conditional laws as lookup tables: [group,] 16 random bits -> code."""

    def __init__(self) -> None:
        import numpy as np

        ages = np.arange(17, 91)
        falling = np.where(ages < 45, 1.0, np.maximum(0.02, (92 - ages) / 47))
        self.no_age = len(ages)
        self.age = _law([*falling, falling.sum() / 99])
        # Students, younger, older, retired.
        bands = np.digitize(ages, [23, 41, 63])
        self.band = np.append(bands, 1).astype(np.int8)
        self.household = _law([0, 30, 33, 15, 13, 6, 3])
        self.region = _law([14, 16, 24, 19, 23, 4])
        self.sex = _law([51, 49])
        self.education = _laws(_EDUCATION)
        self.level = np.digitize(np.arange(1, 17), [9, 11, 14]).astype(np.int8)
        self.occupation = _laws([[*row, sum(row) / 19] for row in _OCCUPATION])
        self.hours = _laws([_week(*row) for row in _HOURS])
        self.gains = _laws([[98, 2], [95, 5], [90, 10], [80, 20]])


def _law(weights: Sequence[float]) -> Codes:
    import numpy as np

    ends = np.cumsum(np.asarray(weights, dtype=np.float64))
    return np.searchsorted(ends / ends[-1] * 65536, np.arange(65536), side="right").astype(np.int8)


def _laws(rows: Sequence[Sequence[float]]) -> Codes:
    import numpy as np

    return np.stack([_law(row) for row in rows])


def _week(center: int, width: int, full: float, half: float) -> list[float]:
    """Return weights of 1 to 99 hours: a bump, and spikes at 40 and 20 hours."""
    bump = [max(0.02, 1 - abs(hour - center) / width) for hour in range(1, 100)]
    total = sum(bump)
    bump[39] += total * full
    bump[19] += total * half
    return bump


# One row an age band (students, younger, older, retired): weights of 1 to 16 years of education.
_EDUCATION = [
    [1, 1, 1, 2, 3, 6, 14, 8, 34, 24, 2, 2, 3, 0, 0, 0],
    [1, 1, 1, 2, 2, 3, 4, 2, 30, 20, 6, 5, 18, 5, 1, 1],
    [1, 1, 2, 3, 2, 3, 3, 2, 33, 16, 5, 4, 14, 8, 2, 2],
    [2, 3, 5, 9, 4, 5, 4, 2, 34, 12, 3, 2, 8, 5, 2, 2],
]

# One row a level of education (up to 8, 10, 13, 16) and sex: weights of the occupations, in their order.
_OCCUPATION = [
    [6, 4, 14, 2, 1, 0, 2, 22, 2, 20, 14, 3],
    [1, 10, 2, 24, 1, 1, 1, 10, 3, 22, 8, 17],
    [24, 2, 12, 1, 3, 1, 8, 13, 8, 10, 16, 2],
    [7, 4, 2, 20, 1, 4, 1, 6, 9, 20, 13, 13],
    [20, 1, 6, 1, 14, 5, 17, 4, 16, 3, 11, 2],
    [8, 3, 1, 7, 5, 16, 4, 3, 23, 8, 17, 5],
    [6, 0, 2, 0, 32, 7, 25, 1, 21, 1, 4, 1],
    [3, 1, 1, 1, 20, 21, 18, 1, 27, 1, 5, 1],
]

# One row an age band: center and width of the bump, spikes at 40 and 20 hours relative to it.
_HOURS = [(25, 25, 0.3, 0.3), (42, 30, 1.2, 0.05), (42, 28, 1.2, 0.05), (22, 25, 0.25, 0.25)]

_PROJECT = """\
# A generated census: nobody in it exists. Ask it anything, then change it into your own project.
# Everything below is public knowledge; nothing in it was read from the data.

[budgets.people]                    # a budget belongs to the people in the table, and is never refilled
cap = {{epsilon = 2.0}}               # the most that all answers together may ever reveal about one of them
ledger = "census.ledger"            # every charge, kept for good
reason = "a demonstration"

[tables.people]
source = "census.parquet"           # relative to this file
budget = "people"
neighbors = "add_remove"            # hides whether a person is in the table at all
privacy_unit = "row"                # a person is a row; households: {{column = "household", max_rows = 6}}

[tables.people.columns]             # only what is declared can be asked about
household = {{type = "identifier"}}   # equality in WHERE, the privacy unit, or private keys
region = {{type = "category", values = [{regions}]}}
sex = {{type = "category", values = [{sexes}]}}
age = {{type = "integer", lower = 17, upper = 90}}             # cells outside the bounds are clipped to them
education_num = {{type = "integer", lower = 1, upper = 16}}
hours_per_week = {{type = "integer", lower = 1, upper = 99}}
gain = {{type = "real", lower = 0, upper = 100000, resolution = 0.01}}
occupation.type = "category"
occupation.missing = "keep"         # a missing cell is a group of its own; "drop" (the default) leaves it out
occupation.values = [{occupations}]
"""
