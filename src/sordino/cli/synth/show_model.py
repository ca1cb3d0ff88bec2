"""`sordino synth show`: what a model is - how it was made, its columns, cliques and stated errors. It reads the file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.shared.options import Confidence, TextFormat
from sordino.cli.shared.terminal import columns_of, paint, say, wrap
from sordino.cli.synth.arguments import ModelFile
from sordino.estimates.model_estimate import KIND_WORDS

if TYPE_CHECKING:
    from sordino.synth.model import Model

__all__ = ["synth_show"]


def synth_show(
    model: ModelFile,
    confidence: Confidence = 0.95,
    form: Annotated[TextFormat, typer.Option("--format", help="How it is written.")] = TextFormat.table,
) -> None:
    """Show what a model is: how it was made and what it cost, its columns, its cliques, its stated errors."""
    from sordino.cli.synth.arguments import model_at

    told = _data(model_at(model), confidence)
    if form is TextFormat.json:
        say(json.dumps(told, ensure_ascii=False, indent=2))
        return
    for line in _lines(told):
        say(line)


def _data(model: Model, confidence: float) -> dict[str, Any]:
    parts, names = model.parts, model.columns
    from sordino.estimates.curve import normal_quantile

    reach = normal_quantile(confidence)
    return {
        "schema": 1,
        "table": model.facts.get("table"),
        "method": model.facts.get("method"),
        "tier": model.facts.get("tier"),
        "cost": model.facts.get("loss"),
        "charge": model.facts.get("charge"),
        "protects": model.facts.get("neighbors"),
        "note": model.facts.get("caps"),
        "private": model.facts.get("private") == "true",
        "rows": model.rows,
        "columns": [
            {
                "name": c.name,
                "type": type(c.column).__name__.lower(),
                "keys": c.size,
                "codes": k.size,
                "missing": c.missing and not c.dropped,
            }
            for c, k in zip(parts.columns, parts.codes, strict=True)
        ],
        "cliques": [[names[c] for c in clique] for clique in parts.field.tree.cliques],
        "cells": sum(t.size for t in parts.field.tables),
        "measured": [[names[c] for c in m] for m in sorted(parts.measured)],
        "constraints": [c.describe() for c in model.constraints],
        "confidence": confidence,
        "errors": {k: reach * parts.errors.typical(k) for k in KIND_WORDS},
    }


def _lines(told: dict[str, Any]) -> list[str]:
    seal = "" if told["private"] else "NOT PRIVATE (its noise was seeded): "
    lines = [
        *wrap("model", f"{seal}{told['tier']} of {len(told['columns'])} columns and about {told['rows']:,} rows"),
        *wrap("made of", f"table {told['table']}, by {told['method']}"),
        *wrap("cost", f"{told['cost']}; charge {told['charge']}"),
        *wrap("protects", told["protects"] or ""),
        *(wrap("note", told["note"]) if told["note"] else []),
        *wrap("cliques", "; ".join(" x ".join(c) for c in told["cliques"])),
        *wrap("cells", f"{told['cells']:,}"),
    ]
    for constraint in told["constraints"]:
        lines += wrap("always", constraint)
    head = ["column", "type", "declared keys", "codes", "missing"]
    body = [
        [c["name"], c["type"], f"{c['keys']:,}", f"{c['codes']:,}", "a value" if c["missing"] else ""]
        for c in told["columns"]
    ]
    table = columns_of(head, body, right=[False, False, True, True, False])
    lines += ["", paint(table[0], "bold"), *table[1:]]
    title = f"{100 * told['confidence']:g}% error"
    errors = columns_of(
        ["a count over", title],
        [[KIND_WORDS[k], f"{v:,.0f}"] for k, v in told["errors"].items()],
        right=[False, True],
    )
    return [*lines, "", paint(errors[0], "bold"), *errors[1:]]
