"""The site: its pages and navigation are complete and loud about nothing; `make docs` builds it, with every link checked."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

import sordino as sd
from places import ROOT
from sordino import local


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("build_site", ROOT / "scripts" / "build_site.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "build_site", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "PAGES", tmp_path / "site-pages")
    return module


def test_every_page_and_public_name_is_in_it(site: ModuleType) -> None:
    site.gather_pages()
    nav = str(site.make_navigation(site.write_names(), site.write_theorems(), "commands.md", site.write_sql()))
    for page in set((ROOT / "docs").rglob("*.md")) - set((ROOT / "docs" / "decisions").glob("[0-9]*.md")):
        assert f"'{page.relative_to(ROOT / 'docs')}'" in nav, f"link {page.name} in docs/index.md"
    for room, file, short in ((sd, "sordino", "sd"), (local, "local", "sd.local")):
        text = (site.PAGES / "api" / f"{file}.md").read_text(encoding="utf-8")
        for name in site.public_names(room.__name__):
            assert f"{short}.{name}\n" in text
    assert (site.PAGES / "sql.md").read_text(encoding="utf-8").startswith("# SQL: what is read")
    assert "sordino.core.mechanisms.sparse_vector" in (site.PAGES / "theorems.md").read_text(encoding="utf-8")


def test_links_follow_their_pages(site: ModuleType) -> None:
    site.gather_pages()
    start = (site.PAGES / "start.md").read_text(encoding="utf-8")
    assert "(synth.md)" in start
    assert "](docs/" not in start
    assert "(../questions.md)" in (site.PAGES / "guides" / "curator.md").read_text(encoding="utf-8")
    assert "(start.md)" in (site.PAGES / "index.md").read_text(encoding="utf-8")


def test_the_first_page_has_an_example_a_picture_and_four_paths(site: ModuleType) -> None:
    site.gather_pages()
    first, _, rest = (site.PAGES / "index.md").read_text(encoding="utf-8").partition("\n## ")
    for words in ("pip install .", "sordino ask", "](jobs.svg)", "(guides/curator.md)", "(guides/publisher.md)"):
        assert words in first
    assert "(guides/collector.md)" in first
    assert "(guides/privacy-officer.md)" in first
    assert (site.PAGES / "jobs.svg").exists()
    assert rest.startswith("Start")


@pytest.mark.parametrize("word", ["Excel", "margins", "backup"])
def test_what_people_search_for_is_on_a_page(site: ModuleType, word: str) -> None:
    """The search of the site knows every word of every page in the navigation."""
    site.gather_pages()
    pages = [page for page in site.PAGES.glob("*.md") if page.name != "changelog.md"]
    assert any(word.lower() in page.read_text(encoding="utf-8").lower() for page in pages)


def test_the_site_takes_its_address_from_the_project(site: ModuleType) -> None:
    filled = '[project.urls]\nRepository = "https://forge.example/sordino"\nDocumentation = "https://sordino.example"\n'
    assert site.read_address(filled) == {"site_url": "https://sordino.example"}
    assert site.read_address("[project.urls]\n") == {}


@pytest.mark.deep
def test_commands_are_found(site: ModuleType) -> None:
    found = list(site.list_commands())
    assert {("ask",), ("synth", "fit"), ("local", "task", "create")} <= set(found)
    assert "sordino ask" in site.read_help(("ask",))


@pytest.mark.parametrize(
    ("text", "loud"),
    [
        ('<script src="https://cdn.example/x.js"></script>', True),
        ('<link rel="stylesheet" href="//fonts.example/css">', True),
        ("@import url(https://fonts.example/x.css);", True),
        ('<a href="https://archive.ics.uci.edu">data</a><script src="assets/x.js"></script>', False),
        ('<link rel="canonical" href="https://sordino.example/">', False),
    ],
)
def test_what_is_loaded_from_elsewhere_is_seen(site: ModuleType, tmp_path: Path, text: str, loud: bool) -> None:
    (tmp_path / "page.html").write_text(text, encoding="utf-8")
    assert site.list_requests_elsewhere(tmp_path) == (["page.html"] if loud else [])
