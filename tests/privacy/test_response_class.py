"""No row decides what kind of answer comes: one odd row moves no type, name, schema, price or refusal of any question.

Also: nothing is read before the charge, and what an engine says when it fails goes nowhere.
"""

from __future__ import annotations

import contextlib
import datetime
import functools
import logging
import random
import traceback
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from planning import engine_behind
from privacy import units
from privacy.units import SCHEMA, S
from sordino import col
from sordino.errors import BudgetExhausted, ChargedError, SordinoError

CANARY = "canary-4711"
NAN, INF = float("nan"), float("inf")
UNIT = sd.PrivacyUnit("id", max_rows=2, max_groups=1)
PAIR = {"epsilon": 2, "delta": "1e-4"}


def ask_all(question: Any, **loss: Any) -> Any:
    """Return a call that asks a question at a loss."""
    return lambda held: held.ask(question, **(loss or {"epsilon": 2}))


def search_all(of: Any, method: Any, **more: Any) -> Any:
    """Return a call that searches bounds."""
    return lambda held: held.find_bounds(of, method=method, epsilon=2, **more)


def in_batch(held: Any) -> Any:
    """Ask two questions of one loss, and return the second answer."""
    several = [S.agg(sd.count()), S.group_by("c").agg(sd.count())]
    return held.ask(held.plan(several, epsilon=2))[1]


BY_C = S.group_by("c").agg(sd.count(), sd.mean("i"))
CALLS: dict[str, Any] = {
    "median": ask_all(sd.median("r")),
    "quantiles": ask_all(sd.quantiles("i", [0.01, 0.3, 0.99])),
    "wide quantile": ask_all(sd.median(col("free").clip(-(2**61), 2**61))),
    "iqr by group": ask_all(S.where(col("t")).group_by("c").agg(sd.iqr(col("i") + col("j")), sd.count())),
    "spread": ask_all([sd.variance("i"), sd.std("r"), sd.covariance("i", "j"), sd.correlation("i", "r")]),
    "spread by group": ask_all(S.group_by("e").agg(sd.variance("r"), sd.correlation("i", "k"))),
    "distinct": ask_all([sd.count_distinct(n) for n in ("id", "c", "t", "free", "town", "j")]),
    "distinct by bins": ask_all(S.group_by(col("r").bin([-1, 0, 2])).agg(sd.count_distinct("town"))),
    "private keys": ask_all(S.group_by("town").agg(sd.count(), sd.mean("r"), sd.variance("i")), **PAIR),
    "private and declared": ask_all(S.group_by("town", "c", "t").agg(sd.count()), **PAIR),
    "having": ask_all(BY_C.having(col("count") > -(10**6)).order_by(-col("mean_i"), "c").limit(2)),
    "sql": ask_all(sd.sql("SELECT c, MEDIAN(i) AS m, STDDEV_POP(r) AS s FROM data GROUP BY c ORDER BY m LIMIT 3")),
    "nested": ask_all(units.QUESTIONS["nested"]),
    "joined": ask_all(units.QUESTIONS["joined"]),
    "most common": ask_all(sd.most_common("c")),
    "most common month": ask_all(sd.most_common(col("d").month(), where=col("i") > 0)),
    "bounds histogram": search_all("open", "histogram"),
    "bounds ladder": search_all("free", "ladder", ladder=[1, 100, 2**40]),
    "bounds sparse": search_all("r", "sparse_vector"),
    "bounds quantile": search_all("i", "quantile"),
    "caps": lambda held: held.find_contribution_bounds(epsilon=2),
    "caps by": lambda held: held.find_contribution_bounds(by="town", assume_keys=5, epsilon=2),
    "batch": in_batch,
}
PLAIN: dict[str, Any] = {
    **{"id": "p", "i": 1, "j": 1.0, "k": 2.0, "free": 3, "r": 0.5, "open": 1.0},
    **{"c": "a", "e": "x", "t": True, "d": datetime.date(2000, 1, 1), "town": "oslo"},
}


def like(**cells: Any) -> dict[str, Any]:
    return {**PLAIN, **cells}


POISON: dict[str, dict[str, Any]] = {
    "missing": dict.fromkeys(PLAIN),
    "missing but its unit": {**dict.fromkeys(PLAIN), "id": "p"},
    "nan": like(j=NAN, k=NAN, r=NAN, open=NAN, c="", town=""),
    "infinite": like(j=INF, k=-INF, r=INF, open=-INF, free=2**63 - 1, i=2**31 - 1),
    "huge": like(j=1e308, k=-1e308, r=1e308, open=1e308, free=-(2**63), i=-(2**31), d=datetime.date(9999, 12, 31)),
    "minus zero": like(j=-0.0, k=-0.0, r=-0.0, open=-0.0, i=0, free=0),
    "text": like(c="A", e="X", town="a" * 200_000, id="\x00'\";--"),
    "odd text": like(c="NULL", e="nan", town="😀\u202e\ufeff", id=""),
    "tiny": like(j=5e-324, r=5e-324, open=5e-324, k=0.5, d=datetime.date(1, 1, 1)),
}


def table(*extra: dict[str, Any]) -> pa.Table:
    """Return a small table, the same in every call, with extra rows."""
    rng = random.Random(3)
    rows = [{**units.row(rng), "id": f"u{n % 20}", "town": "oslo" if n % 3 else None} for n in range(60)]
    return pa.Table.from_pylist([*rows, *extra], schema=SCHEMA)


def curator_of(source: Any, **more: Any) -> Any:
    return units.protect(source, unit=UNIT, budget=sd.ApproxDP(100, "0.5"), **more)


def response(call: Any, source: Any) -> dict[str, Any]:
    """Return all of an answer that may not depend on one row: everything but its numbers."""
    one = curator_of(source)
    try:
        release = call(one)
    except SordinoError as error:
        return {"raised": type(error).__name__, "said": str(error), "spent": one.spent}
    private = "town" in release.columns
    curve = release.question.startswith(("bounds", "caps"))  # its rows follow from noisy numbers
    one.close()
    return {
        "columns": release.columns,
        "schema": [(f.name, "text" if pa.types.is_string(f.type) else "number") for f in release.table.schema],
        "estimates": [(o.name, type(o.estimate).__name__, o.mechanism) for o in release.outputs] if not curve else None,
        "rows": None if curve or private else release.table.num_rows,
        "cost": release.cost,
        "spent": one.spent,
        "event": release.event,
        "fields": sorted(release.to_dict()),
        "question": release.question,
        "notes": len(release.notes),
        "chosen": [(name, type(value)) for name, value in release.chosen],
    }


@pytest.mark.attack("poison an answer by one row")
@pytest.mark.each(12)
@pytest.mark.parametrize("name", CALLS)
def test_no_odd_row_moves_the_kind_of_an_answer(name: str) -> None:
    usual = response(CALLS[name], table(*POISON.values()))  # each row was added: nine neighbors in a chain
    assert "raised" not in usual
    assert response(CALLS[name], table().slice(0, 0)) == usual


@functools.cache
def usual_responses(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the responses to a call over the small table, and over one without rows."""
    return response(CALLS[name], table()), response(CALLS[name], table().slice(0, 0))


@pytest.mark.attack("poison an answer by one row")
@pytest.mark.deep
@pytest.mark.parametrize("poison", POISON)
@pytest.mark.parametrize("name", CALLS)
def test_no_single_odd_row_moves_the_kind_of_an_answer(name: str, poison: str, tmp_path: Path) -> None:
    stored = units.parquet([("u", [POISON[poison]])], random.Random(1), tmp_path / "p.parquet")
    usual, of_none = usual_responses(name)
    assert response(CALLS[name], stored) == usual
    assert response(CALLS[name], table(POISON[poison])) == usual
    assert response(CALLS[name], pa.Table.from_pylist([POISON[poison]], SCHEMA)) == of_none


@pytest.mark.attack("tell what a table holds from the time of a plan or refusal")
@pytest.mark.each(3)
@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_read_before_the_charge_nor_without_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    poor = units.protect(table(), unit=UNIT, budget=sd.ApproxDP("1e-9", "1e-12"))
    rich = curator_of(table())
    spent: list[Any] = []

    def run(engine: Any, select: Any) -> Any:
        del engine, select
        spent.append(rich.spent.epsilon)

    monkeypatch.setattr(type(engine_behind(poor)), "run", run)
    with pytest.raises(BudgetExhausted):
        CALLS[name](poor)
    assert spent == []
    assert poor.spent == sd.ApproxDP(0, 0)
    with contextlib.suppress(ChargedError):
        CALLS[name](rich)
    assert spent
    assert min(spent) > 0


@pytest.mark.deep
@pytest.mark.attack("read data from an error or a failure")
@pytest.mark.each(3)
@pytest.mark.parametrize("name", CALLS)
def test_what_an_engine_says_when_it_fails_goes_nowhere(
    name: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    one = curator_of(table(like(town=CANARY, c=CANARY)))

    def failing(*_: Any) -> Any:
        raise ValueError(f"Conversion Error: could not cast {CANARY}")

    class Broken:
        execute = abort = close = failing

    monkeypatch.setattr(engine_behind(one), "_connection", Broken())
    with pytest.raises(ChargedError) as caught:
        CALLS[name](one)
    told = "".join(traceback.format_exception(caught.value)) + caplog.text + "".join(capfd.readouterr())
    told += "".join(str(c) for c in one.ledger.charges())
    assert CANARY not in told
    assert caught.value.__context__ is None
    assert len(one.ledger.charges()) == 1
    assert one.ledger.charges()[0].state == "failed"
    assert one.spent.epsilon > 0


@pytest.mark.deep
@pytest.mark.parametrize(
    ("of", "ladder"),
    [
        ("open", [1, 10, 100]),
        ("free", [1, 10**40]),
        ("c", None),
        ("d", None),
        ("town", None),
        (col("free") * col("free"), None),
    ],
)
@pytest.mark.parametrize("method", ["histogram", "ladder", "sparse_vector", "quantile"])
def test_bounds_that_cannot_be_searched_are_refused_before_the_charge(of: Any, ladder: Any, method: Any) -> None:
    if ladder is not None and method != "ladder":
        pytest.skip("a ladder goes with its own method")
    one = curator_of(table())
    with pytest.raises(SordinoError) as caught:
        one.find_bounds(of, method=method, ladder=ladder, epsilon=1)
    assert not isinstance(caught.value, ChargedError)
    assert one.spent == sd.ApproxDP(0, 0)
