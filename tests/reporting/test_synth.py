"""Pictures of synthetic data, and the page: what is drawn, what the title says, that nothing is loaded."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sordino as sd
from markup import Page
from protecting import protect
from sordino.core.domain import Boolean, Category, Date, Domain, Integer, Real
from sordino.core.noise.rng import Rng
from sordino.errors import DeclarationError
from sordino.reporting.picture import encode_picture
from sordino.reporting.synth import Histograms, Matrices, Ways
from sordino.reporting.synth_evaluation import Section, Sheet, sheet_page
from sordino.reporting.synth_shapes import AxisScale, Densities, Heat

DOMAIN = Domain(
    {
        "age": Integer(18, 60, missing="keep"),
        "pay": Real(0, 100, resolution="0.5"),
        "born": Date("2000-01-01", "2000-03-31"),
        "member": Boolean(),
        "town": Category(["a", "b"], missing="keep"),
    }
)


@pytest.fixture(scope="module")
def table() -> sd.Curator:
    rng = np.random.default_rng(4)
    rows = 800
    age = rng.integers(18, 61, rows)
    made = pa.table(
        {
            "age": pa.array(age, mask=rng.random(rows) < 0.1),
            "pay": pa.array(age + rng.integers(0, 20, rows) / 2.0),
            "born": pa.array(
                [datetime.date(2000, 1, 1) + datetime.timedelta(days=int(d)) for d in rng.integers(0, 90, rows)]
            ),
            "member": pa.array(age > 40),
            "town": pa.array(rng.choice(["a", "b"], rows), mask=rng.random(rows) < 0.2),
        }
    )
    return protect(made, DOMAIN, seed=2)


def values(spec: object) -> list[dict[str, Any]]:
    """Return all rows of data in a specification."""
    if isinstance(spec, dict):
        own = spec["values"] if isinstance(spec.get("values"), list) else []
        return [*own, *(v for key, one in spec.items() if key != "values" for v in values(one))]
    return [v for one in spec for v in values(one)] if isinstance(spec, list) else []


def draw(thing: Any, **words: Any) -> tuple[dict[str, Any], str]:
    picture = sd.plot(thing, **words)
    return picture.spec(), picture.title


def render(thing: object) -> bool:
    return encode_picture(sd.plot(thing), ".svg").startswith(b"<svg")


@pytest.mark.each(4)
@pytest.mark.parametrize("name", ["age", "born", "member", "town"])
def test_a_representation_with_its_error(table: sd.Curator, name: str) -> None:
    made = sd.synth.Histogram(name).fit(table, epsilon=1)
    spec, title = draw(made)
    assert title == f"NOT PRIVATE (its noise was seeded): {name}, as released"
    rows = [v for v in values(spec) if "count" in v]
    counts = made.counts().tolist()
    bins = len(counts) - (name == "age")  # missing has no place on an axis of numbers
    assert len(rows) == bins
    assert [r["count"] for r in rows] == pytest.approx(counts[:bins])
    assert all(r["low"] < r["count"] < r["high"] for r in rows)
    wide, _ = draw(made, confidence=0.99)
    assert next(v for v in values(wide) if "count" in v)["high"] > rows[0]["high"]
    with pytest.raises(DeclarationError, match="confidence"):
        draw(made, confidence=3)
    if name == "age":
        assert f"missing: {counts[-1]:,.0f} released" in str(spec)
        assert rows[0]["high"] - rows[0]["count"] == pytest.approx(made.range(18, 19).error(0.95))


@pytest.mark.deep
def test_representations_of_one_column_beside_each_other(table: sd.Curator) -> None:
    one = sd.synth.Histogram("age").fit(table, epsilon=1)
    two = sd.synth.Histogram("age", ranges=[(18, 50)] * 9).fit(table, epsilon=1)
    spec, _ = draw([one, two])
    series = sorted({v["series"] for v in values(spec) if "count" in v})
    assert [s[:3] for s in series] == ["1: ", "2: "]
    assert all("a histogram of age" in s for s in series)
    with pytest.raises(DeclarationError, match="one column over the same bins"):
        draw([one, sd.synth.Histogram("pay").fit(table, epsilon=1)])


def test_drawn_rows_beside_a_release_are_shares(table: sd.Curator) -> None:
    one = sd.synth.Histogram("age").fit(table, epsilon=1)
    rows = one.sample(500, rng=Rng.seeded(1))
    spec, _ = draw([one, rows])
    found = [v for v in values(spec) if "count" in v]
    for name in ("1: released probabilities", "2: 500 rows"):
        shares = [v["count"] for v in found if v["series"] == name]
        assert 0.8 < sum(shares) <= 1.000001  # missing has no place on the axis
    assert "share of rows" in str(spec)
    with pytest.raises(DeclarationError, match="two columns alone"):
        draw([sd.synth.Histogram(("age", "town")).fit(table, epsilon=1), rows])
    raw = rows.replace_schema_metadata({"sordino": "NOT PRIVATE: raw rows"})
    exact = sd.synth.Histogram("town").exact(pa.table({"town": ["a", "b", "b"]}), domain=DOMAIN)
    shown = pa.table({"town": ["a"]}, metadata={"sordino": "NOT PRIVATE: raw rows"})
    assert draw([exact, shown])[1].startswith("NOT PRIVATE (exact counts): ")
    assert draw([one, raw])[1].startswith("NOT PRIVATE")


@pytest.mark.deep
def test_counts_of_synthetic_rows_say_so_and_carry_no_mark(table: sd.Curator) -> None:
    """They were called exact counts, and NOT PRIVATE: legends, titles and reprs of what was paid for."""
    released = sd.synth.Histogram("age").fit(table, epsilon=1)
    drawn = released.sample(500, rng=Rng.seeded(1))
    counted = sd.synth.Histogram("age").exact(drawn, domain=DOMAIN, synthetic=True)
    both = sd.synth.Histogram(("age", "town")).exact(
        drawn.append_column("town", pa.array(["a"] * 500)), domain=DOMAIN, synthetic=True
    )
    for spec, title in (draw(counted), draw([released, counted]), draw([counted, drawn]), draw(both)):
        assert "exact" not in str(spec) + title
        assert "NOT PRIVATE (exact counts)" not in title
    assert draw(counted)[1] == "age, of synthetic rows"
    assert repr(counted).startswith("<Representation: counts of synthetic rows: a histogram of age>\n")
    assert counted.range(18, 60).value == len(drawn) - drawn["age"].null_count - drawn["age"].to_pylist().count(60)
    model = sd.synth.fit(table, epsilon=100, columns=["age", "pay"], rng=Rng.seeded(1))
    report = sd.synth.evaluate(model, against=drawn.append_column("pay", drawn["age"]), non_private=True, rows=200)
    assert "exact counts" not in str(report) + report._repr_html_() + str(sd.plot(report).spec())


def test_two_columns_are_a_table_of_colors(table: sd.Curator) -> None:
    made = sd.synth.Histogram(("town", "age")).fit(table, epsilon=1)
    spec, title = draw(made)
    assert "age and town, as released" in title  # the longer one lies across
    cells = {(v["age"], v["town"]): v["rows"] for v in values(spec)}
    assert len(cells) == made.counts().size
    assert cells["18", "(missing)"] == made.cell(None, 18).value
    exact = sd.synth.Histogram(("town", "member")).exact(
        pa.table({"town": ["a", None], "member": [True, False]}), domain=DOMAIN
    )
    assert draw(exact)[1].startswith("NOT PRIVATE (exact counts): ")
    with pytest.raises(DeclarationError, match="of two with"):
        draw(sd.synth.Histogram(("town", "age", "member")).fit(table, epsilon=1))


def test_a_model_column_by_column(table: sd.Curator) -> None:
    model = sd.synth.Marginals([("age", "member"), ("town",), ("pay",), ("born",)]).fit(
        table, epsilon=100, rng=Rng.seeded(1)
    )
    spec, title = draw(model)
    assert title.startswith("NOT PRIVATE (its noise was seeded): A model of")
    rows = [v for v in values(spec) if "count" in v]
    assert sum(r["count"] for r in rows if r["bin"] in ("false", "true")) == pytest.approx(model.rows, rel=0.01)
    assert render(model)
    answered = model.answer(table.where(sd.col("town") == "a").agg(sd.count()))
    assert [r["count"] for r in rows if r["bin"] == "a"] == pytest.approx([answered.value], rel=1e-3)
    assert "missing: " in str(spec)


def test_an_original_beside_a_synthetic_histogram() -> None:
    made = Histograms(
        "age", [17, 18, 19], [("original", [5, 6, 7]), ("synthetic", [4.5, 6.5, 7.0])], mark="an original is shown"
    )
    spec, title = draw(made)
    assert title == "NOT PRIVATE (an original is shown): age: original, synthetic"
    assert {v["series"]: v["count"] for v in values(spec) if v["bin"] == 17} == {"original": 5.0, "synthetic": 4.5}
    names = Histograms("job", ["</script>", "b"], [("original", [1, 2]), ("synthetic", [2, 1])], ordered=False)
    _, title = draw(names)
    assert not title.startswith("NOT PRIVATE")
    with pytest.raises(DeclarationError, match="one count, and one error, for each bin"):
        Histograms("age", [1, 2], [("a", [1])])


SKEWED = AxisScale("symlog", 100.0)


@pytest.mark.parametrize("scale", [AxisScale("linear"), SKEWED], ids=["linear", "symlog"])
def test_a_distribution_is_drawn_over_the_original_s_and_what_noise_hides_is_not(scale: AxisScale) -> None:
    edges = [0, 1, 50, 1_000, 50_000, 2_000_000]
    synthetic, original = [0.3, 0.2, 0.3, 0.2, 0.0], [0.25, 0.2, 0.33, 0.2, 0.02]
    spec, title = draw(Densities("pay", edges, synthetic, original, [0.05] * 5, scale))
    assert title == "pay: synthetic rows and the original"
    found = [v for v in values(spec) if isinstance(v, dict) and "share" in v]
    shares = {name: [v["share"] for v in found if v["series"] == name] for name in ("synthetic rows", "original")}
    assert sum(shares["synthetic rows"]) == pytest.approx(1.0)
    assert all(v["share"] > v["share"] - v["low"] and v["low"] < v["high"] for v in found if "low" in v)
    # the share beyond 50,000 is below its noise
    assert max(v["start"] for v in found if v["series"] == "original") < 50_000
    assert len(shares["original"]) < len(shares["synthetic rows"])
    assert ("symlog" in str(spec)) == (scale is SKEWED)
    marked = Densities("pay", edges, synthetic, original, [0.0] * 5, scale, "rows")
    assert draw(marked)[1].startswith("NOT PRIVATE (rows)")
    with pytest.raises(DeclarationError, match="one edge more"):
        Densities("pay", edges, synthetic, original, [0.0] * 4, scale)


def test_places_on_a_scale_are_those_of_its_values() -> None:
    for value in (-2_000_000.0, -3.0, 0.0, 0.5, 100.0, 12_345.0):
        assert SKEWED.value(SKEWED.place(value)) == pytest.approx(value)
    assert SKEWED.place(10.0) - SKEWED.place(0.0) > SKEWED.place(1_010.0) - SKEWED.place(1_000.0)


def test_dates_are_drawn_on_an_axis_of_time() -> None:
    made = Densities(
        "born", ["2000-01-01", "2000-02-01", "2000-03-31"], [0.5, 0.5], [0.4, 0.6], [0.0, 0.0], AxisScale("time")
    )
    assert "'type': 'temporal'" in str(draw(made)[0])
    assert render(made)


def test_a_pair_is_drawn_beside_the_original_s_and_hidden_cells_are_white() -> None:
    made = Heat(("age", "pay"), ([18, 40], [0.0, 5.25]), [[0.25, 0.25], [0.0, 0.5]], [[0.5, None], [None, 0.4]])
    spec, title = draw(made)
    assert title == "age and pay"
    cells = [v for v in values(spec) if "share" in v]
    assert sorted(v["share"] for v in cells) == [0.25, 0.25, 0.4, 0.5, 0.5]
    assert render(made)


def test_a_mean_below_its_noise_has_no_bar() -> None:
    spec, _ = draw(Ways([(1, 0.02, 0.05, 0.005), (2, 0.05, 0.01, 0.016)]))
    assert {v["ways"]: v["value"] for v in values(spec)} == {"1 column": None, "2 columns": 0.05}


def test_accuracy_against_epsilon() -> None:
    rows = [
        {"method": m, "epsilon": e, "distance": d + s / 1000, "ways": w, "seed": s, "floor": 0.016}
        for m, d in (("independent", 0.08), ("fit", 0.03))
        for e in (0.1, 1.0)
        for w in (2, 3)
        for s in (0, 2)
    ]
    spec, title = draw(pa.Table.from_pylist(rows))
    assert title == "Accuracy against epsilon"
    found = {(v["method"], v["epsilon"]): v for v in values(spec) if "mean" in v}
    assert found["fit", 0.1]["mean"] == pytest.approx(0.031)
    assert (found["fit", 0.1]["low"], found["fit", 0.1]["high"]) == (0.03, 0.032)
    assert [v["floor"] for v in values(spec) if "floor" in v] == [0.016] * 2
    told = pa.Table.from_pylist(rows).replace_schema_metadata({"sordino": "NOT PRIVATE"})
    assert draw(told)[1].startswith("NOT PRIVATE")
    with pytest.raises(DeclarationError, match="no row to draw"):
        draw(pa.Table.from_pylist(rows).slice(0, 0))


def test_distances_and_matrices() -> None:
    spec, _ = draw(Ways([(1, 0.02, 0.01, 0.005), (2, 0.05, 0.0, 0.016)]))
    assert {v["floor"] for v in values(spec)} == {0.005, 0.016}
    spec, title = draw(
        Matrices(["a", "b"], [("synthetic", [[1, 0.2], [0.2, 1]]), ("original", [[1, None], [None, 1]])], "rows")
    )
    assert title.startswith("NOT PRIVATE (rows)")
    assert [v["told"] for v in values(spec) if v["row"] != v["column"]] == ["0.20", "0.20", "", ""]


def test_a_page_escapes_its_words_and_states_costs() -> None:
    hostile = "<script>alert(1)</script>"
    svg = f'<svg xmlns="http://www.w3.org/2000/svg">{hostile}</svg>'
    one = Section(hostile, "cost epsilon 1", (hostile,), (hostile,), ((hostile,),), ((hostile, svg),))
    two = Section("b", "NOT PRIVATE: rows")
    page = sheet_page(Sheet(hostile, (hostile,), (one, two), "NOT PRIVATE: rows are shown", (hostile,)))
    found = Page(page)
    assert "script" not in found.tags
    assert found.tags.count("img") == 1
    assert found.words.count(hostile) >= 7
    assert "default-src 'none'" in page
    assert page.index("NOT PRIVATE: rows are shown") < page.index("<h1>")
    assert page.count('class="alarm"') == 2
    calm = sheet_page(Sheet("a", (), (Section("b", "cost epsilon 1"),), None))
    assert "NOT PRIVATE" not in calm
    assert 'class="alarm"' not in calm
