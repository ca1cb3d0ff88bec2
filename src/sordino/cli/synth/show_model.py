"""`sordino synth show`: what a model is - how it was made, its columns, cliques and stated errors. It reads the file."""

from __future__ import annotations

import json
from typing import Any

from sordino.cli.shared.options import Confidence, TextForm, TextFormat
from sordino.cli.shared.terminal import columns_of, paint, say, wrap
from sordino.cli.synth.arguments import ModelFile
from sordino.estimates.model_estimate import KIND_WORDS

__all__ = ["synth_show"]


def synth_show(model: ModelFile, confidence: Confidence = 0.95, form: TextForm = TextFormat.table) -> None:
    """Show how a model was made and what it cost, its columns, its cliques and its stated errors."""
    from sordino import synth

    data = synth.load(model).to_dict(confidence=confidence)
    if form is TextFormat.json:
        say(json.dumps(data, ensure_ascii=False, indent=2))
        return
    for line in _lines(data):
        say(line)


def _lines(data: dict[str, Any]) -> list[str]:
    seal = "" if data["private"] else "NOT PRIVATE (its noise was seeded): "
    lines = [
        *wrap("model", f"{seal}{data['tier']} of {len(data['columns'])} columns and about {data['rows']:,} rows"),
        *wrap("made of", f"table {data['table']}, by {data['method']}"),
        *wrap("cost", f"{data['cost']}; charge {data['charge']}"),
        *wrap("protects", data["protects"] or ""),
        *(wrap("note", data["note"]) if data["note"] else []),
        *wrap("cliques", "; ".join(" x ".join(c) for c in data["cliques"])),
        *wrap("cells", f"{data['cells']:,}"),
        *(line for constraint in data["constraints"] for line in wrap("always", constraint)),
    ]
    columns = [
        [c["name"], c["type"], f"{c['keys']:,}", f"{c['codes']:,}", "a value" if c["missing"] else ""]
        for c in data["columns"]
    ]
    errors = [[KIND_WORDS[k], f"{v:,.0f}"] for k, v in data["errors"].items()]
    head = ["column", "type", "declared keys", "codes", "missing"]
    for table in (
        columns_of(head, columns, right=[False, False, True, True, False]),
        columns_of(["a count over", f"{100 * data['confidence']:g}% error"], errors, right=[False, True]),
    ):
        lines += ["", paint(table[0], "bold"), *table[1:]]
    return lines
