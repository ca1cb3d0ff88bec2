"""Bad input is refused with the argument's name and the rule."""

from __future__ import annotations

import math
from typing import Any

import pytest

from sordino import sensitivity as sens
from sordino.errors import DeclarationError

UNIVERSE = [1, 2, 2, 3, 10, 11]
GOOD: dict[str, Any] = {"query": "mean", "universe": UNIVERSE, "size": 3, "neighbors": "replace", "within": 1}
LOCAL: dict[str, Any] = {"query": "mean", "universe": UNIVERSE, "table": [1, 2, 3], "neighbors": "replace", "within": 1}
ADD: dict[str, Any] = {"neighbors": "add_remove", "within": None}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"query": "kurtosis"}, "query 'kurtosis'"),
        ({"query": "medain"}, "did you mean 'median'"),
        ({"query": "quantile:1.5"}, "from 0 to 1"),
        ({"query": "quantile:nan"}, "from 0 to 1"),
        ({"query": "quantile"}, "from 0 to 1"),
        ({"query": None}, "query must be a word"),
        ({"universe": []}, "universe must hold at least one"),
        ({"universe": [1, math.nan]}, "universe must hold only finite numbers"),
        ({"universe": [1, math.inf]}, "universe must hold only finite numbers"),
        ({"universe": [1, "2"]}, "universe must hold only numbers"),
        ({"universe": [1, None]}, "universe must hold only numbers"),
        ({"universe": [1, True]}, "universe must hold only numbers"),
        ({"universe": "123"}, "universe must be a sequence of numbers"),
        ({"universe": 7}, "universe must be a sequence of numbers"),
        ({"universe": [1, 1e200]}, "universe must hold numbers of at most 1e150"),
        ({"universe": [1, 10**400]}, "universe must hold numbers of at most 1e150"),
        ({"size": 0}, "size must be from 1 to 6"),
        ({"size": 7}, "size must be from 1 to 6"),
        ({"size": 2.5}, "size must be a whole number"),
        ({"size": True}, "size must be a whole number"),
        ({"neighbors": "swap"}, "neighbors must be"),
        ({"within": 0}, "within must be at least 1"),
        ({"within": -1}, "within must be at least 1"),
        ({"within": 1.5}, "within must be a whole number"),
        ({"within": None}, "state one distance"),
        ({"exactly": 1}, "state one distance"),
        ({"within": None, "exactly": 4}, "exactly=4 is out of range"),
        ({"direction": "add"}, "direction goes with"),
        (ADD | {"within": 1, "direction": "add"}, "direction goes with exactly"),
        (ADD | {"exactly": 1}, "direction must be"),
        (ADD | {"exactly": 1, "direction": "both"}, "direction must be"),
        (ADD | {"exactly": 4, "direction": "add"}, "exactly=4 is out of range"),
        (ADD | {"exactly": 4, "direction": "either"}, "at most 3 can be"),
        (ADD | {"exactly": 3, "direction": "remove"}, "has no mean"),
        (ADD | {"within": 3}, "within=3 leads from 3 record"),
        (ADD | {"within": 2, "query": "var", "ddof": 1}, "has no var"),
        ({"query": "std", "ddof": 3}, "has no std"),
        ({"ddof": -1}, "ddof must be"),
        ({"ddof": 0.5}, "ddof must be"),
    ],
)
def test_global(change: dict[str, Any], words: str) -> None:
    with pytest.raises(DeclarationError, match=words.replace("(", r"\(")):
        sens.global_sensitivity(**(GOOD | change))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"table": [1, 4]}, "table must be a part of the universe.*1 of its 2 values"),
        ({"table": [2, 2, 2]}, "table must be a part of the universe"),
        ({"table": [12]}, "table must be a part of the universe"),
        ({"table": []}, "table must hold at least one"),
        ({"table": [math.nan]}, "table must hold only finite"),
        ({"table": ["1"]}, "table must hold only numbers"),
        ({"table": [1], "neighbors": "add_remove"}, "within=1 leads from 1 record"),
    ],
)
def test_local(change: dict[str, Any], words: str) -> None:
    with pytest.raises(DeclarationError, match=words):
        sens.local_sensitivity(**(LOCAL | change))


def test_a_refusal_names_no_value_of_the_table() -> None:
    with pytest.raises(DeclarationError) as refused:
        sens.local_sensitivity(**(LOCAL | {"table": [1, 987654]}))
    assert "987654" not in str(refused.value)


def test_an_empty_table_has_a_sum_and_a_count() -> None:
    assert sens.global_sensitivity("sum", [4, -5], size=1, neighbors="add_remove", within=1).value == 5
    assert sens.local_sensitivity("count", [4, -5], [4], neighbors="add_remove", within=2).value == 1
