"""The picture of risks: both curves, the requirement, both epsilons, and bars beside the prior. Figures made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sordino.errors import DeclarationError
from sordino.report.charts import plot
from sordino.report.risks import Risks

CURVE = [(0.2, 0.27, 0.3), (0.5, 0.34, 0.4), (1.0, 0.5, 0.6)]
BELIEFS = [("1, 2, 3", 0.25, 0.62), ("1, 2, 10", 0.25, 0.16), ('it\'s "3"', 0.25, 0.12), ("2, 3, 10", 0.25, 0.1)]


def risks(**more) -> Risks:
    figures = {"subject": "the mean", "curve": CURVE, "requirement": 1 / 3, "exact": 0.43, "bound": 0.38}
    return Risks(**{**figures, **more})


@pytest.mark.parametrize("ending", [".svg", ".png", ".html", ".json"])
def test_it_renders(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"risk{ending}"
    plot(risks(beliefs=BELIEFS, seen="output 2.2 at epsilon 2")).save(path)
    assert path.stat().st_size > 1000


def test_what_is_drawn() -> None:
    spec = json.dumps(plot(risks()).spec())
    assert "exact risk: reached at epsilon 0.43" in spec
    assert "closed-form upper bound: reached at epsilon 0.38" in spec
    assert "the risk asked for, 0.333333" in spec
    assert "posterior (tick: prior)" not in spec
    both = plot(risks(beliefs=BELIEFS, seen="output 2.2")).spec()
    assert len(both["hconcat"]) == 2
    assert "posterior (tick: prior), output 2.2" in json.dumps(both)


def test_without_an_exact_risk_or_an_epsilon() -> None:
    assert "too many to count" in json.dumps(plot(risks(counted=False)).spec())
    assert "no epsilon reaches the risk" in json.dumps(plot(risks(exact=None, bound=None)).spec())


def test_many_worlds_and_none() -> None:
    many = [(f"{i}", 0.01, i / 4950) for i in range(100)]
    assert "the 40 most likely of 100 worlds" in json.dumps(plot(risks(beliefs=many)).spec())
    with pytest.raises(DeclarationError, match="no curve"):
        plot(risks(curve=[]))
