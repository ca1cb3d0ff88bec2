"""One self-contained page for a board: why noise is needed, and that it works. All words are escaped, nothing is loaded."""

from __future__ import annotations

from typing import Any

from sordino.reporting.picture import render


def attack_page(attacks: Any) -> str:
    """Return the page of several attacks as HTML, A4 when printed; its policy forbids the browser to load or run anything."""
    private = [r.achieved - r.allowed for one in attacks.attacks for r in one.results if r.epsilon is not None]
    return render("attack.html", found=attacks, within=sum(x <= 0 for x in private), private=len(private))
