"""Models against the same models without privacy, and against models trained on synthetic rows at the same loss.

    python bench/models.py FOLDER
    python bench/models.py FOLDER --cases CASES
    python bench/models.py FOLDER --beside LINES
    python bench/models.py --rows 10000000

FOLDER holds tables of one's own: `houses.parquet` (King County: price and 8 columns or more), `diamonds.csv` (as in ggplot2) and
`adult.data` (UCI). Those that are absent are left out. Prints the lines of bench/results/models.md: a quarter of the rows is held
out of the private table, and every score is on those. `--cases` writes what bench/peers/fit_diffprivlib.py reads in its own
environment, and `--beside` prints our models beside the lines that it printed. `--rows` prints how long a linear regression takes
over so many rows of 20 numbers, beside plain sums of them.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

import sordino as sd
from sordino.models.clusters import cluster, nearest_centers

Floats = np.ndarray[Any, np.dtype[np.float64]]

LOSSES: dict[str, dict[str, Any]] = {
    "(1, 1e-6)": {"epsilon": 1, "delta": "1e-6"},
    "1": {"epsilon": 1},
    "(.1, 1e-6)": {"epsilon": "0.1", "delta": "1e-6"},
    "10": {"epsilon": 10},
}
SEEDS = (1, 2, 3)
BUDGET = sd.ApproxDP(10**6, "0.1")
ADULT = (
    "age workclass fnlwgt education education_num marital_status occupation relationship race sex capital_gain capital_loss "
    "hours_per_week native_country income"
)


@dataclass(frozen=True)
class Case:
    """A table, what is predicted from which of its columns, and the class that counts as yes."""

    name: str
    rows: pd.DataFrame
    domain: dict[str, Any]
    y: str
    x: list[str]
    yes: Any = None

    def split(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return three quarters of the rows, and the rest."""
        order = np.random.default_rng(0).permutation(len(self.rows))
        cut = 3 * len(order) // 4
        return self.rows.iloc[order[:cut]], self.rows.iloc[order[cut:]]

    def protect(
        self, rows: pd.DataFrame, seed: int, neighbors: Literal["add_remove", "replace"] = "add_remove"
    ) -> sd.Curator:
        """Return rows as a private table."""
        return sd.protect(
            pa.Table.from_pandas(rows, preserve_index=False),
            domain=sd.Domain(self.domain),
            neighbors=neighbors,
            privacy_unit="row",
            budget=BUDGET,
            ledger=None,
            rng=sd.Rng.seeded(seed),
        )


def read_cases(folder: Path) -> list[Case]:
    """Return the tables that are there. Bounds are those of a codebook, not of the rows."""
    cases = []
    if (folder / "houses.parquet").exists():
        rows = pd.read_parquet(folder / "houses.parquet")
        domain: dict[str, Any] = {
            "price": sd.Integer(0, 8_000_000),
            "sqft_living": sd.Integer(0, 15_000),
            "bedrooms": sd.Integer(0, 15),
            "bathrooms": sd.Real(0, 10, resolution="0.25"),
            "grade": sd.Integer(1, 13),
            "condition": sd.Integer(1, 5),
            "view": sd.Integer(0, 4),
            "yr_built": sd.Integer(1900, 2015),
            "lat": sd.Real(47, 48, resolution="0.0001"),
        }
        rows = rows[list(domain)].astype(
            {"grade": int, "condition": int, "view": int, "bathrooms": float, "price": int}
        )
        x = [name for name in domain if name != "price"]
        cases.append(Case("houses", rows, domain, "price", x))
        dear = rows.assign(dear=rows["price"] > 600_000).drop(columns="price")
        domain = {name: column for name, column in domain.items() if name != "price"} | {"dear": sd.Boolean()}
        cases.append(Case("houses: dear", dear, domain, "dear", x, True))
    if (folder / "diamonds.csv").exists():
        rows = pd.read_csv(folder / "diamonds.csv")
        x = ["carat", "depth", "table", "x", "y", "z"]
        domain = {
            "price": sd.Integer(0, 20_000),
            "carat": sd.Real(0, 6, resolution="0.01"),
            "depth": sd.Real(0, 100, resolution="0.1"),
            "table": sd.Real(0, 100, resolution="0.1"),
            **{name: sd.Real(0, 60, resolution="0.01") for name in ("x", "y", "z")},
        }
        cases.append(Case("diamonds", rows[list(domain)], domain, "price", x))
        ideal = rows.assign(ideal=rows["cut"] == "Ideal")
        domain = domain | {"ideal": sd.Boolean()}
        cases.append(Case("diamonds: ideal", ideal[list(domain)], domain, "ideal", ["price", *x], True))
    if (folder / "adult.data").exists():
        rows = pd.read_csv(
            folder / "adult.data", header=None, names=ADULT.split(), skipinitialspace=True, na_values="?"
        )
        numbers = {
            "age": 125,
            "education_num": 16,
            "capital_gain": 100_000,
            "capital_loss": 10_000,
            "hours_per_week": 168,
        }
        domain = {name: sd.Integer(0, top) for name, top in numbers.items()}
        for name in ("workclass", "marital_status", "occupation", "relationship", "race", "sex", "income"):
            values = sorted(rows[name].dropna().unique())
            domain[name] = sd.Category(values, missing="keep" if rows[name].isna().any() else "drop")
        cases.append(Case("adult", rows[list(domain)], domain, "income", [n for n in domain if n != "income"], ">50K"))
    return cases


# ---- What is compared with: the same models without privacy, in closed form


def design(case: Case, rows: pd.DataFrame) -> Floats:
    """Return the predictors as numbers: 1, the numbers, an indicator for each value."""
    columns = [np.ones(len(rows))]
    for name in case.x:
        declared = case.domain[name]
        values = declared.values if isinstance(declared, sd.Category) else [None]
        for value in values:
            cells: Any = rows[name] if value is None else rows[name] == value
            columns.append(np.asarray(cells, dtype=np.float64))
    result: Floats = np.column_stack(columns)
    return result


def least_squares(case: Case, train: pd.DataFrame, test: pd.DataFrame) -> Floats:
    """Return the predictions of least squares."""
    slopes = np.linalg.lstsq(design(case, train), train[case.y].to_numpy(dtype=np.float64), rcond=None)[0]
    result: Floats = design(case, test) @ slopes
    return result


def logistic_scores(case: Case, train: pd.DataFrame, test: pd.DataFrame) -> Floats:
    """Return the scores of logistic regression, by Newton's method with a small ridge."""
    x = design(case, train)
    scale = np.maximum(x.std(axis=0), 1e-9)
    scale[0] = 1.0
    mean = np.where(np.arange(x.shape[1]) == 0, 0.0, x.mean(axis=0))
    x = (x - mean) / scale
    target = (train[case.y] == case.yes).to_numpy(dtype=np.float64)
    slopes = np.zeros(x.shape[1])
    for _ in range(12):
        share = 1 / (1 + np.exp(-np.clip(x @ slopes, -30, 30)))
        weight = share * (1 - share) + 1e-6
        gradient = x.T @ (target - share) - slopes
        slopes = slopes + np.linalg.solve((x * weight[:, None]).T @ x + np.eye(x.shape[1]), gradient)
    result: Floats = ((design(case, test) - mean) / scale) @ slopes
    return result


def r2(truth: Any, predicted: Floats) -> float:
    """Return the R2 of predictions."""
    errors = np.asarray(truth, dtype=np.float64) - predicted
    return 1 - float((errors**2).sum() / ((truth - truth.mean()) ** 2).sum())


def auc(truth: Any, scores: Floats) -> float:
    """Return the area under the curve: how often a row with yes scores above one without."""
    ranks = pd.Series(scores).rank().to_numpy()
    yes = np.asarray(truth, dtype=bool)
    above = ranks[yes].sum() - yes.sum() * (yes.sum() + 1) / 2
    return float(above / (yes.sum() * (~yes).sum()))


def draw_rows(case: Case, table: sd.Curator, loss: dict[str, Any], seed: int, count: int) -> pd.DataFrame:
    """Return synthetic rows of a model at a loss, fitted to keep what depends on y."""
    model = sd.synth.fit(table, predict=case.y, rng=sd.Rng.seeded(seed), **loss)
    rows: pd.DataFrame = model.sample(rows=count, rng=sd.Rng.seeded(seed)).to_pandas()
    return rows


def show(
    case: str, model: str, loss: str, scores: list[float], plain: float, synthetic: list[float], seconds: float
) -> None:
    """Print a line of the table: the mean of the seeds, and their range."""
    own = describe(scores)
    drawn = f"{np.mean(synthetic):.3f}" if synthetic else ""
    print(f"| {case} | {model} | {loss} | {own} | {plain:.3f} | {drawn} | {seconds:.2f} |", flush=True)


def measure(case: Case) -> None:
    """Print the lines of one table."""
    train, test = case.split()
    classifies = case.yes is not None
    score: Callable[[Any, Floats], float] = auc if classifies else r2
    truth = test[case.y] == case.yes if classifies else test[case.y].astype(float)
    plain_of = logistic_scores if classifies else least_squares
    plain = score(truth, plain_of(case, train, test))
    for label, loss in LOSSES.items():
        synthetic = []
        if label in ("(1, 1e-6)", "(.1, 1e-6)"):
            for seed in SEEDS:
                rows = draw_rows(case, case.protect(train, seed), loss, seed, len(train))
                rows = rows.dropna(
                    subset=[n for n in rows if not isinstance(case.domain[str(n)], sd.Category) or n == case.y]
                )
                synthetic.append(score(truth, plain_of(case, rows, test)))
        models = ("logistic_regression", "naive_bayes") if classifies else ("linear_regression",)
        for name in models:
            scores = []
            begun = time.process_time()
            for seed in SEEDS:
                model = getattr(sd.models, name)(case.protect(train, seed), y=case.y, x=case.x, **loss)
                predicted: Any = model.predict_proba(test) if classifies else model.predict(test)
                if classifies:
                    predicted = predicted[:, model.classes.index(case.yes)]
                scores.append(score(truth, predicted))
            show(case.name, name, label, scores, plain, synthetic, (time.process_time() - begun) / len(SEEDS))


def cluster_cases() -> Iterator[tuple[Case, int]]:
    """Return generated tables of clusters, and how many each has."""
    draws = np.random.default_rng(0)
    for columns, clusters, count in ((2, 4, 20_000), (4, 5, 20_000), (8, 6, 30_000)):
        centers = draws.uniform(-6, 6, (clusters, columns))
        points = centers[draws.integers(0, clusters, count)] + draws.normal(0, 1, (count, columns))
        points = np.clip(points, -10, 10).round(3)
        names = [f"c{i}" for i in range(columns)]
        domain = dict.fromkeys(names, sd.Real(-10, 10, resolution="0.001"))
        yield Case(f"{clusters} normal clusters", pd.DataFrame(points, columns=names), domain, "", names), clusters


def measure_clusters() -> None:
    """Print the lines of k-means: the mean squared distance to the nearest center over that without privacy."""
    for case, clusters in cluster_cases():
        points, names = case.rows.to_numpy(), case.x
        plain = cluster(points, clusters, sd.Rng.seeded(0))[2]
        for label in ("(1, 1e-6)", "1"):
            begun = time.process_time()
            ratios = []
            for seed in SEEDS:
                model = sd.models.kmeans(
                    case.protect(case.rows, seed),
                    columns=names,
                    clusters=clusters,
                    rng=sd.Rng.seeded(seed),
                    **LOSSES[label],
                )
                ratios.append(float(nearest_centers(points, model.centers)[1].mean()) / plain)
            seconds = (time.process_time() - begun) / len(SEEDS)
            show(f"{case.name}, {len(names)} columns", "kmeans (cost)", label, ratios, 1.0, [], seconds)


def measure_components(case: Case) -> None:
    """Print the lines of PCA: the variance that three components capture over that of the best three."""
    names = [case.y, *case.x]
    numbers = case.rows[names].to_numpy(dtype=np.float64)
    scaled = (numbers - numbers.mean(axis=0)) / numbers.std(axis=0)
    covariance = np.cov(scaled.T)
    best = float(np.linalg.eigvalsh(covariance)[::-1][:3].sum())
    for label in ("(1, 1e-6)", "1", "(.1, 1e-6)"):
        begun = time.process_time()
        shares = []
        for seed in SEEDS:
            model = sd.models.pca(
                case.protect(case.rows, seed), columns=names, components=3, scale=True, **LOSSES[label]
            )
            shares.append(float(np.trace(model.components @ covariance @ model.components.T)) / best)
        seconds = (time.process_time() - begun) / len(SEEDS)
        show(case.name, "pca (variance)", label, shares, 1.0, [], seconds)


# ---- Beside diffprivlib, whose neighbors differ in the cells of one row: so do ours here


@dataclass(frozen=True)
class Task:
    """What both libraries are to do with a case: predict y, or find clusters or components of x."""

    case: Case
    kind: Literal["predict", "clusters", "components"]
    clusters: int = 0
    standardise: bool = False

    @property
    def name(self) -> str:
        units = "standard deviations" if self.standardise else "declared ranges"
        words = {"predict": "", "clusters": f", {len(self.case.x)} columns", "components": f", in {units}"}
        return self.case.name + words[self.kind]

    def plain_cost(self) -> float:
        """Return the cost, on the held-out rows, of the centers of the others without privacy."""
        train, test = (rows[self.case.x].to_numpy(dtype=np.float64) for rows in self.case.split())
        centers = cluster(train, self.clusters, sd.Rng.seeded(0))[0]
        return float(nearest_centers(test, centers)[1].mean())


def tasks(folder: Path) -> Iterator[Task]:
    """Return all tasks of the tables that are there."""
    cases = read_cases(folder)
    for case in cases:
        yield Task(case, "predict")
    for case, clusters in cluster_cases():
        yield Task(case, "clusters", clusters)
    for case in cases:
        if case.yes is None:
            every = replace(case, x=[case.y, *case.x], y="")
            yield Task(scale_by_bounds(every), "components")
            yield Task(every, "components", standardise=True)


def scale_by_bounds(case: Case) -> Case:
    """Return a case of numbers with each scaled by its bounds to -1..1, as a user may before the table is protected."""
    bounds = {name: (float(case.domain[name].lower), float(case.domain[name].upper)) for name in case.x}
    rows = pd.DataFrame(
        {name: (2 * (case.rows[name] - low) / (high - low) - 1).round(4) for name, (low, high) in bounds.items()}
    )
    return replace(case, rows=rows, domain=dict.fromkeys(case.x, sd.Real(-1, 1, resolution="0.0001")))


def write_cases(folder: Path, out: Path) -> None:
    """Write the rows of all tasks, and as JSON what is public of their columns."""
    out.mkdir(parents=True, exist_ok=True)
    written = []
    for number, task in enumerate(tasks(folder)):
        case = task.case
        declared = {name: case.domain[name] for name in case.x + [case.y] * bool(case.y)}
        files = {}
        for part, rows in zip(("train", "test"), case.split(), strict=True):
            files[part] = f"{number}-{part}.parquet"
            rows[list(declared)].to_parquet(out / files[part], index=False)
        bounds: dict[str, tuple[Any, Any]] = {
            n: (c.lower, c.upper) for n, c in declared.items() if isinstance(c, sd.Integer | sd.Real)
        }
        written.append(
            {"name": task.name, "task": task.kind, "y": case.y, "x": case.x, "yes": case.yes, "clusters": task.clusters}
            | {"standardise": task.standardise}
            | {"bounds": {name: [float(end) for end in ends] for name, ends in bounds.items()}}
            | {"values": {n: list(c.values) for n, c in declared.items() if isinstance(c, sd.Category) and n != case.y}}
            | {"plain": task.plain_cost() if task.clusters else None}
            | files
        )
    (out / "cases.json").write_text(json.dumps(written, indent=1))


OURS = {
    "LinearRegression": "linear_regression",
    "LogisticRegression": "logistic_regression",
    "GaussianNB": "naive_bayes",
    "RandomForestClassifier": "boosted_histograms",
    "KMeans": "kmeans",
    "PCA": "pca",
}


def fit_task(task: Task, name: str, seed: int, epsilon: str) -> float:
    """Return the score on the held-out rows of a model of ours, where neighbors differ in the cells of one row."""
    case = task.case
    train, test = case.split()
    table = case.protect(train, seed, "replace")
    if task.kind == "clusters":
        rng = sd.Rng.seeded(seed)
        found = sd.models.kmeans(table, columns=case.x, clusters=task.clusters, rng=rng, epsilon=epsilon)
        return float(nearest_centers(test[case.x].to_numpy(), found.centers)[1].mean()) / task.plain_cost()
    if task.kind == "components":
        numbers = test[case.x].to_numpy(dtype=np.float64)
        # Each of its own: mypy takes three seconds for both in one expression.
        covariance: Floats = np.cov(numbers.T)
        if task.standardise:
            covariance = np.corrcoef(numbers.T)
        best = float(np.linalg.eigvalsh(covariance)[::-1][:3].sum())
        model = sd.models.pca(table, columns=case.x, components=3, scale=task.standardise, epsilon=epsilon)
        parts = model.components
        return float(np.trace(parts @ covariance @ parts.T)) / best
    model = getattr(sd.models, name)(table, y=case.y, x=case.x, epsilon=epsilon)
    if case.yes is None:
        return r2(test[case.y].astype(float), model.predict(test))
    return auc(test[case.y] == case.yes, model.predict_proba(test)[:, model.classes.index(case.yes)])


def show_beside(folder: Path, lines: Path) -> None:
    """Print a line for each model and epsilon: ours, and diffprivlib's by the setting that is best on the held-out rows.

    Ours is bold where its mean is behind.
    """
    peer = pd.DataFrame([json.loads(line) for line in lines.read_text().splitlines()])
    if "error" not in peer:
        peer["error"] = None
    print(
        "| table | ours, theirs | epsilon | ours, three seeds | diffprivlib, three seeds | its setting | CPU s, ours / its |"
    )
    print("|---|---|---|---|---|---|---|")
    for task in tasks(folder):
        of_task = peer[peer["case"] == task.name]
        for theirs in of_task["model"].unique():
            for epsilon in ("0.1", "1", "10"):
                begun = time.process_time()
                scores = [fit_task(task, OURS[theirs], seed, epsilon) for seed in SEEDS]
                seconds = (time.process_time() - begun) / len(SEEDS)
                cells = of_task[(of_task["model"] == theirs) & np.isclose(of_task["epsilon"], float(epsilon))]
                # Three seeds or none: a setting that raises for one of them is no setting to recommend.
                whole = cells.groupby("setting").filter(lambda rows: bool(rows["score"].notna().all()))
                own = describe(scores)
                if whole.empty:
                    found, setting, cost = f"raises {cells['error'].dropna().iloc[0]}", "", "-"
                else:
                    means = whole.groupby("setting")["score"].mean()
                    setting = str(means.idxmin() if task.kind == "clusters" else means.idxmax())
                    chosen = whole[whole["setting"] == setting]
                    found, cost = describe(list(chosen["score"])), f"{chosen['cpu'].mean():.2f}"
                    ahead = float(np.mean(scores)) - float(chosen["score"].mean())
                    if (ahead if task.kind == "clusters" else -ahead) > 0:
                        own = f"**{own}**"
                print(
                    f"| {task.name} | {OURS[theirs]}, {theirs} | {epsilon} | {own} | {found} | {setting} "
                    f"| {seconds:.2f} / {cost} |",
                    flush=True,
                )


def measure_rows(count: int, repeats: int = 3) -> None:
    """Print CPU and wall seconds of a linear regression over rows of 20 normal numbers, and of plain scans of the same file.

    All run in turn, so that the machine's mood falls on all alike. The file is of plain doubles, which are read fastest.
    """
    names = [f"x{i}" for i in range(20)]
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "rows.parquet"
        schema = pa.schema([(name, pa.float64()) for name in names])
        with pq.ParquetWriter(file, schema, compression="none", use_dictionary=False) as writer:
            for start in range(0, count, 500_000):
                cells = rng.normal(size=(len(names), min(500_000, count - start)))
                writer.write_table(pa.table(dict(zip(names, cells, strict=True))))
        connection = duckdb.connect()
        connection.execute("SET preserve_insertion_order = false")
        products = [f"SUM({one} * {other})" for i, one in enumerate(names) for other in names[i:]]

        def fetch_columns() -> None:
            for block in connection.sql(f"SELECT {', '.join(names)} FROM '{file}'").to_arrow_reader(1 << 16):
                _ = [column.to_numpy() for column in block.columns]

        def fit() -> None:
            table = sd.protect(
                str(file),
                domain=sd.Domain({name: sd.Real(-4, 4, resolution="0.001") for name in names}),
                neighbors="add_remove",
                privacy_unit="row",
                budget=BUDGET,
                ledger=None,
                rng=sd.Rng.seeded(1),
            )
            sd.models.linear_regression(table, y="x0", x=names[1:], epsilon=1, delta="1e-6")

        runs: dict[str, Callable[[], object]] = {
            "the 20 sums, DuckDB": lambda: connection.execute(
                f"SELECT {', '.join(f'SUM({name})' for name in names)} FROM '{file}'"
            ).fetchall(),
            "the 210 products, DuckDB": lambda: connection.execute(
                f"SELECT {', '.join(products)} FROM '{file}'"
            ).fetchall(),
            "the 20 columns fetched into NumPy, once": fetch_columns,
            "`linear_regression`, fetched once": fit,
        }
        seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
        # The first turn reads the file into memory, and imports what is imported lazily.
        for turn in range(repeats + 1):
            for name, run in runs.items():
                before = os.times()
                run()
                after = os.times()
                cpu = after.user + after.system - before.user - before.system
                if turn:
                    seconds[name].append((cpu, after.elapsed - before.elapsed))
    print(f"| {count:,} rows of 20 numbers | CPU s | wall s | CPU, times the sums | wall, times the sums |")
    print("|---|---|---|---|---|")
    medians = {name: [statistics.median(kind) for kind in zip(*times, strict=True)] for name, times in seconds.items()}
    plain = medians["the 20 sums, DuckDB"]
    for name, own in medians.items():
        print(f"| {name} | {own[0]:.2f} | {own[1]:.2f} | {own[0] / plain[0]:.1f} | {own[1] / plain[1]:.1f} |")


def describe(scores: list[float]) -> str:
    """Return the mean of the seeds, and their range."""
    ends = [float(np.mean(scores)), min(scores), max(scores)]
    mean, low, high = (f"{end:.3f}" if abs(end) < 1000 else f"{end:.1e}" for end in ends)
    return f"{mean} ({low} to {high})"


if __name__ == "__main__" and "--cases" in sys.argv:
    write_cases(Path(sys.argv[1]), Path(sys.argv[3]))
elif __name__ == "__main__" and "--beside" in sys.argv:
    show_beside(Path(sys.argv[1]), Path(sys.argv[3]))
elif __name__ == "__main__" and "--rows" in sys.argv:
    measure_rows(int(sys.argv[2]))
elif __name__ == "__main__":
    print("| table | model | loss | score, three seeds | not private | on synthetic rows | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for measured in read_cases(Path(sys.argv[1])):
        measure(measured)
        if measured.yes is None:
            measure_components(measured)
    measure_clusters()
