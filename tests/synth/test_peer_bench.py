"""The bench of synthetic rows beside other libraries: it runs a synthesizer apart, and its page names a peer that is ahead."""

from __future__ import annotations

import importlib
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCH = Path(__file__).resolve().parents[2] / "bench"


@pytest.fixture(scope="module")
def bench() -> Iterator[Any]:
    sys.path.insert(0, str(BENCH))
    yield importlib.import_module("peers.synthesis")
    sys.path.remove(str(BENCH))


def _line(peer: str, ways: tuple[float, ...], **fields: Any) -> dict[str, Any]:
    cost = {"cpu_s": 1.0, "wall_s": 2.0, "memory_mb": 100}
    found = {f"{w}-way": v for w, v in enumerate(ways, 1)} | (cost if ways else {"failure": "over 9 s"})
    return {"table": "xor", "epsilon": "1", "peer": peer, "seed": 0, "version": "peer 1.0", **found, **fields}


def _page(bench: Any, *lines: dict[str, Any]) -> str:
    found = [bench.Figure.of(line) for line in lines]
    return str(bench.page(found, ["dpmm-mst", "dpmm-aim"], bench.describe(["xor"]), bench.DELTA))


def test_the_page_says_first_where_a_peer_is_ahead(bench: Any) -> None:
    ours = _line("sordino", (0.01, 0.02, 0.03))
    page = _page(bench, ours, _line("dpmm-mst", (0.02, 0.019, 0.04)), _line("dpmm-aim", ()))
    ahead = page.index("dpmm MST on xor at epsilon 1: pairs .0190 for .0200")
    assert page.index("A peer is ahead") < ahead < page.index("Each method is fitted") < page.index("## xor")
    assert "columns .02" not in page[: ahead + 60]
    assert "No rows to compare: dpmm AIM on xor at 1 (over 9 s)." in page
    assert "In 0 of the 1 comparisons that ended" in page
    both = _page(bench, ours, _line("dpmm-mst", (0.02, 0.03, 0.04)), _line("dpmm-mst-shipped", (0.009, 0.3, 0.4)))
    assert "- dpmm MST with its own draw of rows on xor at epsilon 1: columns .0090 for .0100" in both
    behind = _page(bench, ours, _line("dpmm-mst", (0.02, 0.03, 0.04)))
    assert "No peer is ahead" in behind
    assert "In 1 of the 1 comparisons that ended" in behind
    assert "1 combinations" in behind


def test_the_page_shows_means_over_seeds(bench: Any) -> None:
    page = _page(bench, _line("sordino", (0.01, 0.02, 0.03)), _line("sordino", (0.03, 0.04, 0.05), seed=1))
    assert "| `synth.fit` | .0200/.0300/.0400 (2) | 1.0 | 100 |" in page
    assert "Seven columns of two codes" in page
    assert "20,000 rows." in page


@pytest.mark.deep
def test_runs_are_recorded_once(
    bench: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    monkeypatch.setattr(
        sys, "argv",
        ["synthesis.py", "--table", "independent", "--epsilon", "1", "--peer", "resampled,dpmm-mst", "--seeds", "2",
         "--venvs", str(tmp_path), "--keep", str(tmp_path / "found.jsonl")],
    )  # fmt: skip
    bench.main()
    bench.main()
    lines = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert [(line["peer"], line["seed"]) for line in lines] == [("resampled", 0), ("resampled", 1)]
    # A share p of 20,000 resampled rows is off by sqrt(2 p (1 - p) / (pi 20,000)) on average, in all .006.
    assert 0.003 < sum(line["1-way"] for line in lines) / 2 < 0.012
    assert "left out: dpmm-mst is not installed" in capsys.readouterr().err


@pytest.mark.deep
def test_a_fit_that_fails_or_takes_too_long_has_no_figures(bench: Any) -> None:
    xor, python = bench.SHAPES["xor"](), Path(sys.executable)
    failed = list(bench.measure(xor, "dpmm-mst", python, "1", 0, 60))
    assert [("dpmm" in f["failure"], len(f)) for f in failed] == [(True, 2)]
    assert list(bench.measure(xor, "sordino", python, "1", 0, 1)) == [
        {"peer": "sordino", "failure": "over 1 s of processor time"}
    ]


def test_several_draws_of_one_fit_have_names(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    xor = bench.SHAPES["xor"]()
    columns = list(xor.keys.values())
    flipped = [1 - c for c in columns]
    cost = {"cpu_s": 1.0, "wall_s": 2.0, "memory_mb": 100}
    monkeypatch.setattr(bench, "draw", lambda *_: ({"": columns, "shipped": flipped}, cost))
    own, shipped = bench.measure(xor, "smartnoise-mst", Path(sys.executable), "1", 0, 60)
    assert (own["peer"], own["3-way"]) == ("smartnoise-mst", 0.0)
    assert shipped["peer"] == "smartnoise-mst-shipped"
    assert shipped["3-way"] == pytest.approx(abs(_shares(columns) - _shares(flipped)).sum() / 2 / 35, abs=1e-5)


def _shares(columns: list[Any]) -> Any:
    """Return the share of each cell of each triple, triple after triple."""
    sets = itertools.combinations(range(len(columns)), 3)
    codes = [4 * columns[a] + 2 * columns[b] + columns[c] for a, b, c in sets]
    return np.concatenate([np.bincount(c, minlength=8) / len(c) for c in codes])


@pytest.fixture(scope="module")
def numeric(bench: Any) -> Any:
    del bench
    return importlib.import_module("peers.numeric_synthesis")


def _numbers(peer: str, *, seed: int = 0, **fields: Any) -> dict[str, Any]:
    values = {
        "1-way": 0.1,
        "2-way": 0.2,
        "3-way": 0.3,
        "KS": 0.05,
        "KS max": 0.06,
        "r error": 0.02,
        "r kept": 0.9,
        "R2": 0.8,
    }
    return {
        "table": "bills",
        "epsilon": "1",
        "peer": peer,
        "seed": seed,
        "version": "abc" if peer.startswith("sordino") else "peer 1.0",
        **values,
        "AUC": 0.7,
        "R2 real": 0.9,
        "AUC real": 0.75,
        "cpu_s": 2.0,
        **fields,
    }


def test_the_part_on_numbers_says_who_is_ahead_and_by_what(numeric: Any) -> None:
    worse: dict[str, Any] = {"2-way": 0.4}
    ours = [_numbers("sordino"), _numbers("sordino", seed=1, **worse)]
    better: dict[str, Any] = {"2-way": 0.297, "KS": 0.02}
    near = _numbers("sordino-aim", **better)
    again = _numbers("sordino-aim", seed=1, **(better | {"KS": 0.04}))
    better = {"2-way": 0.297, "R2": 0.85}
    peer = _numbers("dpmm-mst", **better)
    part = numeric.page([*ours, near, peer, {**_numbers("dpmm-aim"), "failure": "over 9 s"}])
    # ours has .05 twice, the other .02 and .04, whose mean has the standard error .01
    assert "- sordino-aim on bills at epsilon 1: KS 0.0300 for 0.0500 (± 0.0100)\n" in numeric.page(
        [*ours, near, again]
    )
    # better by 1% counts for another library, and not for a method of our own
    assert "behind another library in 2 of 8 figures** (its figure, for ours; ±" in part
    assert "- dpmm-mst on bills at epsilon 1: 2-way 0.2970 for 0.3000, R2 0.8500 for 0.8000\n" in part
    assert "behind a method of its own, by more than 2%, in 1 of 8 figures**" in part
    assert "- sordino-aim on bills at epsilon 1: KS 0.0200 for 0.0500\n" in part
    assert part.index("behind another library") < part.index("Epsilon is equal") < part.index("### bills, epsilon 1")
    assert "Trained on the real rows: R2 0.900, AUC 0.750." in part
    assert "| sordino (2) | 0.100 | 0.300 | 0.300 | 0.050 | 0.060 | 0.020 | 0.900 | 0.800 | 0.700 | 2.0 | 1.0 |" in part
    assert "| dpmm-mst (1) | 0.100 | **0.297** | 0.300 | 0.050 | 0.060 | 0.020 | 0.900 | **0.850** | 0.700 |" in part
    assert "| sordino-aim (1) | 0.100 | 0.297 | 0.300 | **0.020** |" in part
    assert "| dpmm-aim: over 9 s |" in part
    assert "No rows to compare: dpmm-aim on bills at epsilon 1 (over 9 s)." in part
    assert "2 of 4 combinations of table, epsilon and library were not run." in part
    assert "- bills: a generated table of bills and payments of 30,000 people" in part
    assert "Versions: peer 1.0, Sordino at abc." in part
    slower = numeric.page([*ours, _numbers("dpmm-mst", cpu_s=20.0, **worse)])
    assert "behind another library in 0 of 8 figures**." in slower
    assert "take between 10 and 10 times the processor time" in slower
    assert "Less than 10 times" not in slower
    assert "Less than 10 times: dpmm-mst on bills at epsilon 1 (1.0)." in part
    assert "behind" not in numeric.page(ours).split("Epsilon is equal")[0]


def test_own_methods_are_run_anew_and_replace_their_figures(
    numeric: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept, path = tmp_path / "numbers.jsonl", tmp_path / "page.md"
    old = [_numbers(peer, table="bills (generated)", version="old") for peer in ("sordino", "dpmm-mst")]
    kept.write_text("".join(json.dumps(line) + "\n" for line in old))
    fitted: list[tuple[str, str]] = []

    def fit(_python: Any, table: Any, peer: str, *_: Any) -> dict[str, float]:
        fitted.append((table.name, peer))
        return {
            n: v for n, v in _numbers(peer, R2=0.5).items() if n not in ("table", "epsilon", "peer", "seed", "version")
        }

    monkeypatch.setattr(numeric, "draw_apart", fit)
    asked = ["script.py", "--table", "bills,flights", "--epsilon", "1", "--seeds", "1", "--data", str(tmp_path)]
    asked += ["--keep", str(kept)]
    monkeypatch.setattr(sys, "argv", [*asked, "--peer", "sordino"])
    numeric.main()
    assert fitted == []
    assert "left out: flights" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", [*asked, "--peer", "own", "--again", "--write", str(path)])
    numeric.main()
    assert fitted == [("bills (generated)", peer) for peer in ("sordino", *numeric.OWN)]
    lines = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [(line["peer"], line["R2"]) for line in lines[:2]] == [("sordino", 0.5), ("dpmm-mst", 0.8)]
    assert len(lines) == 5
    assert "| sordino (1) | 0.100 | 0.200 |" in path.read_text()


def test_each_script_writes_its_own_part_of_the_page(
    bench: Any, numeric: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "page.md"
    kept = tmp_path / "found.jsonl"
    kept.write_text(json.dumps(_line("sordino", (0.01, 0.02, 0.03))) + "\n")
    numbers = tmp_path / "numbers.jsonl"
    for value, expected in ((0.8, "0.800"), (0.7, "0.700")):
        numbers.write_text(json.dumps(_numbers("sordino", R2=value)) + "\n")
        for script, found in ((bench, kept), (numeric, numbers)):
            monkeypatch.setattr(sys, "argv", ["script.py", "--write", str(path), "--keep", str(found)])
            script.main()
        text = path.read_text()
        assert text.count(numeric.PART) == text.count("# Synthetic rows beside other libraries") == 1
        assert f"| {expected} |" in text
        assert text.index("| `synth.fit` |") < text.index(numeric.PART) < text.index("### bills, epsilon 1")


@pytest.fixture(scope="module")
def tables(bench: Any) -> Any:
    del bench
    return importlib.import_module("numeric_tables")


def test_a_table_is_cut_for_a_trial(tables: Any) -> None:
    small = tables.bills(Path()).head(50)
    assert (small.rows, small.name) == (50, "bills (generated), 50 rows")


@pytest.mark.deep
def test_rows_are_measured_beside_the_table_and_rows_held_out(tables: Any) -> None:
    fitted, held_out = tables.bills(Path()).split()
    assert (fitted.rows, held_out.rows) == (22_500, 7_500)
    whole = np.sort(tables.bills(Path()).columns["bill1"])
    assert (np.sort(np.concatenate([fitted.columns["bill1"], held_out.columns["bill1"]])) == whole).all()
    same = tables.measure_rows(fitted, fitted.columns, held_out)
    assert [same[m] for m in ("1-way", "2-way", "3-way", "KS", "KS max", "r error")] == [0.0] * 6
    assert (same["R2"], same["AUC"], same["r kept"]) == (same["R2 real"], same["AUC real"], 1.0)
    # the second bill is .85 to 1.1 times the first, and says nothing of late payment
    assert same["R2 real"] > 0.98
    assert same["AUC real"] > 0.99
    rng = np.random.default_rng(0)
    shuffled = {n: rng.permutation(v) for n, v in fitted.columns.items()}
    apart = tables.measure_rows(fitted, shuffled, held_out)
    assert (apart["1-way"], apart["KS max"]) == (0.0, 0.0)
    assert apart["2-way"] > 0.02
    assert abs(apart["r kept"]) < 0.05
    assert apart["R2"] < 0.1


def test_a_packaged_table_is_read_where_its_file_lies(tables: Any, tmp_path: Path) -> None:
    lines = ["rownames,carat,cut,color,clarity,depth,table,price,x,y,z"]
    lines += ["1,0.23,Ideal,E,SI2,61.5,55.0,326,3.95,3.98,2.43", "2,0.21,Fair,E,SI1,59.8,61.0,99,70,3.84,2.31"]
    lines += ["3,,Fair,E,SI1,59.8,61.0,99,70,3.84,2.31"]
    (tmp_path / "diamonds.csv").write_text("\n".join(lines) + "\n")
    table = tables.diamonds(tmp_path)
    assert (table.rows, table.target, table.sizes) == (2, "price", {"cut": 2, "color": 1, "clarity": 2})
    assert table.columns["carat"].tolist() == [23, 21]
    # a value beyond its bounds, 0 to 60, is the bound
    assert table.columns["x"].tolist() == [395, 6_000]
    assert table.columns["cut"].tolist() == [1, 0]
    with pytest.raises(FileNotFoundError, match=r"flights\.csv"):
        tables.flights(tmp_path)
