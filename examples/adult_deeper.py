"""Ask the census extract known as "Adult", which you bring, what an analyst asks next: bounds, quantiles, spread, private keys.

python examples/adult_deeper.py path/to/adult.data [directory for pictures]      (or SORDINO_ADULT=path/to/adult.data)
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import sordino as sd
from sordino import col
from sordino.core.domain import Column

PICTURES = ("age_bounds.svg", "capital_gain_bounds.svg", "capital_gain_ladder.svg", "age_by_occupation.svg")


def main() -> None:
    """Ask of the extract at the path given, or do the like with what is generated."""
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("SORDINO_ADULT", "")
    if not given or not Path(given).is_file():
        print("without the Adult extract (docs/adult.md says how to get it from the UCI Machine Learning Repository),")
        print(
            "to be named as in `python examples/adult_deeper.py path/to/adult.data`, this asks of a generated census instead:"
        )
        runpy.run_path(str(Path(__file__).with_name("ask_census.py")), run_name="__main__")
        return
    pictures = Path(sys.argv[2]) if len(sys.argv) > 2 else None
    adult = sd.protect(
        given,
        domain=loose_domain(),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.ApproxDP(20, "1e-6"),
        ledger=None,
        name="adult",
        csv=sd.Csv(header=False, names=sd.datasets.adult_columns(), null_values=("?",)),
    )
    find_bounds(adult, pictures)
    ask_more(adult)
    ask_for_keys(adult)
    ask_together(adult)
    two_ways(adult, pictures)
    print(f"\nspent in all: {adult.spent.describe()}")


def loose_domain() -> sd.Domain:
    """Return the public declaration, but for three columns of which less is supposed known.

    Ages and capital gains have no bounds at all, and the countries of birth no list of values.
    """
    known = sd.datasets.adult_domain()
    unknown: dict[str, Column] = {"age": sd.Integer(), "capital_gain": sd.Integer(), "native_country": sd.Identifier()}
    return sd.Domain({name: unknown.get(name, known[name]) for name in known})


def find_bounds(adult: sd.Curator, pictures: Path | None) -> None:
    """Find where to clip ages and capital gains, then ask for means within those bounds."""
    age = adult.find_bounds("age", epsilon=1)
    gain = adult.find_bounds("capital_gain", epsilon=1)
    textbook = adult.find_bounds("capital_gain", method="ladder", ladder=range(1000, 100_001, 1000), epsilon=1)
    print(f"bounds of age: {age.lower:,} to {age.upper:,}")
    print(
        f"bounds of capital_gain: {gain.lower:,} to {gain.upper:,}; by 100 sums at 0.01 each: up to {textbook.upper:,}"
    )
    assert 75 <= age.upper <= 100, age.upper
    assert 10_000 <= gain.upper <= 150_000, gain.upper

    clipped = col("age").clip(age.lower, age.upper)
    studied = adult.ask(adult.where(col("education_num") > 10).agg(sd.mean(clipped)), epsilon=1)
    low, high = studied.interval(0.9999)
    print(f"mean age where education_num > 10: {studied.value:.2f}, 99.99% from {low:.2f} to {high:.2f} (truly 40.21)")
    assert low <= 40.2126 <= high, (low, high)
    if pictures is not None:
        pictures.mkdir(parents=True, exist_ok=True)
        for name, release in zip(PICTURES, (age, gain, textbook), strict=False):
            sd.plot(release).save(str(pictures / name))


def ask_more(adult: sd.Curator) -> None:
    """Ask for median, quantiles, variance, correlation and the most common occupation."""
    age, hours = col("age").clip(17, 90), col("hours_per_week")
    median = adult.ask(sd.median(age), epsilon=1).value
    tenths = adult.ask(sd.quantiles(hours, [0.1, 0.5, 0.9]), epsilon=1).value
    spread = adult.ask(sd.variance(age).alias("variance"), epsilon=1)
    both = adult.ask(sd.correlation(age, hours).alias("correlation"), epsilon=1)
    levels = adult.ask(sd.count_distinct("education"), epsilon=1)
    print(f"\nmedian age {median:g}; hours a week at 10%, 50%, 90%: {', '.join(f'{v:g}' for v in tenths.values())}")
    print(f"variance of age {spread.value:.2f} +- {spread.error(0.95):.2f}, so ages deviate by {spread.value**0.5:.1f}")
    low, high = both.interval(0.95)
    print(f"correlation of age and hours {both.value:.3f}, 95% from {low:.3f} to {high:.3f}")
    print(f"different educations: {levels.value} +- {levels.error(0.95):g}")
    assert 36 <= median <= 38, median

    asked = adult.plan(sd.most_common("occupation"), epsilon=1)
    job = adult.ask(asked).value
    print(f"most common occupation: {job}; at 95% no more than {asked.error(0.95):.0f} people short of the most common")
    assert job in ("Prof-specialty", "Craft-repair", "Exec-managerial"), job  # 4,140, 4,099 and 4,066 people: near


def ask_for_keys(adult: sd.Curator) -> None:
    """Group by countries, none of which is declared: those with few people are kept back."""
    question = adult.group_by("native_country").agg(sd.count().alias("people"))
    plan = adult.plan(question, epsilon=1, delta="1e-7")
    print(f"\n{plan}")
    seen = adult.ask(plan)
    counts = {row["native_country"]: row["people"] for row in seen.rows}
    shown = ", ".join(f"{name} {n:,}" for name, n in sorted(counts.items(), key=lambda pair: -pair[1])[:4])
    print(f"{len(counts)} of 41 countries show: {shown}, ...")
    assert "Holand-Netherlands" not in counts  # one person
    assert "Mexico" in counts  # 643 people


def ask_together(adult: sd.Curator) -> None:
    """Ask several questions at once, by the errors that are wanted of each."""
    rich = adult.where(col("income") == ">50K")
    batch = adult.plan(
        [
            adult.agg(sd.count()),
            rich.agg(sd.count()),
            rich.agg(sd.mean(col("age").clip(17, 90))),
        ],
        error=[20, 100, 0.5],
        assume_rows=7_500,
    )
    print(f"\n{batch}")
    for release in adult.ask(batch):
        print(f"{release.question}: {release.value:,.6g} +- {release.error(0.95):.3g}")


def two_ways(adult: sd.Curator, pictures: Path | None) -> None:
    """Ask for a two-way table, and show the largest of its cells: choosing them costs nothing more."""
    table = adult.ask(
        sd.sql(
            """
            SELECT CASE WHEN age < 30 THEN 'under 30' WHEN age < 50 THEN '30 to 49' ELSE '50 and over' END AS band,
                   occupation, COUNT(*) AS n
            FROM adult GROUP BY 1, 2
            """
        ),
        epsilon=1,
    )
    largest = sorted(table.rows, key=lambda row: -row["n"])[:5]
    print(f"\n{len(table.rows)} cells of age band by occupation, the largest of them:")
    for row in largest:
        print(f"  {row['band']:<12} {row['occupation'] or '(missing)':<18} {row['n']:>6,}")
    assert len(table.rows) == 3 * 15
    if pictures is not None:
        sd.plot(table).save(str(pictures / PICTURES[-1]))
        print(f"pictures: {', '.join(PICTURES)} in {pictures}")


if __name__ == "__main__":
    main()
