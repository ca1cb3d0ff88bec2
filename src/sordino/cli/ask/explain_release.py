"""`sordino explain`: what a past release reveals at most, in a sentence. It reads the ledger, never the data."""

from __future__ import annotations

import json

from sordino.cli.shared.options import BudgetName, ChargeId, ProjectPath, Quiet, TextForm, TextFormat
from sordino.cli.shared.terminal import note, say, wrap

__all__ = ["explain"]


def explain(
    charge: ChargeId,
    form: TextForm = TextFormat.table,
    budget: BudgetName = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Say in plain words what a past release reveals at most about one person."""
    import sordino as sd
    from sordino.cli.shared.opening import project_at
    from sordino.loss import loss_to_numbers
    from sordino.project.budget_ledger import find_release

    release = find_release(project_at(project), charge, budget=budget)
    text = sd.explain(release)
    if form is TextFormat.json:
        said = {"schema": 1, "charge": release.charge, "cost": loss_to_numbers(release.cost), "explanation": text}
        say(json.dumps(said, ensure_ascii=False, indent=2))
        return
    for line in wrap("", text, indent=0):
        say(line)
    note(f"`sordino show {release.charge}` shows the release again", quiet=quiet, aside=False)
