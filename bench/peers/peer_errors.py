"""How far released answers lie from the exact ones, and how often what a library says of its error holds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

Cells = npt.NDArray[Any]
ROWS = 1000


def measure(bench: Any, library: Any, ours: Any, questions: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Return the root mean square error of each answer, ours under the same relation, and what theory gives."""
    path = bench.census(ROWS)
    table = pq.read_table(path)
    columns = {n: table[n].to_numpy(zero_copy_only=False) for n in table.column_names}
    sides = {"theirs": _errors(bench, library, library.relation, path, columns, questions)}
    if library.relation not in bench.errors_of_ours:  # ours is asked once for all libraries of a relation
        bench.errors_of_ours[library.relation] = _errors(bench, ours, library.relation, path, columns, questions)
    sides["ours"] = bench.errors_of_ours[library.relation]
    return {
        name: {
            "theory": theory(columns, question, library.relation),
            "exact": exact_answer(columns, question),
            **{side: errors[name] for side, errors in sides.items()},
        }
        for name, question in questions.items()
    }


def _errors(
    bench: Any, asked: Any, relation: str, path: Any, columns: dict[str, Cells], questions: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    """Return the errors of one library's answers to each question."""
    found = {}
    seconds = bench.options.seconds
    with bench.start(asked, limit=3 * seconds + 60) as process:  # intervals may take as long again as answers
        process.open(**bench.opening(path, relation))
        for name, question in questions.items():
            answers = process.ask("ask", epsilon=1.0, **question, times=bench.options.asks, limit=seconds, values=True)
            found[name] = summary(answers, exact_answer(columns, question), columns[question["column"]])
    return found


def summary(answers: dict[str, Any], exact: Any, cells: Cells) -> dict[str, Any]:
    """Return the error of the answers and the share of stated intervals that hold, or why there are none."""
    if not answers.get("values"):
        return {n: answers[n] for n in ("no", "error", "says") if n in answers}
    pairs = [
        pair
        for value in answers["values"]
        for pair in ([(value.get(k, 0), exact[k]) for k in exact] if isinstance(exact, dict) else [(value, exact)])
    ]
    errors = np.array([value - truth for value, truth in pairs], dtype=float)
    found: dict[str, Any] = {
        "times": answers["times"],
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "bias": float(errors.mean()),
    }
    held = [
        _holds(low, high, value, truth, cells)
        for (low, high), value in zip(answers["intervals"], answers["values"], strict=False)
        for low, high, value, truth in _each(low, high, value, exact)
    ]
    if held:
        found["coverage"], found["intervals"] = float(np.mean(held)), len(held)
    return found


def _each(low: Any, high: Any, value: Any, exact: Any) -> list[tuple[Any, Any, Any, Any]]:
    if not isinstance(exact, dict):
        return [(low, high, value, exact)]
    return [(low[k], high[k], value[k], exact[k]) for k in exact]


def _holds(low: float | None, high: float, value: float, exact: float, cells: Cells) -> bool:
    """Return whether an interval has the exact value; without a lower end it is an error in rows."""
    if low is None:
        below, upto = int((cells < value).sum()), int((cells <= value).sum())
        return max(below - len(cells) / 2, len(cells) / 2 - upto, 0) <= high
    return low <= exact <= high


def exact_answer(columns: dict[str, Cells], question: dict[str, Any]) -> Any:
    """Return what the table says."""
    cells = columns[question["column"]]
    if question["kind"] == "count":
        return int((cells > question["lower"]).sum())
    if question["kind"] == "groups":
        return {key: int((cells == key).sum()) for key in question["keys"]}
    if question["kind"] == "median":
        return float(np.median(cells))
    return float(cells.sum() if question["kind"] == "sum" else cells.mean())


def theory(columns: dict[str, Cells], question: dict[str, Any], relation: str) -> float:
    """Return the root mean square error of the textbook's mechanism at epsilon 1, under the relation that the peer has.

    Counts have discrete Laplace noise (Ghosh, Roughgarden, Sundararajan 2009); a sum Laplace noise of its sensitivity; a mean
    that of a sum of known n, which add_remove does not know; a median the exponential mechanism over whole numbers.
    """
    lower, upper, kind = question.get("lower", 0), question.get("upper", 0), question["kind"]
    cells = columns[question["column"]]
    if kind in ("count", "groups"):
        scale = 2 if kind == "groups" and relation == "replace" else 1
        decay = math.exp(-1 / scale)
        return math.sqrt(2 * decay) / (1 - decay)
    if kind == "sum":
        width = upper - lower if relation == "replace" else max(abs(lower), abs(upper))
        return math.sqrt(2) * float(width)
    if kind == "mean":
        return math.sqrt(2) * float(upper - lower) / len(cells)
    candidates = np.arange(lower, upper + 1)
    below = np.array([(cells < c).sum() for c in candidates])
    upto = np.array([(cells <= c).sum() for c in candidates])
    score = -np.maximum(0, np.maximum(below - len(cells) / 2, len(cells) / 2 - upto))
    weights = np.exp((score - score.max()) / (1 if relation == "add_remove" else 2))
    return float(np.sqrt(np.sum(weights * (candidates - np.median(cells)) ** 2) / weights.sum()))
