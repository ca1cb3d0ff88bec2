"""A query of one's own, and the words that are answered as one: by enumeration, beside the algorithms and by plain loops."""

from __future__ import annotations

import itertools
import statistics
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st

from sordino.core.errors import DeclarationError
from sordino.lab.risk.assessment import assess_risk
from sordino.lab.risk.worlds import Worlds
from sordino.lab.sensitivity.empirical import global_sensitivity, local_sensitivity
from sordino.lab.sensitivity.neighborhoods import list_neighborhoods
from sordino.lab.sensitivity.profile import sensitivity_profile
from sordino.lab.sensitivity.statistics import NoAnswer
from trying import examples

PLAIN: dict[str, Any] = {
    "count": len,
    "sum": sum,
    "mean": np.mean,
    "median": np.median,
    "var": np.var,
    "std": np.std,
    "min": min,
    "max": max,
}
# Written here again, on lists.
NAMED: dict[str, Any] = {
    "range": lambda values: max(values) - min(values),
    "iqr": lambda values: float(np.subtract(*np.percentile(values, [75, 25]))),
    "mode": lambda values: min(statistics.multimode(values)),
    "geometric_mean": statistics.geometric_mean,
    "ratio": lambda values: max(values) / min(values),
    "count_distinct": lambda values: len(set(values)),
}
UNIVERSE = [1, 2, 2, 3, 10, 11]


def farthest(question: Any, universe: list[float], start: tuple[int, ...], relation: str, within: int) -> float:
    """Return how far the answer moves from a table of places, by comparing it with every other table."""
    whole = range(len(universe))
    most = 0.0
    for size in range(1, len(universe) + 1):
        for other in itertools.combinations(whole, size):
            gone = len(set(start) - set(other))
            come = len(set(other) - set(start))
            moves = max(gone, come) if relation == "replace" else gone + come
            if moves <= within and (relation == "add_remove" or gone == come):
                answers = (question([universe[place] for place in table]) for table in (start, other))
                most = max(most, abs(float(next(answers)) - float(next(answers))))
    return most


@examples(
    6,
    25,
    st.sampled_from(sorted(NAMED)),
    st.lists(st.integers(1, 6), min_size=3, max_size=5),
    st.sampled_from(["replace", "add_remove"]),
    st.data(),
)
def test_named_ones_are_those_of_plain_loops(name: str, universe: list[int], relation: str, data: Any) -> None:
    size = data.draw(st.integers(2, len(universe)))
    within = data.draw(st.integers(1, size - 1))
    starts = list(itertools.combinations(range(len(universe)), size))
    each = {start: farthest(NAMED[name], list(universe), start, relation, within) for start in starts}
    how: dict[str, Any] = {"neighbors": relation, "within": within}
    assert global_sensitivity(name, universe, size=size, **how).value == pytest.approx(max(each.values()), abs=1e-9)
    start = data.draw(st.sampled_from(starts))
    table = [universe[place] for place in start]
    assert local_sensitivity(name, universe, table, **how).value == pytest.approx(each[start], abs=1e-9)


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("name", PLAIN)
def test_a_function_agrees_with_the_word_for_it(name: str, relation: str) -> None:
    how: dict[str, Any] = {"neighbors": relation, "within": 2}
    function = PLAIN[name]
    word = global_sensitivity(name, UNIVERSE, size=3, **how)
    own = global_sensitivity(function, UNIVERSE, size=3, **how)
    assert own.value == pytest.approx(word.value)
    assert own.exact
    assert own.because.endswith(f"by enumeration of {own.because.split()[-2]} tables")
    assert abs(float(function(own.witness[0])) - float(function(own.witness[1]))) == pytest.approx(own.value)
    local = local_sensitivity(function, UNIVERSE, [1, 2, 10], **how).value
    assert local == pytest.approx(local_sensitivity(name, UNIVERSE, [1, 2, 10], **how).value)
    assert list_neighborhoods(function, UNIVERSE, size=3, **how).value == pytest.approx(word.value)


@pytest.mark.parametrize("name", [name for name in PLAIN if name != "count"])
def test_possible_worlds_of_a_function_are_those_of_the_word_for_it(name: str) -> None:
    word = Worlds(UNIVERSE, size=3, query=name)
    own = Worlds(UNIVERSE, size=3, query=PLAIN[name])
    assert own.sensitivity == pytest.approx(word.sensitivity)
    assert own.spread == pytest.approx(word.spread)
    assert own.exact
    assert own.risk(epsilon="ln2") == pytest.approx(word.risk(epsilon="ln2"))
    assert own.epsilon_for(risk="1/3") == pytest.approx(word.epsilon_for(risk="1/3"))
    assert own.posterior(output=4, epsilon=1) == pytest.approx(word.posterior(output=4, epsilon=1))
    assert own.record_risk(10, output=4, epsilon=1) == pytest.approx(word.record_risk(10, output=4, epsilon=1))


def test_worlds_that_rounding_alone_separates_hide_each_other() -> None:
    # .1 + .2 + .6 and .1 + .3 + .5, whose floats differ
    tables = Worlds([0.1, 0.2, 0.3, 0.5, 0.6], size=3, query=sum)
    word = Worlds([0.1, 0.2, 0.3, 0.5, 0.6], size=3, query="sum")
    assert tables.epsilon_for(risk=0.3) == pytest.approx(word.epsilon_for(risk=0.3), rel=1e-9)


def test_whole_numbers_past_2_53_are_not_rounded() -> None:
    universe = [2**60, 2**60 + 1, 2**60 + 2, 2**60 + 10]
    assert global_sensitivity(max, universe, size=3, neighbors="replace", within=1).value == 8
    assert Worlds(universe, size=3, query=max).epsilon_for(risk=0.4) == pytest.approx(
        Worlds(universe, size=3, query="max").epsilon_for(risk=0.4)
    )


def test_a_function_cannot_change_the_table() -> None:
    def spoil(table: Any) -> float:
        table[:] = 0
        return float(table.sum())

    change = global_sensitivity(spoil, [1, 2, 3], size=2, neighbors="replace", within=1)
    assert change.witness == ((1.0, 2.0), (1.0, 3.0))


def test_an_assessment_names_the_function() -> None:
    def spread_of(table: Any) -> float:
        return float(table.max() - table.min())

    [own] = assess_risk([1, 2, 3, 10], size=3, query=spread_of, risk="33%")
    [word] = assess_risk([1, 2, 3, 10], size=3, query="range", risk=Fraction(33, 100))
    assert own.epsilon == word.epsilon
    assert "one answer to the spread_of" in own.sentence
    assert own.to_dict()["query"] == "spread_of"


def test_a_profile_has_a_line_for_a_function() -> None:
    profile = sensitivity_profile(UNIVERSE, [1, 2, 10], queries=["var", np.ptp], distances=[1])
    assert profile.column("query").unique().to_pylist() == ["var", "ptp"]
    with pytest.raises(DeclarationError, match="names of their own"):
        sensitivity_profile(UNIVERSE, [1, 2, 10], queries=[lambda t: t[0], lambda t: t[1]], distances=[1])


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (lambda table: table, "must return one number, not ndarray"),
        (lambda _: "much", "must return one number, not str"),
        (lambda _: 1 / 0, r"no answer on a table of 3 record\(s\): it raised ZeroDivisionError"),
        (lambda _: np.nan, "it returned nan"),
        (7, "a function of a table, not int"),
        ("kurtosis", "is not known"),
    ],
)
def test_what_is_no_query_is_refused(query: Any, words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        global_sensitivity(query, UNIVERSE, size=3, neighbors="replace", within=1)


def test_too_many_tables_are_refused_and_the_word_is_named() -> None:
    with pytest.raises(DeclarationError, match=r"enumeration, of 118,264,.* the word 'max' is solved at any size"):
        global_sensitivity(max, range(60), size=30, neighbors="replace", within=1)
    with pytest.raises(DeclarationError, match="worlds here"):
        Worlds(range(60), size=30, query=max).risk(epsilon=1)
    assert issubclass(NoAnswer, DeclarationError)


@pytest.mark.parametrize("word", ["quantile:1/4", "quantile:25%", "quantile:0.25"])
def test_a_quantile_is_named_by_any_spelling_of_its_share(word: str) -> None:
    plain = global_sensitivity("quantile:0.25", [1, 2, 3, 10, 11], size=3, neighbors="replace", within=1)
    change = global_sensitivity(word, [1, 2, 3, 10, 11], size=3, neighbors="replace", within=1)
    assert change.value == plain.value
