"""Errors of a declaration name the key at fault, so that a project file's reader never searches their words."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest

from mistyping import mistype
from sordino.core.domain import Category, Date, Domain, Integer, Real
from sordino.core.loss import PureDP
from sordino.core.neighbors import PrivacyUnit
from sordino.core.source import Csv
from sordino.errors import DeclarationError


@pytest.mark.parametrize(
    ("declare", "key"),
    [
        (lambda: Integer(mistype("1/2"), 3), "lower"),
        (lambda: Integer(0, 3, missing={"fill": 4}), "fill"),
        (lambda: Integer(0, 3, missing=mistype("none")), "missing"),
        (lambda: Real(3, 0), "lower"),
        (lambda: Real(0, 3, resolution=0), "resolution"),
        (lambda: Category(["a", "a"]), "values"),
        (lambda: Category([2**63]), "values"),
        (lambda: Date("2000-01-01", "yesterday"), "upper"),
        (lambda: Domain({"age": Integer(0, 3)}, row_ceiling=0), "row_ceiling"),
        (lambda: PrivacyUnit("user", max_rows=0), "max_rows"),
        (lambda: PrivacyUnit("user", max_rows=2, max_groups=0), "max_groups"),
        (lambda: Csv(header=True, delimiter="::"), "csv.delimiter"),
        (lambda: Csv(header=True, encoding="utf-16"), "csv.encoding"),
        (lambda: Csv(header=True, columns={"a": {"thousands": ";"}}), "csv.columns.a.thousands"),
        (lambda: PureDP(-1), "epsilon"),
    ],
)  # fmt: skip
def test_an_error_of_a_declaration_names_its_key_and_its_message_begins_with_it(
    declare: Callable[[], object], key: str
) -> None:
    with pytest.raises(DeclarationError) as refused:
        declare()
    assert refused.value.key == key
    assert str(refused.value) == f"{key} {refused.value.rule}"
    again = pickle.loads(pickle.dumps(refused.value))
    assert (str(again), again.key) == (str(refused.value), key)
