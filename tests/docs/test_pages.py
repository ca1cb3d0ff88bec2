"""The pages: every link leads somewhere, every page is reached from the README, every name that they mention exists."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from pathlib import Path

import sordino as sd
from places import ROOT

PAGES = sorted(
    [
        *ROOT.glob("*.md"),
        *(ROOT / "clients").glob("*.md"),
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "bench" / "results").glob("*.md"),
    ]
)
FENCED = re.compile(r"^(```|~~~).*?^\1", flags=re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *#*$", flags=re.MULTILINE)


@functools.cache
def prose(page: Path) -> str:
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> Iterator[tuple[Path, str]]:
    """Yield the file and the anchor of each link of a page into the tree."""
    for link in LINK.findall(prose(page)):
        if not re.match(r"[a-z]+:", link):
            path, _, anchor = link.partition("#")
            yield ((page.parent / path).resolve() if path else page), anchor


@functools.cache
def anchors(page: Path) -> frozenset[str]:
    """Return the anchors of a page's headings, as forges and Python-Markdown make them."""
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in HEADING.findall(prose(page)))
    return frozenset(re.sub(r"[^\w\- ]", "", text).strip().lower().replace(" ", "-") for text in plain)


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target, anchor in links(page):
            assert target.exists(), f"{page.name} links to {target}, which is not there"
            if anchor and target.suffix == ".md":
                assert anchor in anchors(target), f"{page.name}: {target.name} has no #{anchor}"


def test_each_item_of_a_list_has_its_own_line() -> None:
    for page in PAGES:
        items = [line for line in prose(page).splitlines() if re.match(r" *- |  +\S", line)]
        assert [line for line in items if re.search(r"[.:;] - (\*\*|[A-Z`])|[.:;] -$", line)] == [], page


def test_every_page_is_reached_from_the_readme() -> None:
    reached, new = set(), {ROOT / "README.md"}
    while new:
        reached |= new
        new = {
            target for page in new for target, _ in links(page) if target.suffix == ".md" and target.exists()
        } - reached
    assert set((ROOT / "docs").rglob("*.md")) <= reached, sorted(set((ROOT / "docs").rglob("*.md")) - reached)


def test_names_on_the_pages_exist() -> None:
    """`sd.local.Unary` on a page is a name of the library: a page about a renamed thing fails here."""
    for page in PAGES:
        for dotted in re.findall(r"\bsd((?:\.[A-Za-z_]\w*)+)", page.read_text(encoding="utf-8")):
            found: object = sd
            for name in dotted[1:].split("."):
                assert hasattr(found, name), f"{page.name}: sd{dotted}"
                found = getattr(found, name)
                if isinstance(found, type) or callable(found):
                    break


def test_the_files_of_the_journey_of_a_question_exist() -> None:
    """The table in the page of decisions has seven stages; a file that moved fails here."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    table = page.partition("| stage | files |")[2].partition("\n\n")[0]
    stages = [line for line in table.splitlines()[2:] if line.startswith("|")]
    assert len(stages) == 7
    source = ROOT / "src" / "sordino"
    for stage in stages:
        paths = re.findall(r"`([\w/]+(?:\.py|/))`", stage)
        assert paths
        for path in paths:
            # a name alone stands in the folder of the file before it
            assert (source / path).exists() or (source / "ask" / "engines" / path).exists(), path
