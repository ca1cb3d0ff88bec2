"""diffprivlib's models, on the cases that bench/models.py writes: a line of JSON for each model, setting, epsilon and seed.

    python bench/models.py FOLDER --cases CASES
    python -m venv peer && peer/bin/pip install -r bench/peers/diffprivlib.txt
    peer/bin/python bench/peers/fit_diffprivlib.py CASES > LINES

It runs in an environment of its own, as diffprivlib 0.6.6 needs a scikit-learn older than Sordino's tests have. Neighbors
differ in the cells of one row, and every epsilon is pure. It gets what an honest user knows: declared bounds, by which
numbers are scaled, and declared values, each an indicator. Where a public choice is left to its user, several settings are
run, and bench/models.py shows the one that is best on the held-out rows, which no user could know.
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

models: Any = import_module("diffprivlib.models")
metrics: Any = import_module("sklearn.metrics")

Floats = np.ndarray[Any, np.dtype[np.float64]]
EPSILONS = (1.0, 0.1, 10.0)
SEEDS = (1, 2, 3)
Setting = tuple[
    str, str, Callable[[float, int], Callable[[], float]]
]  # model, words, what fits and returns what scores


class Rows:
    """The rows of a case as diffprivlib takes them: numbers scaled by their bounds to lower..1, an indicator of each value."""

    def __init__(self, folder: Path, case: dict[str, Any], *, lower: float = -1.0, categories: bool = True) -> None:
        self.case = case
        numbers = [name for name in case["x"] if name in case["bounds"]]
        values = [(name, v) for name in case["x"] for v in case["values"].get(name, [])] if categories else []
        self.bounds = (
            np.array([lower] * len(numbers) + [0.0] * len(values)),
            np.ones(len(numbers) + len(values)),
        )
        # A row has one indicator of each category at most.
        self.norm = float(np.sqrt(len(numbers) + len({name for name, _ in values})))
        parts = []
        for part in ("train", "test"):
            table = pq.read_table(folder / case[part])
            columns = [self._scale(table, name, lower) for name in numbers]
            columns += [np.array(table[n].to_pylist(), dtype=object) == v for n, v in values]
            y: Any = None
            if case["y"] and case["yes"] is None:
                y = self._scale(table, case["y"], lower)
            elif case["y"]:
                y = (np.array(table[case["y"]].to_pylist(), dtype=object) == case["yes"]).astype(int)
            parts.append((np.column_stack(columns).astype(np.float64), y))
        (self.x, self.y), (self.test_x, self.test_y) = parts

    def _scale(self, table: Any, name: str, lower: float) -> Floats:
        low, high = self.case["bounds"][name]
        cells: Floats = np.clip(table[name].to_numpy().astype(np.float64), low, high)
        scaled: Floats = lower + (1 - lower) * (cells - low) / (high - low)
        return scaled

    def auc(self, model: Any) -> float:
        """Return the area under the curve on the held-out rows."""
        yes = list(model.classes_).index(1)
        return float(metrics.roc_auc_score(self.test_y, model.predict_proba(self.test_x)[:, yes]))


def linear(rows: Rows) -> Iterator[Setting]:
    """R2 of linear regression. It centers columns by noisy means, so where they are scaled to makes no difference."""

    def fit(epsilon: float, seed: int) -> Callable[[], float]:
        model = models.LinearRegression(epsilon=epsilon, bounds_X=rows.bounds, bounds_y=(-1, 1), random_state=seed)
        model.fit(rows.x, rows.y)
        return lambda: float(metrics.r2_score(rows.test_y, model.predict(rows.test_x)))

    yield "LinearRegression", "-1 to 1", fit


def logistic(rows: Rows, words: str) -> Iterator[Setting]:
    """AUC of logistic regression, with more or less regularisation."""
    for strength in (1.0, 0.1, 0.01):

        def fit(epsilon: float, seed: int, strength: float = strength) -> Callable[[], float]:
            model = models.LogisticRegression(
                epsilon=epsilon, data_norm=rows.norm, C=strength, max_iter=500, random_state=seed
            )
            model.fit(rows.x, rows.y)
            return lambda: rows.auc(model)

        yield "LogisticRegression", f"{words}, C={strength:g}", fit


def bayes(rows: Rows, words: str) -> Iterator[Setting]:
    """AUC of Gaussian naive Bayes."""

    def fit(epsilon: float, seed: int) -> Callable[[], float]:
        model = models.GaussianNB(epsilon=epsilon, bounds=rows.bounds, random_state=seed).fit(rows.x, rows.y)
        return lambda: rows.auc(model)

    yield "GaussianNB", words, fit


def forest(rows: Rows, words: str) -> Iterator[Setting]:
    """AUC of random forests: of its default size, and larger."""
    for trees, depth in ((10, 5), (50, 7)):

        def fit(epsilon: float, seed: int, trees: int = trees, depth: int = depth) -> Callable[[], float]:
            model = models.RandomForestClassifier(
                trees,
                epsilon=epsilon,
                bounds=rows.bounds,
                classes=[0, 1],
                max_depth=depth,
                shuffle=True,
                random_state=seed,
            )
            model.fit(rows.x, rows.y)
            return lambda: rows.auc(model)

        yield "RandomForestClassifier", f"{words}, {trees} trees of depth {depth}", fit


def clusters(rows: Rows) -> Iterator[Setting]:
    """Cost of k-means in the columns' units over that of centers without privacy."""
    low, high = np.array([rows.case["bounds"][name] for name in rows.case["x"]]).T

    def fit(epsilon: float, seed: int) -> Callable[[], float]:
        model = models.KMeans(rows.case["clusters"], epsilon=epsilon, bounds=rows.bounds, random_state=seed).fit(rows.x)

        def cost() -> float:
            squares = [
                (((rows.test_x - center) * (high - low) / 2) ** 2).sum(axis=1) for center in model.cluster_centers_
            ]
            return float(np.min(squares, axis=0).mean() / rows.case["plain"])

        return cost

    yield "KMeans", "-1 to 1", fit


def components(rows: Rows) -> Iterator[Setting]:
    """Variance that the first three components capture over that of the best three: in declared ranges, or standardised."""
    spread = rows.test_x.std(axis=0) if rows.case["standardise"] else np.ones(rows.test_x.shape[1])
    covariance = np.cov((rows.test_x / spread).T)
    best = float(np.linalg.eigvalsh(covariance)[::-1][:3].sum())

    def captured(directions: Floats) -> float:
        span = np.linalg.qr((directions * spread).T)[0]
        return float(np.trace(span.T @ covariance @ span)) / best

    def ranges(share: float) -> Setting:
        def fit(epsilon: float, seed: int) -> Callable[[], float]:
            norm = share * rows.norm
            model = models.PCA(3, epsilon=epsilon, bounds=rows.bounds, data_norm=norm, random_state=seed).fit(rows.x)
            return lambda: captured(model.components_)

        return "PCA", f"norm {share:g} of the largest", fit

    def deviations(share: float) -> Setting:
        def fit(epsilon: float, seed: int) -> Callable[[], float]:
            scaler = models.StandardScaler(epsilon=epsilon / 2, bounds=rows.bounds, random_state=seed).fit(rows.x)
            norm = share * rows.norm
            model = models.PCA(3, epsilon=epsilon / 2, centered=True, data_norm=norm, random_state=seed)
            model.fit(scaler.transform(rows.x))
            return lambda: captured(model.components_ / scaler.scale_)

        return "PCA", f"half for StandardScaler, rows within {share:g} deviations", fit

    for share in (1.0, 2.0) if rows.case["standardise"] else (1.0, 0.25):
        yield deviations(share) if rows.case["standardise"] else ranges(share)


def settings(folder: Path, case: dict[str, Any]) -> Iterator[Setting]:
    """Return every model of a case with every setting."""
    if case["task"] == "clusters":
        yield from clusters(Rows(folder, case))
    elif case["task"] == "components":
        yield from components(Rows(folder, case))
    elif case["yes"] is None:
        yield from linear(Rows(folder, case))
    else:
        for lower in (-1.0, 0.0):
            yield from logistic(Rows(folder, case, lower=lower), f"{lower:g} to 1")
        for categories in (True, False) if case["values"] else (True,):
            rows = Rows(folder, case, categories=categories)
            words = "all columns" if categories else "numbers alone"
            yield from bayes(rows, words)
            yield from forest(rows, words)


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    cases = Path(sys.argv[1])
    for read in json.loads((cases / "cases.json").read_text()):
        for name, words, fit in settings(cases, read):
            for epsilon in EPSILONS:
                for seed in SEEDS:
                    line = {"case": read["name"], "model": name, "setting": words, "epsilon": epsilon, "seed": seed}
                    begun = time.process_time()
                    try:
                        score = fit(epsilon, seed)
                        line |= {"cpu": time.process_time() - begun, "score": score()}
                    except Exception as raised:  # what a model of another library raises is its result
                        line |= {"error": f"{type(raised).__name__}: {raised}"}
                    print(json.dumps(line), flush=True)
