"""Doors that adversarial testing found open: each stays shut."""

from __future__ import annotations

from fractions import Fraction

import pandas as pd
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.errors import ChargedError, DeclarationError, QuestionRefused


def _people(table: object, domain: sd.Domain, unit: str | sd.PrivacyUnit = "row") -> sd.Curator:
    return protect(table, domain, unit=unit, budget=sd.PureDP(10), seed=1)


AGES = sd.Domain({"age": sd.Integer(0, 125)})


def test_a_loss_too_small_to_say_anything_is_refused_before_the_charge() -> None:
    people = _people(pa.table({"age": [1, 2]}), AGES)
    with pytest.raises(DeclarationError, match="1e-12"):
        people.ask(sd.mean("age"), epsilon=Fraction(1, 10**400))
    assert people.spent == sd.PureDP(0)


def test_whatever_fails_after_the_charge_says_that_the_charge_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    people = _people(pa.table({"age": [1, 2]}), AGES)
    monkeypatch.setattr(sd.Release, "to_record", lambda _: 1 / 0)
    with pytest.raises(ChargedError) as caught:
        people.ask(sd.count(), epsilon=1)
    assert caught.value.__context__ is None
    assert people.spent == sd.PureDP(1)
    assert [c.state for c in people.ledger.charges()] == ["failed"]


@pytest.mark.deep
def test_means_of_too_many_groups_are_refused() -> None:
    domain = sd.Domain({"id": sd.Integer(1, 100_001), "age": sd.Integer(0, 125)})
    people = _people(pa.table({"id": [1], "age": [2]}), domain)
    with pytest.raises(QuestionRefused, match="SUM and COUNT"):
        people.plan(people.group_by("id").agg(sd.mean("age")), epsilon=1)


def test_float_ids_in_pandas_are_never_merged_and_say_nothing_at_the_door() -> None:
    """Of whole numbers, one of them missing, pandas makes floats: ids from 2^53 on are missing, in a frame without one too."""
    domain = sd.Domain({"user": sd.Identifier(), "age": sd.Integer(0, 125)})
    for last in (5, None):
        frame = pd.DataFrame({"user": [2**60 + 1, 2**60 + 2, 7, last], "age": [1, 2, 3, 4]})
        people = protect(frame, domain, unit=sd.PrivacyUnit("user", max_rows=1), budget=sd.PureDP(10**9))
        assert people.ask(sd.count(), epsilon=10**6).value == (1 if last is None else 2)
        people.close()


def test_a_resolution_finer_than_doubles_is_refused() -> None:
    with pytest.raises(DeclarationError, match="2\\^-512"):
        sd.Real(0, 0, resolution=Fraction(1, 2**1100))
