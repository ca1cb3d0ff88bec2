"""What a model costs, and how wrong it will be, before anything is spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

from sordino.core.errors import DeclarationError, arg, nearest
from sordino.core.loss import Loss, LossArguments, read_loss, show_arguments
from sordino.models.classification import counts_question, logistic_question
from sordino.models.clusters import check_clusters
from sordino.models.columns import Table
from sordino.models.components import components_question
from sordino.models.linear import moments_for
from sordino.models.poisson import poisson_question
from sordino.models.tree import check_tree

# The models by the names of their functions: the one place that lists what each is planned with.
MODELS = {
    "linear_regression": ("y", "x", "validate", "assume_rows"),
    "logistic_regression": ("y", "x", "validate", "assume_rows"),
    "poisson_regression": ("y", "x", "assume_rows"),
    "naive_bayes": ("y", "x"),
    "decision_tree": ("y", "x", "depth", "assume_rows"),
    "pca": ("columns", "components", "scale"),
    "kmeans": ("columns", "clusters", "scale", "assume_rows"),
}


@dataclass(frozen=True, slots=True)
class ModelPlan:
    """The price of a model: its `cost`, the question that it is answered from, None where its queries follow from answers.

    `error` is what is known of its error from public facts, in words.
    """

    model: str
    cost: Loss
    question: Any
    error: str

    def __repr__(self) -> str:
        return f"<plan of {self.model}: {self.cost.describe()}>"

    def __str__(self) -> str:
        queries = (
            "queries that follow from answers to earlier ones" if self.question is None else self.question.describe()
        )
        lines = {"model": self.model, "cost": self.cost.describe(), "asks": queries, "error": self.error}
        return "\n".join(f"{name:<7}{text}" for name, text in lines.items())


@show_arguments(LossArguments)
def plan(
    model: str,
    table: Table,
    *,
    y: str | None = None,
    x: Sequence[Any] | None = None,
    columns: Sequence[str] | None = None,
    components: int | None = None,
    clusters: int | None = None,
    depth: int | None = None,
    scale: bool | None = None,
    validate: int | None = None,
    assume_rows: int | None = None,
    **loss: Unpack[LossArguments],
) -> ModelPlan:
    """Return what a model would cost, by the name of its function; spends nothing, and raises what that function would.

    Raises DeclarationError for another name, for an argument that the model does not have, and for one that it lacks.
    """
    if model not in MODELS:
        raise DeclarationError(f"is no model; {nearest(str(model), MODELS)}", key="model")
    given: dict[str, Any] = {
        "y": y,
        "x": x,
        "columns": columns,
        "components": components,
        "clusters": clusters,
        "depth": depth,
        "scale": scale,
        "validate": validate,
        "assume_rows": assume_rows,
    }
    for name, value in given.items():
        if value is not None and name not in MODELS[model]:
            raise DeclarationError(
                f"{arg(f'{name}=')} does not go with {model}, which takes {', '.join(MODELS[model])}"
            )
    for name in ("y", "x", "columns", "components", "clusters", "depth"):
        if name in MODELS[model] and given[name] is None:
            raise DeclarationError(f"is missing: {model} needs it", key=name)
    if model == "kmeans":
        check_clusters(table, columns, clusters, assume_rows)
        return ModelPlan(model, read_loss(**loss), None, "depends on data")
    if model == "decision_tree":
        check_tree(table, y, x, depth, assume_rows)
        return ModelPlan(model, read_loss(**loss), None, "depends on data")
    question = _question(model, table, given)
    priced = table.plan(question, **loss)
    words = "; ".join(f"{column.names[0]}: {column.words[0]}" for column in priced.procedure.columns(0.95))
    return ModelPlan(model, priced.cost, question, f"{words}; that of what the model says depends on data")


def _question(model: str, table: Table, given: dict[str, Any]) -> Any:
    """Return the one question that a model is answered from."""
    if model == "linear_regression":
        arguments = {name: given[name] for name in MODELS[model]}
        return moments_for(table, **arguments)[0]
    if model == "logistic_regression":
        return logistic_question(table, **{name: given[name] for name in MODELS[model]})[0]
    if model == "poisson_regression":
        return poisson_question(table, **{name: given[name] for name in MODELS[model]})[0]
    if model == "naive_bayes":
        return counts_question(table, y=given["y"], x=given["x"])[0]
    return components_question(table, given["columns"], given["components"])[0]
