"""`sordino synth rules`: drafts of rules by names, types and a codebook; with a loss, how many rows break each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sordino.cli.shared import options as given
from sordino.cli.shared.terminal import note, say
from sordino.core.errors import DeclarationError

if TYPE_CHECKING:
    from sordino.synth.rule_proposals import Proposal

Codebook = Annotated[
    Path | None, given.option("--codebook", "FILE", "A public CSV of columns' names and their descriptions.")
]


def synth_rules(
    table: given.TableName = None,
    codebook: Codebook = None,
    epsilon: given.Epsilon = None,
    delta: given.Delta = None,
    rho: given.Rho = None,
    confidence: given.ConfidenceOfCounts = None,
    spender: given.Spender = None,
    project: given.ProjectPath = None,
    quiet: given.Quiet = False,
) -> None:
    """Propose rules that every synthetic row may obey, as lines for the project file, and test them privately at a loss.

    Without --epsilon nothing is read but names, types and the codebook. With it, one private question counts the rows
    that break each proposed or declared rule, charged once.
    """
    from sordino.cli.ask.render_release import cost_lines
    from sordino.cli.shared.opening import project_at, table_at
    from sordino.synth.rule_proposals import Proposal, count_violations, propose_rules, read_codebook
    from sordino.synth.rule_text import declared_rules

    stated = project_at(project)
    declared = stated.table(table)
    words = None if codebook is None else read_codebook(codebook)
    own = declared_rules(stated, declared.name)
    known = [Proposal(text, "declared", rule) for text, rule in zip(declared.rules, own, strict=True)]
    proposals = [p for p in propose_rules(declared.domain, codebook=words) if p.text not in declared.rules]
    proposals = [*known, *proposals]
    if not proposals:
        note("neither names nor the codebook suggest a rule; state those you know in [tables.NAME] rules", quiet=quiet)
        return
    losses = {"epsilon": epsilon, "delta": delta, "rho": rho}
    if all(amount is None for amount in losses.values()):
        for option, value in (("--spender", spender), ("--confidence", confidence)):
            if value is not None:
                raise DeclarationError(
                    f"{option} goes with --epsilon: without a loss nothing is charged and nothing counted"
                )
        _print(proposals, [""] * len(proposals))
        note("drafts, by names and words alone: keep those that you know to be true; --epsilon tests them", quiet=quiet)
        return
    curator = table_at(project, declared.name, spender=spender)
    release = count_violations(curator, [p.rule for p in proposals], **losses)
    (row,) = release.to_arrow(intervals=True, confidence=0.95 if confidence is None else confidence).to_pylist()
    counts = []
    for place in range(1, len(proposals) + 1):
        value, low, high = (float(row[f"rule_{place}{end}"]) for end in ("", "_lower", "_upper"))
        shown = f"{max(value, 0.0):,.0f}"
        rows = "row" if shown == "1" else "rows"
        counts.append(f"; broken in {shown} {rows} ({max(low, 0.0):,.0f} to {max(high, 0.0):,.0f})")
    _print(proposals, counts)
    for line in cost_lines(release):
        note(line, quiet=quiet and release.private, aside=False)


def _print(proposals: Sequence[Proposal], counts: Sequence[str]) -> None:
    from json import dumps

    say("rules = [")
    for proposal, count in zip(proposals, counts, strict=True):
        say(f"  {dumps(proposal.text, ensure_ascii=False)},  # {proposal.reason}{count}")
    say("]")
