"""Tabulations of surveys: rows that count by their weights, small cells that are not shown, and rounding to a base."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.ask.queries.question_records import question_from_json, question_to_json
from sordino.ask.queries.sql.tabulation_plan import read_tabulation
from sordino.ask.queries.tabulation import TabulationQuery, compile_tabulation
from sordino.core.loss import ZCDP
from sordino.core.neighbors import Neighbors
from sordino.core.release import Release
from sordino.tables.residual_query import ResidualQuery
from sordino.tables.residuals import residual_counts

DOMAIN = sd.Domain(
    {
        "region": sd.Category(["north", "south"]),
        "sex": sd.Category(["f", "m"]),
        "weight": sd.Real(0, 3, resolution="0.5"),
        "times": sd.Integer(0, 3),
        "moved": sd.Integer(-1, 3),
        "open": sd.Integer(),
        "income": sd.Integer(0, 2),
        "id": sd.Identifier(),
    }
)
ROWS = pa.table(
    {
        "region": ["north", "north", "south", "south", "south", None],
        "sex": ["f", "m", "f", "f", "m", "f"],
        # One is above the bounds, one below, and one row has none.
        "weight": [1.5, 9.0, -2.0, 2.0, None, 1.0],
        "times": [1, 2, 3, 3, 3, 1],
        "moved": [1, 1, 1, 1, 1, 1],
        "open": [1, 1, 1, 1, 1, 1],
        "income": [2, 1, 1, 2, 2, 1],
        "id": ["a", "b", "c", "d", "e", "f"],
    }
)
MEASURES: dict[str, Any] = {"count": sd.count(), "income": sd.sum("income")}
TABLES: list[list[str]] = [["region", "sex"], ["sex"], []]


def ask(rho: str = "1000000", *, rows: pa.Table = ROWS, **options: Any) -> Release:
    people = protect(rows, DOMAIN, budget=ZCDP(10**9, delta="1e-9"), rng=sd.Rng.seeded(5))
    return people.ask(sd.tabulate(TABLES, MEASURES, **options), rho=rho)


@pytest.mark.parametrize("finish", ["whole", "linear", "raw"])
def test_each_row_counts_by_its_weight_clipped_to_the_bounds(finish: Any) -> None:
    cells = {
        (row["region"], row["sex"]): (row["count"], row["income"])
        for row in ask(row_weights="weight", finish=finish).tables["region", "sex"].to_pylist()
    }
    exact = {("north", "f"): (1.5, 3), ("north", "m"): (3, 3), ("south", "f"): (2, 4), ("south", "m"): (0, 0)}
    for cell, (count, income) in exact.items():
        assert cells[cell][0] == pytest.approx(count, abs=0.02)
        assert cells[cell][1] == pytest.approx(income, abs=0.02)


@pytest.mark.deep
@pytest.mark.parametrize("relation", ["add_remove", "replace"])
@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("measure", [0, 1])
def test_the_sensitivity_of_weighted_tables_is_the_largest_change_of_any_unit(
    relation: Any, rows: int, measure: int
) -> None:
    """By brute force: every table of one unit's rows, of every weight and value, and every other that it may become."""
    neighbors = Neighbors(relation, sd.PrivacyUnit("id", max_rows=rows))
    question = sd.tabulate([["region", "sex"], ["sex"], []], MEASURES, row_weights="times")
    compiled = compile_tabulation(question, DOMAIN)
    values = range(4) if measure == 0 else sorted({a * b for a in range(4) for b in range(3)})
    single = [value * np.eye(4, dtype=int)[cell] for cell in range(4) for value in values]
    units = np.array([np.sum(several, axis=0) for several in itertools.combinations_with_replacement(single, rows)])
    before = units if relation == "replace" else np.zeros((1, 4), dtype=int)
    changes = np.unique((units[:, None, :] - before[None, :, :]).reshape(-1, 4), axis=0).reshape(-1, 2, 2)
    tables = ((0, 1), (1,), ())
    shares = (Fraction(1, 3),) * 3
    marginals = TabulationQuery(question, measure, tables, shares, compiled.vectors[measure].unit)
    residuals = [sensitivity for sensitivity, _ in ResidualQuery(marginals).parts(DOMAIN, neighbors)]
    for place, axes in enumerate(tables):
        summed = changes.sum(axis=tuple(1 + axis for axis in (0, 1) if axis not in axes))
        flat = np.abs(summed.reshape(len(changes), -1))
        stated = compiled.sensitivity(measure, axes, neighbors)
        assert stated.l1 == flat.sum(axis=1).max()
        assert stated.l2_squared == (flat**2).sum(axis=1).max()
        beyond = np.abs([residual_counts(table).reshape(-1) for table in summed])
        assert residuals[place].l1 >= beyond.sum(axis=1).max()
        assert residuals[place].l2_squared >= (beyond**2).sum(axis=1).max()
        if relation == "add_remove":
            assert residuals[place].l2_squared == (beyond**2).sum(axis=1).max()


@pytest.mark.each(3)
@pytest.mark.parametrize("finish", ["raw", "linear", "whole"])
def test_a_cell_is_shown_where_its_released_count_reaches_the_threshold(finish: Any) -> None:
    """The same noise with and without suppression: what is shown is unchanged, and nothing else is held in the release."""
    many = pa.concat_tables([ROWS] * 6)
    whole = ask("0.2", rows=many, finish=finish)
    hidden = ask("0.2", rows=many, finish=finish, suppress_below=8)
    shown = 0
    for table in whole.tables:
        for plain, row in zip(whole.tables[table].to_pylist(), hidden.tables[table].to_pylist(), strict=True):
            if plain["count"] >= 8:
                shown += 1
                assert {name: row[name] for name in row if not name.startswith("count_")} == {
                    name: plain[name] for name in plain if not name.startswith("count_")
                }
                # Ends are widened for the choice.
                assert row["count_low"] <= plain["count_low"] <= plain["count_high"] <= row["count_high"]
            else:
                assert {name: row[name] for name in table} == {name: plain[name] for name in table}
                assert [value for name, value in row.items() if name not in table] == [None] * 6
    assert 0 < shown < len(whole.rows)
    assert any("of 7 cells are not shown" in note for note in hidden.notes)
    again = Release.from_dict(json.loads(json.dumps(hidden.to_dict())))
    assert again.rows == hidden.rows
    for output in again.outputs:
        estimate: Any = output.estimate
        assert all(estimate.cells[i] == 0 and not any(estimate.linear[i : i + 1]) for i in estimate.suppressed)
    with pytest.raises(sd.errors.QuestionRefused, match="not shown: tabulate without suppress_below"):
        sd.synth.fit(hidden)
    assert hidden.query("SELECT region, SUM(count) AS n FROM answer GROUP BY region").rows
    assert "x</td>" in hidden._repr_html_()
    hidden.plot()
    hidden.tables.plot("sex")


SPARSE = sd.Domain(
    {
        "country": sd.Category(["FR", "IT", "PE"]),
        "project": sd.Category(["wiki", "news"]),
        "page": sd.Category([f"page {i:04}" for i in range(600)]),
    }
)


def sparse_rows() -> pa.Table:
    """Return rows of few of the 3,600 cells: pages by a law of powers, other ones in each country."""
    draws = np.random.default_rng(8)
    count = 4_000
    country = draws.choice(["FR", "IT", "PE"], count)
    place = np.floor(600 * draws.random(count) ** 6).astype(int)
    shift = {"FR": 0, "IT": 7, "PE": 13}
    pages = [f"page {(p + shift[c]) % 600:04}" for p, c in zip(place, country, strict=True)]
    return pa.table({"country": country, "project": draws.choice(["wiki", "news"], count), "page": pages})


@pytest.mark.deep
@pytest.mark.parametrize("loss", [{"rho": "0.05"}, {"epsilon": "0.5"}])
@pytest.mark.parametrize("finish", ["raw", "linear"])
def test_the_plan_states_how_many_empty_cells_a_threshold_shows(finish: Any, loss: dict[str, Any]) -> None:
    """Within 6 deviations of a Poisson number in each of several runs; of cells at the threshold half are shown."""
    source = sparse_rows()
    exact = {tuple(row.values())[:3]: row["n"] for row in count_rows(source)}
    question = sd.tabulate([["country", "project", "page"]], finish=finish, suppress_below=10)
    shown_of: dict[bool, int] = {True: 0, False: 0}
    for seed in range(2):
        budget: Any = sd.ZCDP(1, "1e-6") if "rho" in loss else sd.PureDP(2)
        people = protect(source, SPARSE, budget=budget, rng=sd.Rng.seeded(seed))
        plan = people.plan(question, **loss)
        words = next(note for note in plan.notes if "without a row are expected" in note)
        expected = float(words.split("at most ")[1].split(" without")[0].replace(",", ""))
        empty = (3_600 - len(exact)) / 3_600
        answer = people.ask(plan)
        rows = answer.tables.shown(["country", "project", "page"]).to_pylist()
        spurious = sum((row["country"], row["project"], row["page"]) not in exact for row in rows)
        assert abs(spurious - empty * expected) <= 6 * math.sqrt(expected) + 1
        sure = int(words.split(", of ")[-1].split(" 95%")[0].replace(",", ""))
        kept = {(row["country"], row["project"], row["page"]) for row in rows}
        for key, count in exact.items():
            if count >= sure:
                shown_of[key in kept] += 1
        assert {len(kept), len(rows)} == {sum(cell is not None for cell in answer.table.column("count").to_pylist())}
    assert shown_of[True] >= 0.9 * sum(shown_of.values())
    assert sum(shown_of.values()) > 8


@pytest.mark.each(10)
@pytest.mark.parametrize("loss", [{"rho": "0.05"}, {"epsilon": "0.5"}], ids=["rho", "epsilon"])
@pytest.mark.parametrize("finish", ["raw", "linear", "whole"])
def test_intervals_of_cells_that_reach_a_threshold_cover_given_that_they_are_shown(
    finish: Any, loss: dict[str, Any]
) -> None:
    """Of the shown cells' intervals at most 5% miss; without the widening, of the many small cells far more would."""
    source = sparse_rows()
    exact = {tuple(row.values())[:3]: row["n"] for row in count_rows(source)}
    table = ["country", "project", "page"]
    misses: list[bool] = []
    narrow: list[bool] = []
    for seed in range(2):
        budget: Any = sd.ZCDP(1, "1e-6") if "rho" in loss else sd.PureDP(2)
        people = protect(source, SPARSE, budget=budget, rng=sd.Rng.seeded(seed))
        answer = people.ask(sd.tabulate([table], finish=finish, suppress_below=12), **loss)
        half = people.plan(sd.tabulate([table], finish=finish), **loss).error(0.95)[tuple(table)]
        for row in answer.tables.shown(table).to_pylist():
            count = exact.get((row["country"], row["project"], row["page"]), 0)
            misses.append(not row["count_low"] <= count <= row["count_high"])
            narrow.append(abs(row["count"] - count) > half)
    assert len(misses) > 40
    # Three deviations of a share of 5%.
    assert np.mean(misses) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / len(misses))
    assert np.mean(misses) < np.mean(narrow) or finish == "whole"


def count_rows(source: pa.Table) -> list[dict[str, Any]]:
    counted = source.append_column("n", [[1] * source.num_rows]).group_by(source.column_names).aggregate([("n", "sum")])
    return [{**{name: row[name] for name in source.column_names}, "n": row["n_sum"]} for row in counted.to_pylist()]


@pytest.mark.each(2)
@pytest.mark.parametrize("finish", ["raw", "whole"])
def test_the_largest_counts_of_each_group_are_shown(finish: Any) -> None:
    """Against a sort of the same release with all cells; also beside a threshold, on record and read again."""
    tables = [["country", "project", "page"], ["page", "country"], ["country"], []]
    budget = sd.ZCDP(1, "1e-6")

    def ask(**options: Any) -> Release:
        people = protect(sparse_rows(), SPARSE, budget=budget, rng=sd.Rng.seeded(4))
        return people.ask(sd.tabulate(tables, finish=finish, **options), rho="0.05")

    every = ask()
    largest = ask(largest=2)
    for table in map(tuple, tables):
        rows = every.tables[table].to_pylist()
        if table:
            groups: dict[Any, list[dict[str, Any]]] = {}
            for row in rows:
                groups.setdefault(tuple(row[name] for name in table[:-1]), []).append(row)
            two_of = [(group, sorted(group, key=by_count)[:2]) for group in groups.values()]
            rows = [row for group, two in two_of for row in group if row in two]
        shown = largest.tables.shown(table).to_pylist()
        assert [{**row, "count_low": 0, "count_high": 0} for row in shown] == [
            {**row, "count_low": 0, "count_high": 0} for row in rows
        ]
        # All 600 intervals of a group hold together.
        if finish == "raw":
            assert all(a["count_high"] > b["count_high"] for a, b in zip(shown, rows, strict=True))
    assert Release.from_dict(json.loads(json.dumps(largest.to_record()))) == largest
    both = ask(largest=2, suppress_below=40)
    kept = both.tables.shown(tables[0]).column("count").to_pylist()
    assert kept == [n for n in largest.tables.shown(tables[0]).column("count").to_pylist() if n >= 40]
    assert any("too large on average" in note for note in both.notes)


def by_count(row: dict[str, Any]) -> float:
    return -float(row["count"])


@pytest.mark.each(6)
@pytest.mark.parametrize("base", [5, "0.5"])
@pytest.mark.parametrize("finish", ["whole", "linear", "raw"])
def test_rounding_moves_a_cell_by_half_of_the_base_at_most(finish: Any, base: Any) -> None:
    plain = ask("0.02", finish=finish)
    rounded = ask("0.02", finish=finish, round_to=base)
    step = float(Fraction(base))
    for before, after in zip(plain.rows, rounded.rows, strict=True):
        for name in MEASURES:
            assert abs(after[name] - before[name]) <= step / 2 + 1e-9
            assert after[name] % step == 0
    ends = zip(plain.interval(0.9).to_pylist(), rounded.interval(0.9).to_pylist(), rounded.rows, strict=True)
    for before, after, row in ends:
        # The interval is that of before, or reaches to the cell that is shown.
        assert after["count_lower"] <= max(before["count_lower"] + 1, row["count"])
        assert after["count_lower"] <= row["count"] <= after["count_upper"]
    assert any("rounded to multiples of" in note for note in rounded.notes)
    assert sd.synth.fit(rounded, rng=sd.Rng.seeded(1)).rows == sd.synth.fit(plain, rng=sd.Rng.seeded(1)).rows


def test_it_travels_as_data_and_is_part_of_the_question() -> None:
    options: dict[str, Any] = {"row_weights": "weight", "suppress_below": 10, "round_to": "2.5", "largest": 3}
    question = sd.tabulate(TABLES, MEASURES, **options)
    assert question_from_json(json.loads(json.dumps(question_to_json(question)))) == question
    measures = {"count": "COUNT(*)", "income": "SUM(income)"}
    assert read_tabulation({"tables": TABLES, "measures": measures, **options, "round_to": 2.5}) == question
    identities = {question.identity(), sd.tabulate(TABLES, MEASURES).identity()}
    identities |= {sd.tabulate(TABLES, MEASURES, **{name: value}).identity() for name, value in options.items()}
    assert len(identities) == 6
    words = question.describe()
    assert "each row counted by its weight" in words
    assert "none of fewer than 10" in words
    assert "multiples of 2.5" in words
    assert "the 3 largest of each group" in words


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"row_weights": "open"}, "'open' have no declared bounds"),
        ({"row_weights": "moved"}, "declared from -1"),
        ({"row_weights": "wheight"}, "wheight"),
        ({"row_weights": "region"}, "region"),
        ({"row_weights": "weight", "measures": {"ids": sd.count_distinct("id")}}, "have no weights"),
        ({"row_weights": "weight", "measures": {"n": sd.count("income")}}, "have no weights"),
        ({"suppress_below": 5, "measures": {"income": sd.sum("income")}}, "sd.count\\(\\) among the measures"),
        ({"suppress_below": 0}, "above 0"),
        ({"round_to": -5}, "above 0"),
        ({"row_weights": 3}, "name of a column"),
        ({"largest": 0}, "1 or more, not 0"),
        ({"largest": True}, "1 or more, not True"),
        ({"largest": 3, "measures": {"income": sd.sum("income")}}, "sd.count\\(\\) among the measures"),
    ],
)
def test_what_makes_no_sense_is_refused_before_the_charge(options: dict[str, Any], words: str) -> None:
    people = protect(ROWS, DOMAIN, budget=ZCDP(10, delta="1e-9"))
    with pytest.raises(sd.errors.SordinoError, match=words):
        people.ask(sd.tabulate(TABLES, **{"measures": MEASURES, **options}), rho="0.1")
    assert people.spent == ZCDP(0, delta="1e-9")


def test_the_plan_says_what_will_be_done_to_the_numbers() -> None:
    people = protect(ROWS, DOMAIN, budget=ZCDP(10, delta="1e-9"))
    plan = people.plan(sd.tabulate(TABLES, row_weights="weight", suppress_below=10, round_to=5), rho="0.1")
    assert any("clipped to [0, 3]" in note for note in plan.notes)
    assert any("below 10 are not shown" in note for note in plan.notes)
    assert any("multiples of 5" in note for note in plan.notes)
    unweighted = people.plan(sd.tabulate(TABLES), rho="0.1").error(0.95)
    assert plan.error(0.95)["sex",] == pytest.approx(3 * unweighted["sex",], rel=0.02)
