"""`sordino local simulate`: what a collection looks like on known people. NOT PRIVATE: it reads and shows true values."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sordino.cli.local.plan_collection import DEFAULT_LENGTH, Alphabet, Length, Malicious
from sordino.cli.shared.option_rules import goes_with, not_with
from sordino.cli.shared.options import PictureFile, TextForm, TextFormat, one_of, option
from sordino.cli.shared.terminal import paint, say, wrap
from sordino.core.errors import SourceError, nearest
from sordino.core.text_table import columns_of, plain
from sordino.local.protocols.catalog import MAKERS

if TYPE_CHECKING:
    from sordino.local import CollectionSimulation, HeavyHittersSimulation

DataFile = Annotated[
    Path,
    option(
        "--data", "FILE", "A file with a header (CSV, Parquet, Excel, JSON, ...), or the Adult extract. NOT PRIVATE."
    ),
]
ColumnName = Annotated[str, option("--column", "NAME", "A column of categories in it.")]
DeclaredLabels = Annotated[
    str | None,
    option("--labels", "V,V,..", "The values an answer may have. Without: those that occur in the file."),
    not_with("--alphabet"),
]
Method = Annotated[
    str,
    one_of("--protocol", ["best", "coins", "unary", "rappor", *MAKERS], "How respondents randomise."),
    not_with("--alphabet"),
]
Value = Annotated[
    str | None,
    option("--value", "V", "Ask yes or no: is it this value? For --protocol coins."),
    not_with("--alphabet"),
]
Epsilon = Annotated[
    str | None, option("--epsilon", "E", "What one report may reveal; not with coins, unary or rappor.")
]
Flip = Annotated[
    str | None,
    option("--f", "F", "With rappor: how often a permanent bit is drawn anew, half of it to either side."),
    goes_with("--protocol", "rappor"),
]
Own = Annotated[
    str | None,
    option("--p", "P", "With unary: P(the bit of one's own value is reported as 1); with rappor, of a permanent 0."),
    goes_with("--protocol", "unary", "rappor"),
]
Other = Annotated[
    str | None,
    option("--q", "Q", "With unary: P(the bit of another value is reported as 1); with rappor, of a permanent 1."),
    goes_with("--protocol", "unary", "rappor"),
]
Seed = Annotated[int | None, option("--seed", "N", "Draw the same noise each time.")]


def local_simulate(
    data: DataFile,
    column: ColumnName,
    epsilon: Epsilon = None,
    f: Flip = None,
    p: Own = None,
    q: Other = None,
    labels: DeclaredLabels = None,
    alphabet: Alphabet = None,
    length: Length = None,
    protocol: Method = "best",
    value: Value = None,
    malicious: Annotated[Malicious, goes_with("--protocol", "best")] = 0.0,
    seed: Seed = None,
    plot: Annotated[PictureFile, not_with("--alphabet")] = None,
    form: TextForm = TextFormat.table,
) -> None:
    """Simulate a collection on known people: true counts, local estimates and a trusted curator's answers.

    NOT PRIVATE: it shows true counts, and takes the values that occur in the column for labels where --labels does not
    declare them. The curator adds Laplace noise at the same epsilon.
    """
    from sordino.core.noise.rng import Rng
    from sordino.lab.datasets.exact_answers import load_answers, load_known_answers
    from sordino.local import HeavyHitters, pick_protocol, simulate_collection, simulate_heavy_hitters

    rng = Rng.secure() if seed is None else Rng.seeded(seed)
    with _typed_file(data, column) as file:
        if alphabet is None:
            named = None if labels is None else [part.strip() for part in labels.split(",")]
            answers, names = load_known_answers(column, file, labels=named, value=value)
        else:
            texts = load_answers(column, file, labels=None)
    if alphabet is not None:
        search = HeavyHitters(alphabet, length=DEFAULT_LENGTH if length is None else length, epsilon=epsilon or "")
        _print_search(simulate_heavy_hitters(texts, search, rng), column, form)
        return
    stated = {"epsilon": epsilon, "f": f, "p": p, "q": q}
    randomizer = pick_protocol(protocol, names, **stated, respondents=len(answers), malicious=malicious)
    simulated = simulate_collection(answers, randomizer, rng, subject=column)
    if plot is not None:
        from sordino.reporting.charts import plot as draw

        draw(simulated).save(plot)
    if form is TextFormat.json:
        content = simulated.to_dict()
        for row in content["rows"]:
            row["label"] = plain(row["label"])
        say(json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False))
    else:
        _print(simulated, column)


@contextmanager
def _typed_file(data: Path, column: str) -> Iterator[Path]:
    """Give a file whose column can be read: itself, or what `sordino import` would make of an Excel, JSON or other file.

    Raises SourceError where it has no such column.
    """
    import tempfile

    from sordino.ask.engines.readers.import_file import import_file
    from sordino.ask.engines.readers.text_tables import READ, Layout

    ending = data.suffix.lower()
    if ending not in READ or ending in (".csv", ".data"):
        yield data
        return
    if not data.is_file():
        raise SourceError(f"{data}: no such file")
    with tempfile.TemporaryDirectory(prefix="sordino-simulate-") as folder:
        target = Path(folder) / "typed.parquet"
        record = import_file(data, target, layout=Layout(header=None if ending == ".json" else True))
        names = [one.name for one in record.columns]
        if column not in names:
            raise SourceError(f"{data} has no column {column!r}; {nearest(column, names)}")
        yield target


def _print_search(simulated: HeavyHittersSimulation, column: str, form: TextFormat) -> None:
    content = simulated.to_dict()
    if form is TextFormat.json:
        say(json.dumps(content, ensure_ascii=False, indent=2, allow_nan=False))
        return
    say(paint(content["mark"], "red"))
    rows = [
        [plain(r["label"]), f"{r['true']:,}", f"{r['count']:,.0f}", f"{r['lower']:.2%} - {r['upper']:.2%}"]
        for r in content["rows"]
    ]
    missed = [[plain(r["label"]), f"{r['true']:,}", "not found", ""] for r in content["missed"]]
    for line in columns_of(
        [column, "true", "found", "95%, all at once"], rows + missed, right=[False, True, True, True]
    ):
        say(line)


def _print(simulated: CollectionSimulation, column: str) -> None:
    say(paint(f"NOT PRIVATE: {simulated.mark}", "red"))
    rows = [
        [
            row.label,
            f"{row.true:,.0f}",
            f"{row.estimate:,.1f}",
            f"{row.lower:,.0f} - {row.upper:,.0f}",
            f"{row.curator:,.0f}",
        ]
        for row in simulated.rows
    ]
    head = [column, "true", "local model", "95% interval", "trusted curator"]
    lines = columns_of(head, rows, right=[False, True, True, True, True])
    say(paint(lines[0], "bold"))
    for line in lines[1:]:
        say(line)
    say()
    for remark in simulated.remarks:
        for line in wrap("", remark, indent=0):
            say(line)
