"""Pictures: what is drawn, what the title says, and that no file reaches for the network. Releases are made by hand."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sordino as sd
from protecting import protect
from sordino.core.accounting.events import LaplaceEvent
from sordino.core.estimates.choices import Ranks, RankStage
from sordino.core.estimates.noisy import Noisy
from sordino.core.estimates.point_estimate import PointEstimate
from sordino.core.estimates.ratio import Ratio
from sordino.core.loss import PureDP
from sordino.core.noise.laws import DiscreteLaplace
from sordino.core.release import Key, Output, Release
from sordino.errors import DeclarationError
from sordino.reporting.charts import plot
from sordino.reporting.picture import save
from sordino.sensitivity import list_neighborhoods, sensitivity_profile

LAW = DiscreteLaplace(Fraction(3))
ONE = Fraction(1)
JOBS = ("Cook", "Nurse", None)


def release(outputs: list[Output], keys: tuple[Key, ...] = (Key("job", JOBS),), *, private: bool = True) -> Release:
    half = PureDP("0.5")
    return Release(
        question="the number of rows, for each job",
        keys=keys,
        outputs=tuple(outputs),
        cost=half,
        spent=half,
        remaining=half,
        event=LaplaceEvent("0.5"),
        neighbors="add_remove",
        privacy_unit="one row",
        declaration="d",
        charge="c-0001",
        table_name="people",
        time="2026-01-01T00:00:00Z",
        private=private,
    )


def counts(*steps: int) -> Output:
    return Output("n", Noisy(steps, ONE, LAW, least=0), "discrete Laplace")


def means(*steps: int) -> Output:
    top, bottom = Noisy(tuple(5 * s for s in steps), ONE, LAW), Noisy(steps, ONE, LAW)
    return Output("age", Ratio(top, bottom, 40, 0, 90), "ratio")


def profile(*, exact: bool = True, scale: float = 1, column: str | None = None, mark: str | None = None) -> pa.Table:
    rows = [
        {
            "query": query,
            "distance": k,
            "scope": scope,
            "relation": relation,
            "value": k * (scale if query == "sum" else 1.0),
            "exact": exact or query == "sum",
        }
        for query in ("sum", "std")
        for scope in ("global", "local")
        for relation in ("add_remove", "replace")
        for k in (1, 2)
    ]
    if column is not None:
        rows = [{**row, "column": name} for name in (column, "other") for row in rows]
    return pa.Table.from_pylist(rows).replace_schema_metadata(None if mark is None else {"sordino": mark})


def svg(thing: object) -> str:
    bundle = plot(thing)._repr_mimebundle_()
    assert set(bundle) == {"image/svg+xml", "text/plain"}
    return bundle["image/svg+xml"]


def marks(text: str, role: str) -> int:
    """Count the shapes that a mark drew, by the description of Vega's SVG renderer."""
    groups = re.findall(rf'<g class="{role} role-mark[^>]*[^/>]>(.*?)</g>', text, flags=re.S)
    return sum(group.count("<path") + group.count("<line") for group in groups)


@pytest.mark.deep
def test_groups_are_bars_with_intervals() -> None:
    text = svg(release([counts(120, 80, -2)]))
    assert marks(text, "mark-rect") == 3 + 2 * 3  # bars, and the two caps of each interval
    assert marks(text, "mark-rule") == 3
    for word in (
        "the number of rows, for each job",
        "Nurse",
        "(missing)",
        "95% intervals",
        "cost epsilon 0.5",
        "c-0001",
    ):
        assert word in text


def test_means_are_points_beside_counts() -> None:
    picture = plot(release([counts(120, 80, 40), means(120, 80, 1)]), confidence=0.9)
    left, right = picture.spec()["hconcat"]
    assert [left["layer"][0]["mark"]["type"], right["layer"][0]["mark"]["type"]] == ["bar", "point"]
    assert "90% intervals" in json.dumps(picture.spec())


def test_what_has_no_interval_or_no_value_says_so() -> None:
    made = release([Output("m", PointEstimate((7, None, 9), ONE), "smooth sensitivity")])
    text = svg(made)
    assert marks(text, "mark-rule") == 0
    assert "no interval is stated" in text
    assert "no value where a test failed" in text
    assert "intervals, each by itself" not in text


def test_a_number_is_a_point() -> None:
    text = svg(release([means(500)], keys=()))
    assert marks(text, "mark-symbol") == 1
    assert marks(text, "mark-rule") == 1


def test_a_second_key_has_colors_and_many_rows_are_cut() -> None:
    two = (Key("job", ("Cook", "Cook", "Nurse", "Nurse")), Key("sex", ("F", "M", "F", "M")))
    spec = plot(release([counts(1, 2, 3, 4)], two)).spec()
    assert spec["layer"][0]["encoding"]["color"]["title"] == "sex"
    assert "yOffset" in spec["layer"][0]["encoding"]
    many = release([counts(*range(300))], (Key("age", tuple(range(300))),))
    assert "the first 200 of 300 rows" in json.dumps(plot(many).spec())
    same = release([counts(1, 2, 3)], (Key("job", ("(missing)", None, "Cook")),))
    assert "(missing) (2)" in svg(same)


def quantiles(*steps: int, name: str = "age") -> list[Output]:
    stages = (RankStage(ONE, Fraction(1, 2), 3.0),)
    levels = ("0.1", "0.25", "0.5", "0.75", "0.9")
    return [
        Output(f"{name}_{level}", Ranks(tuple(step + place for step in steps), ONE, stages), "ranks")
        for place, level in enumerate(levels)
    ]


@pytest.mark.deep
def test_quantiles_of_one_column_share_a_panel() -> None:
    text = svg(release(quantiles(30), keys=()))
    spec = plot(release(quantiles(30), keys=())).spec()
    assert "hconcat" not in spec
    encoding = spec["layer"][0]["encoding"]
    assert (encoding["x"]["field"], encoding["y"]["axis"]["title"]) == ("value", "quantile")
    assert marks(text, "mark-symbol") == 5
    assert text.count("no interval of values can be stated") == 1

    left, middle, right = plot(
        release([*quantiles(30, 40, 50), *quantiles(1, 2, 3, name="pay"), counts(9, 8, 7)])
    ).spec()["hconcat"]
    assert [panel["layer"][0]["encoding"]["x"]["title"] for panel in (left, middle, right)] == ["age", "pay", "n"]
    assert left["layer"][0]["encoding"]["color"]["title"] == "quantile"
    assert marks(svg(release(quantiles(30, 40, 50))), "mark-symbol") == 15

    two = (Key("job", ("Cook", "Cook", "Nurse", "Nurse")), Key("sex", ("F", "M", "F", "M")))
    both = plot(release(quantiles(1, 2, 3, 4), two)).spec()
    assert "hconcat" not in both
    assert both["layer"][0]["encoding"]["color"]["title"] == "sex"
    assert "hconcat" in plot(release([*quantiles(30)[:1], *quantiles(3, name="pay")[1:2]], keys=())).spec()


def test_seeded_noise_is_marked() -> None:
    picture = plot(release([counts(1, 2, 3)], private=False))
    assert picture.title.startswith("NOT PRIVATE (its noise was seeded): ")
    assert "NOT PRIVATE" in svg(release([counts(1, 2, 3)], private=False))
    assert "NOT PRIVATE" not in svg(release([counts(1, 2, 3)]))


@pytest.mark.deep
def test_a_profile_has_panels() -> None:
    text = svg(profile(exact=False))
    for word in ("add/remove (unbounded)", "replace (bounded)", "global: any", "local: this", "std", "a bound"):
        assert word in text
    assert text.count(">distance k<") == 4
    assert "hollow" not in svg(profile())
    assert "log scale" not in svg(profile())
    assert "log scale" in svg(profile(scale=1000))


def test_a_profile_of_columns_has_a_row_each() -> None:
    text = svg(profile(column="days"))
    assert text.count(">distance k<") == 8
    assert "days" in text
    assert "global, replace (bounded)" in text


def test_a_profile_from_a_file_is_marked() -> None:
    picture = plot(profile(mark="NOT PRIVATE: column age of p.csv"))
    assert picture.title == "NOT PRIVATE (column age of p.csv): Sensitivity against distance"
    assert plot(profile(mark="{}"), title="Ages").title == "Ages"


def test_a_profile_with_gaps() -> None:
    rows = profile().to_pylist()
    rows[0]["value"], rows[-1]["value"] = None, float("inf")
    gaps = svg(pa.Table.from_pylist(rows))
    assert "not drawn" not in gaps
    assert "sum: unbounded or without an answer at distance 1" in gaps
    assert "std: unbounded or without an answer at distance 2" in gaps
    alone = [{**row, "value": None} if row["query"] == "std" else row for row in profile().to_pylist()]
    assert "not drawn, because unbounded or unknown: std" in svg(pa.Table.from_pylist(alone))
    with pytest.raises(DeclarationError, match="no finite value"):
        plot(pa.Table.from_pylist([{**row, "value": None} for row in rows]))


def test_a_curve_that_is_drawn_is_not_said_to_be_missing() -> None:
    """At distance 4 under add_remove no record is left: that point is named, not the whole of the query (L5)."""
    cell = {"query": "mean", "scope": "local", "relation": "add_remove", "exact": True}
    rows = [{**cell, "distance": k, "value": None if k == 4 else float(k)} for k in (1, 2, 3, 4)]
    drawn = svg(pa.Table.from_pylist(rows))
    assert "not drawn" not in drawn
    assert "mean: unbounded or without an answer at distance 4" in drawn


def test_neighborhoods_are_bars_that_end_at_the_global_line() -> None:
    found = list_neighborhoods("max", [1, 2, 3], size=2, neighbors="replace", within=1)
    found = dataclasses.replace(found, mark="a column")
    text = svg(found)
    assert marks(text, "mark-rect") == 3
    assert marks(text, "mark-rule") == 1
    assert "NOT PRIVATE (a column)" in text


def test_files(tmp_path: Path) -> None:
    picture = plot(release([counts(1, 2, 3)]), title='</script><script src="x">')
    for ending in ("svg", "png", "html", "json"):
        picture.save(tmp_path / f"p.{ending}")
    assert (tmp_path / "p.svg").read_text().startswith("<svg")
    png = (tmp_path / "p.png").read_bytes()
    assert png.startswith(b"\x89PNG")
    assert len(png) > 5_000
    assert json.loads((tmp_path / "p.json").read_text())["$schema"].endswith(".json")


def test_a_page_loads_nothing(tmp_path: Path) -> None:
    made = release([counts(1, 2, 3)], (Key("job", ("</script><img src=http://x.test>", "<!--", "c")),))
    plot(made, title="</title><script src='http://x.test'>").save(tmp_path / "p.html")
    head, bundle, drawn, tail = parts_of(tmp_path / "p.html")
    script = bundle + drawn
    assert "vegaEmbed(" in drawn
    assert re.search(r"window\.vegaEmbed\s*=", bundle)
    assert "default-src 'none'" in head
    assert "<" not in drawn
    assert tail.split() == ["</body>", "</html>"]
    assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)\s*=", head, flags=re.I)
    assert not re.search(r"\b(import|from)\s*[\"']https?:", script)


def parts_of(path: Path) -> list[str]:
    """Return what stands before, in and after the two scripts of a page, as a browser takes them apart."""
    head, first, second = path.read_text().split('<script type="module">')
    bundle, between = first.split("</script>")
    assert not between.strip()
    drawn, tail = second.split("</script>")
    return [head, bundle, drawn, tail]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to read the page's scripts")
def test_the_scripts_of_a_page_are_whole(tmp_path: Path) -> None:
    made = release([counts(120, 80, 40)], (Key("job", ("</script>", "<!--", "Cook")),))
    plot(made).save(tmp_path / "p.html")
    _, bundle, drawn, _ = parts_of(tmp_path / "p.html")
    (tmp_path / "page.mjs").write_text(bundle + drawn)
    done = subprocess.run(
        ["node", "--check", str(tmp_path / "page.mjs")], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-300:]


def test_refusals(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    picture = plot(release([counts(1, 2, 3)]))
    with pytest.raises(DeclarationError, match=r"\.svg, \.png, \.html, \.json"):
        save(picture, tmp_path / "p.gif")
    with pytest.raises(DeclarationError, match="cannot be written"):
        save(picture, tmp_path / "missing" / "p.svg")
    with pytest.raises(DeclarationError, match="not int"):
        plot(3)
    with pytest.raises(DeclarationError, match="lacks the column 'distance'"):
        plot(pa.table({"query": ["sum"]}))
    with pytest.raises(DeclarationError, match="confidence"):
        plot(release([counts(1, 2, 3)]), confidence=2)
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(DeclarationError, match=r"pip install 'sordino\[plots\]'"):
        plot(release([counts(1, 2, 3)]))


def test_posteriors_of_many_worlds_fill_their_axis() -> None:
    from sordino.risk import assess_risk

    [found] = assess_risk([1, 2, 3, 10, 20, 40], size=3, query="mean", risk="1/3", epsilon=2, output="12")
    bars = found.to_dict()["at"]["posteriors"]
    longest = max(max(row["prior"], row["posterior"]) for row in bars)
    spec = plot(found).spec()
    domains = [float(end) for _, end in re.findall(r"'domain': \[(0), ([\d.]+)\]", str(spec))]
    assert any(longest < end <= 1.2 * longest for end in domains)


@pytest.mark.deep
@pytest.mark.parametrize(
    ("grouped", "upright"),
    [
        (lambda t: t.group_by(sd.col("age").bin(width=10)), True),
        (lambda t: t.group_by("job"), False),
        (lambda t: t.group_by(sd.col("age").bin(width=2)), False),
    ],
    ids=["bins", "names", "too many bins"],
)
def test_a_histogram_stands_upright(grouped: Any, upright: bool) -> None:
    table = sd.protect(
        pa.table({"age": [20, 30, 40], "job": ["a", "b", "c"]}),
        domain=sd.Domain({"age": sd.Integer(0, 99), "job": sd.Category(["a", "b", "c"])}),
        neighbors="add_remove",
        privacy_unit="row",
        budget=sd.PureDP(10),
        ledger=None,
    )
    spec = sd.plot(table.ask(grouped(table).agg(sd.count()), epsilon=1)).chart.to_dict()
    layers = spec["layer"] if "layer" in spec else spec["vconcat"][0]["layer"]
    while "layer" in layers[0]:
        layers = layers[0]["layer"]
    assert (layers[0]["encoding"]["y"]["field"] == "value") is upright


def test_quantiles_lie_on_one_axis_however_they_were_asked() -> None:
    """Several levels of one question, and several questions of one level each: one panel, in the order they were asked."""
    table = protect(
        pa.table({"age": list(range(100))}), domain=sd.Domain({"age": sd.Integer(0, 100)}), budget=sd.PureDP(10**6)
    )
    apart = sd.plot(table.ask([sd.quantile("age", q) for q in (0.1, 0.5, 0.9)], epsilon=1000)).spec()
    levels = [row["level"] for data in _data(apart) for row in data if "level" in row]
    assert list(dict.fromkeys(levels)) == ["0.1", "0.5", "0.9"]
    # a question of another column has a panel of its own
    other = sd.plot(table.ask([sd.quantile("age", 0.1), sd.count()], epsilon=1000)).spec()
    assert "hconcat" in other


def _data(part: Any) -> list[list[dict[str, Any]]]:
    if isinstance(part, dict):
        own = [part["data"]["values"]] if isinstance(part.get("data"), dict) and "values" in part["data"] else []
        return [*own, *(rows for key, value in part.items() if key != "data" for rows in _data(value))]
    return [rows for one in part for rows in _data(one)] if isinstance(part, list) else []


@pytest.mark.deep
def test_eight_queries_have_a_panel_each() -> None:
    queries = ["mean", "median", "count", "sum", "std", "var", "quantile:0.25", "quantile:0.9"]
    profile = sensitivity_profile([1, 2, 3, 10, 11], [1, 3, 10], queries=queries, distances=range(1, 3))
    spec = sd.plot(profile).spec()
    assert [panel["title"]["text"] for panel in spec["concat"]] == queries
    for panel, query in zip(spec["concat"], queries, strict=True):
        rows = [row for data in _data(panel) for row in data]
        assert {row["query"] for row in rows} == {query}
        # both relations and both scopes, at each distance
        assert len(rows) == 8
    assert "facet" in sd.plot(sensitivity_profile([1, 2, 3], [1, 3], queries=queries[:3], distances=[1])).spec()
