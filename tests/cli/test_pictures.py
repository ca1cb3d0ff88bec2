"""--plot of the commands that have something to show: the picture holds what the command prints, and a refusal leaves no file."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

import sordino as sd
from cli.option_walk import all_commands, flags_of
from cli.support import Run
from sordino import learn

# Commands without a picture, and why there is none.
WITHOUT = {
    "they write what is declared, not what is known": "init check import dummy sql",
    "they list, verify or move charges": (
        "releases ledger_verify ledger_backup ledger_export ledger_amend ledger_new ledger_restore ledger_move"
    ),
    "they write pages with pictures in them": "report synth_report",
    "they serve": "mcp workbench serve_start learn_serve local_serve",
    "they change accounts, tasks and tokens": (
        "serve_account_add serve_account_list serve_account_disable serve_account_token serve_account_password "
        "serve_account_share local_keygen local_token local_close local_export local_task_create local_task_show"
    ),
    "what they make is drawn by another command": "series_open synth_fit synth_rules synth_sample model_fit model_choose",
    "it runs other commands": "demo",
    "it writes nothing but pictures": "learn_slides",
}
COUNT = "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex"


def test_each_command_draws_or_has_a_reason_not_to() -> None:
    plain = {name.replace("_", " ") for names in WITHOUT.values() for name in names.split()}
    drawing = {" ".join(words) for words, command in all_commands().items() if "--plot" in flags_of(command)}
    assert drawing.isdisjoint(plain)
    assert {" ".join(words) for words in all_commands()} == drawing | plain


def rows_of(path: str) -> list[dict[str, Any]]:
    spec = json.loads(Path(path).read_text())
    return [row for rows in spec.get("datasets", {}).values() for row in rows] + _inline(spec)


def _inline(part: Any) -> list[dict[str, Any]]:
    if isinstance(part, dict):
        own = part["data"].get("values", []) if isinstance(part.get("data"), dict) else []
        return [*own, *(row for key, value in part.items() if key != "data" for row in _inline(value))]
    return [row for one in part for row in _inline(one)] if isinstance(part, list) else []


@pytest.mark.usefixtures("census")
def test_a_price_is_drawn_and_nothing_spent(run: Run) -> None:
    Path("tables.toml").write_text('tables = [["sex"], ["region"]]\n')
    for command in (
        ["plan", COUNT, "--epsilon", "0.1"],
        ["plan", COUNT, "--error", "60"],
        ["tabulate", "tables.toml", "--plan", "--epsilon", "0.1"],
        ["synth", "plan", "age", "--epsilon", "0.1"],
    ):
        ended = run(*command, "--plot", "price.json")
        assert ended.code == 0, ended.err
        assert [row for row in rows_of("price.json") if "error" in row]
    assert run("plan", COUNT, "--epsilon", "0.1", "--plot", "price.json").code == 0
    losses = {row["loss"] for row in rows_of("price.json") if "loss" in row}
    assert losses == {0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0}
    assert json.loads(run("releases", "--format", "json").out)["releases"] == []
    for words, why in (
        (("plan", f"{COUNT}; {COUNT}", "--epsilon", "0.1"), "plan them one by one"),
        (("plan", "SELECT AVG(age) AS a FROM people", "--epsilon", "0.1"), "assume-rows"),
        (("plan", COUNT, "--epsilon", "0.1", "--format", "json"), ""),
    ):
        ended = run(*words, "--plot", "other.svg")
        assert (ended.code, Path("other.svg").exists()) == ((2, False) if why else (0, True)), words
        assert why in ended.err


@pytest.mark.deep
@pytest.mark.usefixtures("census")
def test_an_answer_is_drawn_when_it_comes_and_again_later(run: Run) -> None:
    Path("tables.toml").write_text('tables = [["sex"], ["region"]]\n')
    asked = run("ask", COUNT, "--epsilon", "0.1", "--format", "json", "--plot", "asked.json")
    assert asked.code == 0, asked.err
    assert run("show", "c-0001", "--plot", "shown.json").code == 0
    assert rows_of("shown.json") == rows_of("asked.json")
    assert run("tabulate", "tables.toml", "-o", "tables", "--epsilon", "0.1", "--plot", "tables.json").code == 0
    assert {"North", "Female"} <= {value for row in rows_of("tables.json") for value in row.values() if value}
    # a picture that cannot be written is refused before the charge
    for command in (["tabulate", "tables.toml", "-o", "more"], ["ask", COUNT]):
        ended = run(*command, "--epsilon", "0.1", "--plot", "missing/x.svg")
        assert ended.code == 2
        assert "its directory is missing" in ended.err
        assert run(*command, "--epsilon", "0.1", "--plot", "x.gif").code == 2
    assert not Path("more").exists()
    assert len(json.loads(run("releases", "--format", "json").out)["releases"]) == 2


@pytest.mark.usefixtures("census")
def test_models_and_their_answers_are_drawn(run: Run) -> None:
    fit = ("--epsilon", "0.1", "--quiet")
    assert run("synth", "fit", "--columns", "age,sex", "-o", "m.model", *fit).code == 0
    assert run("synth", "answer", "m.model", COUNT, "--plot", "answer.json").code == 0
    assert {"Female", "Male"} <= {value for row in rows_of("answer.json") for value in row.values() if value}
    regression = ("model", "fit", "linear_regression", "--y", "hours_per_week", "--x", "age,sex", "-o", "r.model")
    # So much that the noise hides no coefficient: one that it hides has no interval to draw.
    assert run(*regression, "--epsilon", "1.9", "--quiet").code == 0
    drawn = run("model", "show", "r.model", "--plot", "r.json", "--format", "json")
    assert drawn.code == 0, drawn.err
    card = json.loads(drawn.out)
    assert "coefficient of age" in json.dumps(card)
    assert {row["name"] for row in rows_of("r.json") if "name" in row} == {"age", "sex = Male"}


@pytest.mark.usefixtures("census")
def test_what_was_spent_and_what_it_reveals_are_drawn(run: Run) -> None:
    refused = run("budget", "--plot", "path.json")
    assert (refused.code, Path("path.json").exists()) == (2, False)
    assert "nothing was charged" in refused.err
    for loss in ("0.1", "0.2"):
        assert run("ask", COUNT, "--epsilon", loss).code == 0
    assert run("budget", "--plot", "path.json", "--format", "json").code == 0
    spent = [row["spent"] for row in rows_of("path.json") if "charge" in row]
    assert spent == pytest.approx([0.1, 0.3])
    ended = run("explain", "c-0002", "--plot", "belief.json")
    assert ended.code == 0, ended.err
    least, most = next((row["least"], row["most"]) for row in rows_of("belief.json") if row.get("before") == 0.5)
    # e^0.2 / (1 + e^0.2), which the sentence says too
    assert (least, most) == pytest.approx((0.45017, 0.54983), abs=1e-5)
    assert "54.99%" in " ".join(ended.out.split())


def check_slide(text: str) -> None:
    root = ElementTree.fromstring(text)
    assert (root.get("width"), root.get("height")) == ("1280", "720")
    left, top, scale = map(float, re.findall(r"translate\(([\d.]+),([\d.]+)\) scale\(([\d.]+)\)", text)[0])
    drawn = root[1][0]
    # in the middle, and as large as one of the sides lets it
    across, down = scale * float(drawn.get("width", 0)), scale * float(drawn.get("height", 0))
    assert min(left, top) == pytest.approx(30, abs=0.6)
    assert (2 * left + across, 2 * top + down) == pytest.approx((1280, 720), abs=1)
    # letters are as large as those of a page, or larger
    assert scale > 0.9


@pytest.mark.parametrize("dark", [False, True])
def test_a_picture_fills_a_slide(dark: bool) -> None:
    text = sd.plot(learn.laplace_noise(1, 1)).slide(dark=dark)
    check_slide(text)
    assert ('fill="#1b1e24"' in text) == dark


@pytest.mark.deep
def test_the_slides_of_a_lesson(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ended = run("learn", "slides", "lesson")
    assert ended.code == 0, ended.err
    slides = sorted(Path("lesson").iterdir())
    assert len(slides) == 9
    for slide in slides:
        check_slide(slide.read_text())
    again = run("learn", "slides", "lesson")
    assert (again.code, "new or empty" in again.err) == (2, True)
