"""The picture of risks: both curves, the requirement, both epsilons, and bars beside the prior. Figures made by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sordino.errors import DeclarationError
from sordino.reporting.charts import plot
from sordino.reporting.odds_icons import Tradeoff, icon_array
from sordino.reporting.risks import Densities, Risks
from sordino.risk import Worlds, assess_risk

CURVE = [(0.2, 0.27, 0.3), (0.5, 0.34, 0.4), (1.0, 0.5, 0.6)]
BELIEFS = [("1, 2, 3", 0.25, 0.62), ("1, 2, 10", 0.25, 0.16), ('it\'s "3"', 0.25, 0.12), ("2, 3, 10", 0.25, 0.1)]


POINTS = [(0.1, 20.0, 0.52), (0.5, 5.0, 0.62), (1.0, 2.5, 0.73), (2.0, 1.2, 0.88)]
DENSITIES = Densities(
    [("1, 2, 3", 2.0, 0.62), ("1, 2, 10", 13 / 3, 0.16), ("2 worlds", 5.0, 0.22)], scale=1.5, output=2.2
)


def words_of(picture: Any) -> str:
    """Return the text of a picture, with the line under its title in one piece."""
    return json.dumps(picture.spec()).replace('", "', " ")


def risks(**more: Any) -> Risks:
    figures: dict[str, Any] = {
        "subject": "the mean",
        "curve": CURVE,
        "requirement": 1 / 3,
        "exact": 0.43,
        "bound": 0.38,
    }
    return Risks(**{**figures, **more})


@pytest.mark.each(4)
@pytest.mark.parametrize("ending", [".svg", ".png", ".html", ".json"])
def test_it_renders(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"risk{ending}"
    plot(risks(beliefs=BELIEFS, seen="output 2.2 at epsilon 2")).save(path)
    assert path.stat().st_size > 1000


def test_what_is_drawn() -> None:
    spec = words_of(plot(risks()))
    assert "exact risk: reached at epsilon 0.43" in spec
    assert "closed-form upper bound: reached at epsilon 0.38" in spec
    assert "the requested risk, 0.333333" in spec
    assert "posterior (tick: prior)" not in spec
    both = plot(risks(beliefs=BELIEFS, seen="output 2.2")).spec()
    assert len(both["hconcat"]) == 2
    assert "posterior (tick: prior), output 2.2" in json.dumps(both)


def test_without_an_exact_risk_or_an_epsilon() -> None:
    assert "too many worlds to count" in words_of(plot(risks(counted=False)))
    assert "no epsilon reaches the risk" in words_of(plot(risks(exact=None, bound=None)))


def test_many_worlds_and_none() -> None:
    many = [(f"{i}", 0.01, i / 4950) for i in range(100)]
    assert "the 40 most likely of 100 worlds" in json.dumps(plot(risks(beliefs=many)).spec())
    with pytest.raises(DeclarationError, match="no curve"):
        plot(risks(curve=[]))


def test_densities_stand_above_the_bars() -> None:
    made = plot(risks(beliefs=BELIEFS, seen="output 2.2", densities=DENSITIES)).spec()
    column = made["hconcat"][1]["vconcat"]
    assert len(column) == 2
    lines, mark = column[0]["layer"]
    assert mark["data"]["values"] == [{"output": 2.2}]
    assert lines["encoding"]["color"]["title"] == "posterior at output 2.2: world"
    peaks = {row["world"]: row for row in lines["data"]["values"] if row["output"] == row["at"]}
    assert list(peaks) == ["0.62: 1, 2, 3", "0.16: 1, 2, 10", "0.22: 2 worlds"]
    assert all(row["density"] == pytest.approx(1 / 3) for row in peaks.values())
    assert "so many" in json.dumps(plot(risks(remarks=["so many"])).spec())


@pytest.mark.deep
@pytest.mark.each(6)
@pytest.mark.parametrize("name", ["1, 2", "3 worlds of answer 3.33333, together", ", ".join(map(str, range(60)))])
def test_no_posterior_is_cut_off_its_legend(name: str, tmp_path: Path) -> None:
    densities = Densities([(f"{n} {name}", float(n), 0.123456 + n / 100) for n in range(12)], 1.5, 3.0)
    picture = tmp_path / "risks.svg"
    plot(risks(beliefs=BELIEFS, seen="output 3", densities=densities)).save(picture)
    svg = picture.read_text()
    for n in range(12):
        assert f">{0.123456 + n / 100:.4g}: {n} " in svg
    assert ("\u2026" in svg) == (len(name) > 100)


@pytest.mark.deep
def test_beliefs_stand_below_the_curves_of_their_column() -> None:
    made = plot(
        [risks(column="age", beliefs=BELIEFS, densities=DENSITIES), risks(column="days", beliefs=BELIEFS)]
    ).spec()
    assert [len(panel["vconcat"]) for panel in made["hconcat"]] == [3, 2]
    uncounted = json.dumps(plot([risks(column="age", counted=False), risks(column="days")]).spec())
    assert "age: there are too many worlds to count: only the closed-form bound" in uncounted
    assert "days: the worlds" not in uncounted


@pytest.mark.deep
def test_a_panel_a_column(tmp_path: Path) -> None:
    picture = plot([risks(column="age"), risks(column="days", exact=None)])
    made = picture.spec()
    assert [panel["title"]["text"] for panel in made["hconcat"]] == ["age", "days"]
    assert "age: closed-form upper bound: reached at epsilon 0.38" in json.dumps(made)
    picture.save(tmp_path / "columns.png")
    for several in ([risks(), risks(column="a")], [risks(column="a"), risks(column="a")]):
        with pytest.raises(DeclarationError, match="a column each"):
            plot(several)
    with pytest.raises(DeclarationError, match="no curve"):
        plot([risks(column="a", curve=[])])


@pytest.mark.each(2)
@pytest.mark.parametrize("ending", [".svg", ".png"])
def test_accuracy_against_risk(tmp_path: Path, ending: str) -> None:
    made = Tradeoff("a mean", 0.5, POINTS, POINTS[1:], least=POINTS[1], most=POINTS[2], chosen=0.5, odds=(0.62, 0.38))
    picture = plot(made)
    picture.save(tmp_path / f"choice{ending}")
    spec = picture.spec()
    assert picture.title == "Accuracy against risk: a mean"
    assert "shaded: the requirements are met, epsilon from 0.5 to 1" in " ".join(
        spec["hconcat"][0]["title"]["subtitle"]
    )
    band, *_, ends = spec["hconcat"][0]["layer"]
    assert band["data"]["values"] == [{"error": 2.5, "until": 5.0}]
    assert [row["epsilon"] for row in ends["data"]["values"]] == [0.5, 1.0]
    assert len(spec["hconcat"][1]["hconcat"]) == 2


def test_a_conflict_and_an_open_end_and_no_error_at_all() -> None:
    against = plot(Tradeoff("a mean", 0.5, POINTS, least=POINTS[2], most=POINTS[1])).spec()
    assert len(against["hconcat"]) == 1
    assert '"rect"' not in json.dumps(against)
    assert "no epsilon meets all" in json.dumps(against)
    band = plot(Tradeoff("a mean", 0.5, POINTS, least=POINTS[1])).spec()["hconcat"][0]["layer"][0]
    assert band["data"]["values"] == [{"error": 1.2, "until": 5.0}]
    free = plot(Tradeoff("a count", 0.5, [*POINTS, (9.0, 0.0, 0.99)])).spec()
    assert "symlog" in json.dumps(free)
    with pytest.raises(DeclarationError, match="no curve"):
        plot(Tradeoff("a mean", 0.5, []))


def test_ends_are_rounded_inwards() -> None:
    least, most = (0.123456789, 5.0, 0.6), (0.987654321, 2.5, 0.7)
    made = Tradeoff("a mean", 0.5, POINTS, least=least, most=most, chosen=least[0], odds=(0.6, 0.4), remarks=["so"])
    said = json.dumps(plot(made).spec()).replace('", "', " ")  # lines of the title
    assert "epsilon from 0.123457 to 0.987654" in said
    assert "at the chosen epsilon, 0.123457" in said
    assert '"subtitle": ["so"]' in said


def test_icons_never_understate() -> None:
    made = icon_array(0.7501, 0.2599).to_dict()
    filled = [sum(row["suspected"] == "rightly" for row in panel["data"]["values"]) for panel in made["hconcat"]]
    assert filled == [76, 25]
    assert [p["title"]["text"] for p in made["hconcat"]] == ["with you: at most 76", "without you: at least 25"]
    assert "at most 75" in json.dumps(icon_array(0.7500000000000001, 0.25).to_dict())
    with pytest.raises(DeclarationError, match="from 0 to 1"):
        icon_array(1.2, 0.1)


def points(spec: Any) -> list[dict[str, Any]]:
    """Return the first data of a chart or of what it is put together from."""
    if "data" in spec:
        found: list[dict[str, Any]] = spec["data"]["values"]
        return found
    return points((spec.get("hconcat") or spec["layer"])[0])


def test_worlds_are_drawn_alone_and_several_at_once() -> None:
    year, days = (Worlds(values, size=3, query="mean") for values in ([1, 2, 3, 4], [1, 2, 3, 10]))
    alone = plot(days).spec()
    rows = points(alone)
    first = [row for row in rows if row["epsilon"] == 0]
    assert [row["risk"] for row in first] == pytest.approx([0.25, 0.25])  # the prior
    assert max(row["risk"] for row in rows) == pytest.approx(0.925)
    assert "requested risk" not in json.dumps(alone)
    both = plot([year, days]).spec()
    assert [panel["title"]["text"] for panel in both["hconcat"]] == ["mean of 1, 2, 3, 4", "mean of 1, 2, 3, 10"]
    ends = {max(row["epsilon"] for row in points(panel)) for panel in both["hconcat"]}
    assert len(ends) == 1  # side by side on one range
    same = plot([days, days]).spec()
    assert [panel["title"]["text"] for panel in same["hconcat"]] == [
        "mean of 1, 2, 3, 10 (1)",
        "mean of 1, 2, 3, 10 (2)",
    ]


def test_assessed_risks_are_drawn_up_to_the_epsilon_asked_for_with_what_is_looked_at() -> None:
    found = assess_risk(
        {"year": [1, 2, 3, 4], "days": [1, 2, 3, 10]}, size=3, query="mean", risk="1/3", epsilon="0.5", up_to=5
    )
    spec = plot(found).spec()
    text = json.dumps(spec)
    assert "days: closed-form upper bound: reached at epsilon 0.382939; exact risk: reached at epsilon 0.43172" in text
    assert "dashed line at epsilon 0.5: exact risk 0.347697, bound 0.361421" in text
    for panel in spec["hconcat"]:
        assert max(row["epsilon"] for row in points(panel)) == 5
        seen = [row for row in panel["layer"][-1]["data"]["values"] if row["epsilon"] == 0.5]
        assert {row["figure"] for row in seen} == {"exact risk", "closed-form upper bound"}
    assert "days" not in json.dumps(plot(found[0]).spec())


def test_at_epsilon_0_there_is_no_density_to_draw() -> None:
    found = assess_risk([1, 2, 3, 10], size=3, query="mean", risk="1/3", epsilon=0, output=2)
    assert "at epsilon 0 the noise has no scale" in words_of(plot(found))


@pytest.mark.deep
def test_nine_hundred_worlds_are_drawn_by_their_answers() -> None:
    """Worlds of one answer are equally likely: a circle each, as large as there are worlds, and all of them are there."""
    found = assess_risk(range(1, 13), size=6, query="mean", risk="1/3", output=6, epsilon=1)
    circles = [row for row in points(plot(found).spec()["hconcat"][1]["vconcat"][-1]) if "worlds" in row]
    assert sum(row["worlds"] for row in circles) == 924
    assert len({row["answer"] for row in circles}) == 37 == len(circles)
    assert sum(row["worlds"] * row["posterior"] for row in circles) == pytest.approx(1)
    assert max(circles, key=lambda row: row["posterior"])["answer"] == 6
    assert "924 worlds by their answer" in words_of(plot(found))
