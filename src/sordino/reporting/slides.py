"""Pictures for a lesson, about universes of a few numbers or a generated census; `Picture.slide` makes each a slide.

They are drawn by what draws every other picture; nothing here is about people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sordino.reporting.charts import plot
from sordino.reporting.picture import Picture

_SEED = 2026
_ROWS = 20_000


def lesson_pictures() -> Iterator[tuple[str, Picture]]:
    """Yield the pictures of a lesson, each with the name of its file."""
    for name, thing in _LESSON.items():
        yield name, plot(thing())


def _worlds() -> Any:
    from sordino.lab.risk.assessment import assess_risk

    return assess_risk([1, 2, 3, 10], size=3, query="mean", risk="1/3", output="2.20131", epsilon=2)


def _many_worlds() -> Any:
    from sordino.lab.risk.assessment import assess_risk

    return assess_risk(range(1, 13), size=6, query="mean", risk="1/3", output=6, epsilon=1)


def _neighborhoods() -> Any:
    from sordino.lab.sensitivity.neighborhoods import list_neighborhoods

    return list_neighborhoods("median", [1, 2, 3, 10, 11], size=3, neighbors="replace", within=1)


def _profile() -> Any:
    from sordino.lab.sensitivity.profile import sensitivity_profile

    queries = ["mean", "median", "count", "sum", "std", "var", "quantile:0.25", "quantile:0.9"]
    return sensitivity_profile(range(1, 11), [1, 3, 5, 7, 10], queries=queries, distances=range(1, 5))


def _local_noise() -> Any:
    from sordino.lab.sensitivity.empirical import local_noise

    return local_noise("median", [1, 2, 3, 10, 11], [1, 2, 3], [1, 2, 11], neighbors="replace", epsilon=1)


def _laplace() -> Any:
    from sordino.lab.learn.mechanisms import laplace_noise

    return laplace_noise(1, 1)


def _gaussian() -> Any:
    from sordino.lab.learn.mechanisms import gaussian_noise

    return gaussian_noise(1, 1, 1e-5)


def _survey() -> Any:
    from sordino.core.noise.rng import Rng
    from sordino.lab.datasets.census import make_census
    from sordino.local import pick_protocol, simulate_collection

    people = make_census(_ROWS, Rng.seeded(_SEED))
    answers = people["occupation"].to_pylist()
    labels = (*sorted({answer for answer in answers if answer is not None}), None)
    protocol = pick_protocol("unary", labels, p="3/4", q="1/4", respondents=_ROWS)
    return simulate_collection(answers, protocol, Rng.seeded(_SEED), subject="occupation")


def _attack() -> Any:
    from sordino.lab.audit.attack_suites import attack_kind

    return attack_kind("release", epsilon="1,10", people=60, rounds=None, seed=1)


_LESSON: dict[str, Callable[[], Any]] = {
    "01-laplace-noise": _laplace,
    "02-gaussian-noise": _gaussian,
    "03-neighbors-of-every-table": _neighborhoods,
    "04-sensitivity-of-eight-queries": _profile,
    "05-why-not-local-sensitivity": _local_noise,
    "06-four-worlds": _worlds,
    "07-nine-hundred-worlds": _many_worlds,
    "08-a-survey-without-trust": _survey,
    "09-attacks-on-counts": _attack,
}
