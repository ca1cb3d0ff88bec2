"""Decision trees from one private model of the columns: its rows stand for the table's, and growing over them costs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Unpack

import numpy as np

from sordino.ask.queries.queryable import Adaptive
from sordino.core.domain import Boolean, Category, Column, Integer, Real
from sordino.core.errors import DeclarationError, QuestionRefused
from sordino.core.loss import LossArguments, show_arguments
from sordino.core.noise.rng import Rng
from sordino.models.classification import pick_classes
from sordino.models.columns import (
    Floats,
    Predictors,
    check_rows,
    declared_values,
    domain_of,
    read_codes,
    read_frame,
    read_numbers,
    read_predictors,
    require_column,
    require_range,
)
from sordino.models.held_out import HeldOut, HeldOutClasses, HeldOutScores
from sordino.models.record import (
    PricedModel,
    Provenance,
    array_from_list,
    draw_private_rows,
    is_value,
    quote_name,
    require_fit,
)
from sordino.models.validation import fit_validated

# Rows that are drawn from the private model: more hardly move the splits.
_ROWS = 30_000
# A leaf has this part of the rows or more.
_LEAST_LEAF = 0.005
_CUTS = 32
MOST_DEPTH = 10


@dataclass(frozen=True)
class Leaf:
    """What is predicted at the end of a path: `values` (classes,) are shares, or the one mean; `share` of the rows ends here."""

    values: Floats
    share: float

    def to_dict(self) -> dict[str, Any]:
        """Return the leaf as JSON data."""
        return {"values": self.values.tolist(), "share": self.share}


@dataclass(frozen=True)
class Split:
    """A question about one column: rows whose number is at most `cut`, or whose value is at one of `places`, go to `left`.

    A row without a value goes where most rows go.
    """

    column: str
    cut: float | None
    places: tuple[int, ...]
    left: Split | Leaf
    right: Split | Leaf

    def to_dict(self) -> dict[str, Any]:
        """Return the split as JSON data."""
        return {
            "column": self.column,
            "cut": self.cut,
            "places": list(self.places),
            "left": self.left.to_dict(),
            "right": self.right.to_dict(),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Split | Leaf:
        """Return the split, or the leaf, that `to_dict` wrote."""
        if "values" in data:
            return Leaf(array_from_list(data["values"]), float(data["share"]))
        cut = None if data["cut"] is None else float(array_from_list(data["cut"]))
        sides = [cls.from_dict(data[side]) for side in ("left", "right")]
        return cls(str(data["column"]), cut, tuple(map(int, data["places"])), sides[0], sides[1])

    @property
    def share(self) -> float:
        """The share of the rows that come here."""
        return self.left.share + self.right.share


Node = Split | Leaf


@dataclass(frozen=True, repr=False)
class TreeModel(PricedModel):
    """A decision tree of `y`: classes where it is a category or boolean, else a number. `root` is its first split."""

    y: str
    target: Column
    predictors: Predictors
    root: Node
    provenance: Provenance
    held_out: HeldOut | HeldOutScores | HeldOutClasses | None = None

    # Its scores of classes are their shares, where others' are logs of odds.
    ranks_by_shares: ClassVar[bool] = True

    @property
    def classes(self) -> tuple[Any, ...]:
        """The declared values of y, in order; none where it is a number."""
        return tuple(declared_values(self.target)) if isinstance(self.target, (Category, Boolean)) else ()

    def predict_proba(self, frame: Any) -> Floats:
        """Return the probability of each class, in declared order: (rows, classes). Raises QuestionRefused for a number."""
        if not self.classes:
            raise QuestionRefused(f"{self.y!r} is a number: use predict(frame)")
        return self._values_of(frame)

    def predict(self, frame: Any) -> np.ndarray[Any, np.dtype[Any]]:
        """Return the most probable class of each row of a frame, or its expected number: (rows,)."""
        values = self._values_of(frame)
        return pick_classes(values, self.classes) if self.classes else values[:, 0]

    def _values_of(self, frame: Any) -> Floats:
        cells = read_cells(self.predictors, frame)
        rows = len(next(iter(cells.values())))
        result = np.zeros((rows, len(_first_leaf(self.root).values)))
        self._fill(self.root, cells, np.arange(rows), result)
        return result

    def _fill(self, node: Node, cells: dict[str, Floats], at: Any, result: Floats) -> None:
        if isinstance(node, Leaf):
            result[at] = node.values
            return
        left = goes_left(node, cells[node.column][at])
        self._fill(node.left, cells, at[left], result)
        self._fill(node.right, cells, at[~left], result)

    def to_sql(self) -> str | list[str]:
        """Return the expected number as an expression of SQL; for classes a list, the probability of each."""
        if not self.classes:
            return self._case(self.root, 0)
        return self.scores_sql()

    def _case(self, node: Node, k: int) -> str:
        if isinstance(node, Leaf):
            return repr(float(node.values[k]))
        name = quote_name(node.column)
        if node.cut is None:
            labels = declared_values(dict(self.predictors.declared)[node.column])
            test = " OR ".join(is_value(node.column, labels[i]) for i in node.places)
            known = None in labels
        else:
            test = f"{name} <= {node.cut!r}"
            known = False
        if not known and node.left.share >= node.right.share:
            test += f" OR {name} IS NULL"
        return f"CASE WHEN {test} THEN {self._case(node.left, k)} ELSE {self._case(node.right, k)} END"

    def scores_sql(self) -> list[str]:
        """Return for each class its share as an expression of SQL."""
        return [self._case(self.root, k) for k in range(len(self.classes))]

    def to_text(self) -> str:
        """Return the tree as text, a line for each split and leaf."""
        return "\n".join(self._lines(self.root, ""))

    def _lines(self, node: Node, indent: str) -> list[str]:
        if isinstance(node, Leaf):
            if self.classes:
                best = int(node.values.argmax())
                said = f"{self.classes[best]} ({node.values[best]:.2f})"
            else:
                said = f"{node.values[0]:.4g}"
            return [f"{indent}{said}, {100 * node.share:.1f}% of the rows"]
        if node.cut is None:
            labels = declared_values(dict(self.predictors.declared)[node.column])
            names = ", ".join("(missing)" if labels[i] is None else str(labels[i]) for i in node.places)
            test = f"{node.column} is {names}"
        else:
            test = f"{node.column} at most {node.cut:.6g}"
        return [
            f"{indent}{test}:",
            *self._lines(node.left, indent + "  "),
            f"{indent}else:",
            *self._lines(node.right, indent + "  "),
        ]

    def facts(self) -> dict[str, str]:
        """Return what is predicted, from what, and the tree, a line for each split and leaf."""
        facts = {} if self.held_out is None else self.held_out.facts()
        facts |= {"predicts": self.y, "from": ", ".join(name for name, _ in self.predictors.declared)}
        for i, line in enumerate(self._lines(self.root, "")):
            facts[f"line {i + 1}"] = line
        return facts

    def check(self) -> None:
        """Raise ValueError where the parts of a stored model do not fit each other."""
        width = len(declared_values(self.target)) if isinstance(self.target, (Category, Boolean)) else 1
        _check_node(self.root, dict(self.predictors.declared), width, MOST_DEPTH)

    def describe(self) -> str:
        """Return the model in a few words."""
        return f"decision tree of {self.y}, {_count_leaves(self.root)} leaves"


def _check_node(node: Node, columns: Mapping[str, Column], width: int, depth: int) -> None:
    if isinstance(node, Leaf):
        require_fit(node.values.shape == (width,))
        return
    column = columns[node.column]
    is_number = isinstance(column, (Integer, Real))
    require_fit(depth > 0 and is_number == (node.cut is not None))
    require_fit(is_number or all(0 <= place < len(declared_values(column)) for place in node.places))
    _check_node(node.left, columns, width, depth - 1)
    _check_node(node.right, columns, width, depth - 1)


def _first_leaf(node: Node) -> Leaf:
    return node if isinstance(node, Leaf) else _first_leaf(node.left)


def _count_leaves(node: Node) -> int:
    return 1 if isinstance(node, Leaf) else _count_leaves(node.left) + _count_leaves(node.right)


def goes_left(split: Split, cells: Floats) -> Any:
    """Return which rows go left, by their cells of the split's column: booleans (rows,)."""
    if split.cut is not None:
        left = cells <= split.cut
        missing = np.isnan(cells)
    else:
        left = np.isin(cells, split.places)
        missing = cells < 0
    return np.where(missing, split.left.share >= split.right.share, left)


def read_cells(predictors: Predictors, frame: Any) -> dict[str, Floats]:
    """Return the cells of a frame by column: numbers, nan where one is missing, and places of values, -1 where missing."""
    table = read_frame(frame, [name for name, _ in predictors.declared])
    return {
        name: read_numbers(table[name], column)
        if isinstance(column, (Integer, Real))
        else read_codes(table[name], column).astype(np.float64)
        for name, column in predictors.declared
    }


# ---- Growing


@show_arguments(LossArguments)
def decision_tree(
    table: Adaptive,
    *,
    y: str,
    x: Sequence[str],
    depth: int,
    validate: int | None = None,
    assume_rows: int | None = None,
    rng: Rng | None = None,
    **loss: Unpack[LossArguments],
) -> TreeModel:
    """Return a decision tree of `y`, a category, a boolean or a number, of at most `depth` splits on a path.

    One charge fits a private model of the columns that keeps what depends on y (`sd.synth.fit(predict=y)`). The tree is grown
    over rows drawn from it, each split where it explains most (CART: Breiman, Friedman, Olshen, Stone 1984): its splits and
    shares are as wrong as that model is. Draws come through `rng`. `validate=4` leaves one unit in four out, and scores the
    tree on them for 15% of the loss. Raises UnknownName, QuestionRefused or DeclarationError before anything is spent;
    BudgetExhausted, ChargedError as ask.
    """
    predictors, target = check_tree(table, y, x, depth, assume_rows)
    if validate is not None:
        arguments: dict[str, Any] = {"y": y, "x": x, "depth": depth, "rng": rng}
        validated: TreeModel = fit_validated(decision_tree, table, validate, loss, **arguments)
        return validated
    words = "the tree is grown over rows drawn from a private model of the columns"
    names = [name for name, _ in predictors.declared]
    rows, about = draw_private_rows(table, [*names, y], count=_ROWS, words=words, rng=rng, predict=y, **loss)
    cells = read_cells(predictors, rows)
    column = rows.column(y).to_pylist()
    if isinstance(target, (Category, Boolean)):
        codes = read_codes(column, target)
        outcomes = (codes[:, None] == np.arange(len(declared_values(target)))).astype(np.float64)
        known = codes >= 0
    else:
        outcomes = read_numbers(column, target)[:, None]
        known = ~np.isnan(outcomes[:, 0])
    cells = {name: values[known] for name, values in cells.items()}
    root = grow(predictors, cells, outcomes[known], depth)
    return TreeModel(y, target, predictors, root, about)


def check_tree(table: Any, y: Any, x: Any, depth: Any, assume_rows: int | None) -> tuple[Predictors, Column]:
    """Return the columns of a tree, and what it predicts; raises what `decision_tree` raises before a charge."""
    target = require_column(domain_of(table), y, "y")
    predictors = read_predictors(table.domain, x, without=y)
    if any(isinstance(term, tuple) for term in predictors.terms):
        raise QuestionRefused("a tree takes columns by themselves: leave out products")
    for name, column in ((y, target), *predictors.declared):
        require_range(name, column)
    if isinstance(depth, bool) or not isinstance(depth, int) or not 1 <= depth <= MOST_DEPTH:
        raise DeclarationError(f"must be a whole number from 1 to {MOST_DEPTH}", key="depth")
    check_rows(assume_rows, 2**depth)
    return predictors, target


def grow(predictors: Predictors, cells: dict[str, Floats], outcomes: Floats, depth: int) -> Node:
    """Return the tree that is grown over public rows: cells by column, and outcomes (rows, classes), or (rows, 1) numbers."""
    least = max(int(_LEAST_LEAF * len(outcomes)), 1)

    def leaf(at: Any) -> Leaf:
        values = outcomes[at].mean(axis=0) if len(at) else outcomes.mean(axis=0)
        return Leaf(values, len(at) / max(len(outcomes), 1))

    def extend(at: Any, levels: int) -> Node:
        if not levels or len(at) < 2 * least:
            return leaf(at)
        best: tuple[float, Split] | None = None
        for name, column in predictors.declared:
            values = cells[name][at]
            for split in _candidates(name, column, values, outcomes[at]):
                left = goes_left(split, values)
                count = int(left.sum())
                if min(count, len(at) - count) < least:
                    continue
                gain = _gain(outcomes[at], left)
                if best is None or gain > best[0]:
                    best = gain, split
        if best is None or best[0] <= 1e-9:
            return leaf(at)
        split = best[1]
        left = goes_left(split, cells[split.column][at])
        sides = extend(at[left], levels - 1), extend(at[~left], levels - 1)
        # Both sides alike say nothing apart.
        if all(isinstance(side, Leaf) for side in sides) and np.allclose(
            _first_leaf(sides[0]).values, _first_leaf(sides[1]).values
        ):
            return leaf(at)
        return Split(split.column, split.cut, split.places, *sides)

    return extend(np.arange(len(outcomes)), depth)


def _gain(outcomes: Floats, left: Any) -> float:
    """Return by how much the sum of squares about the means falls: for classes that is the Gini index."""
    whole = outcomes.sum(axis=0)
    one = outcomes[left].sum(axis=0)
    count = int(left.sum())
    other = whole - one
    return float((one**2).sum() / count + (other**2).sum() / (len(outcomes) - count) - (whole**2).sum() / len(outcomes))


def _candidates(name: str, column: Column, values: Floats, outcomes: Floats) -> list[Split]:
    """Return the splits of a column that are tried: at quantiles of a number, and of values in the order of their outcome."""
    empty = Leaf(np.zeros(1), 0.5)
    if isinstance(column, (Integer, Real)):
        present = values[~np.isnan(values)]
        if not len(present):
            return []
        cuts = np.unique(np.quantile(present, np.linspace(0, 1, _CUTS + 2)[1:-1], method="lower"))
        return [Split(name, float(cut), (), empty, empty) for cut in cuts if cut < present.max()]
    # By the outcome that varies most among the values: for two classes, or a number, the best split is one of these.
    places = [int(place) for place in np.unique(values) if place >= 0]
    means = np.array([outcomes[values == place].mean(axis=0) for place in places])
    if len(places) < 2:
        return []
    order = np.argsort(means[:, means.var(axis=0).argmax()], kind="stable")
    return [
        Split(name, None, tuple(sorted(places[i] for i in order[:count])), empty, empty)
        for count in range(1, len(places))
    ]
