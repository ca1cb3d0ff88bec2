"""`sordino show`: a past release as it was, at no cost. It reads the ledger, never the data."""

from __future__ import annotations

from sordino.cli.shared.options import AnswerForm, BudgetName, ChargeId, Confidence, OutputFile, ProjectPath, Quiet

__all__ = ["show"]


def show(
    charge: ChargeId,
    form: AnswerForm = None,
    output: OutputFile = None,
    confidence: Confidence = 0.95,
    budget: BudgetName = None,
    project: ProjectPath = None,
    quiet: Quiet = False,
) -> None:
    """Show a past release as it was. It costs nothing and does not need the data."""
    from sordino.cli.ask.ask import deliver
    from sordino.cli.ask.render_release import chosen_format
    from sordino.cli.shared.atomic_file import open_if_named
    from sordino.cli.shared.opening import project_at
    from sordino.project.budget_ledger import find_release

    chosen = chosen_format(form, output)
    release = find_release(project_at(project), charge, budget=budget)
    with open_if_named(output) as target:
        deliver([release], chosen, confidence=confidence, target=target, quiet=quiet)
