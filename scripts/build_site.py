"""Build the site into build/site: docs/, bench/results/, every public name and command, SQL, theorems, and search.

`make docs` runs it. Pages are gathered in build/site-pages. A broken link, or anything loaded from elsewhere, fails.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import os
import pkgutil
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from build_changelog import write_changelog

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
PAGES = ROOT / "build" / "site-pages"
SITE = ROOT / "build" / "site"
ROOMS = (
    "sordino",
    "sordino.synth",
    "sordino.local",
    "sordino.risk",
    "sordino.sensitivity",
    "sordino.datasets",
    "sordino.errors",
)
FROM_ROOT = {  # file beside docs/: its page in the site
    "README.md": "start.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "clients/wire.md": "wire.md",
}
ELSEWHERE = re.compile(
    r"""<(?:script|img|iframe|source)[^>]+src=["']?(?:https?:)?//|<link(?![^>]+rel=["']?(?:canonical|next|prev))"""
    r"""[^>]+href=["']?(?:https?:)?//|@import\s+["'(]*(?:https?:)?//|url\(["']?(?:https?:)?//"""
)


STYLE = """/* Wider pages and smaller code, so that lines of code and help fit. */
.md-grid { max-width: 80rem }
.md-typeset pre > code { font-size: .62rem }
"""


def gather_pages() -> None:
    """Copy docs/ and the pages beside it, with links that fit their new places."""
    shutil.rmtree(PAGES, ignore_errors=True)
    shutil.copytree(ROOT / "docs", PAGES)
    shutil.copytree(RESULTS, PAGES / "results")
    (PAGES / "site.css").write_text(STYLE, encoding="utf-8")
    for name, page in FROM_ROOT.items():
        if (ROOT / name).exists():
            (PAGES / page).write_text((ROOT / name).read_text(encoding="utf-8"), encoding="utf-8")
            move_links(PAGES / page, (ROOT / name).parent)
    (PAGES / "changelog.md").write_text(write_changelog(), encoding="utf-8")
    move_links(PAGES / "changelog.md", ROOT)
    for source in (ROOT / "docs", RESULTS):
        for page in source.rglob("*.md"):
            move_links(place_in_site(page), page.parent)


def place_in_site(file: Path) -> Path:
    """Return where the site has a file of docs/ or of the measured tables."""
    if file.is_relative_to(RESULTS):
        return PAGES / "results" / file.relative_to(RESULTS)
    return PAGES / file.relative_to(ROOT / "docs")


def move_links(page: Path, here: Path) -> None:
    """Point the links of a page that was written in the folder `here` to its new neighbors.

    A link to a file of the source becomes its name alone.
    """

    def move(link: re.Match[str]) -> str:
        words, target = link[1], link[2]
        path, mark, anchor = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return link[0]
        file = (here / path).resolve()
        if file.is_relative_to(ROOT / "docs") or file.is_relative_to(RESULTS):
            there = place_in_site(file)
        elif file.is_relative_to(ROOT) and str(file.relative_to(ROOT)) in FROM_ROOT:
            there = PAGES / FROM_ROOT[str(file.relative_to(ROOT))]
        else:
            return f"{words[1:] if words.startswith('!') else words}"[1:-1] + f" (`{file.relative_to(ROOT)}`)"
        return f"{words}({os.path.relpath(there, page.parent)}{mark}{anchor})"

    text = page.read_text(encoding="utf-8")
    page.write_text(re.sub(r"(!?\[[^\]]*\])\(([^)\s]+)\)", move, text), encoding="utf-8")


def write_names() -> list[tuple[str, str]]:
    """Write a page for each room: every public name with its signature, its docstring and its source."""
    (PAGES / "api").mkdir()
    pages = []
    for room in ROOMS:
        module = importlib.import_module(room)
        short = room.replace("sordino.", "sd.") if "." in room else "sd"
        lines = [f"# {room}", "", inspect.getdoc(module) or "", ""]
        for name in public_names(room):
            lines += [*describe_name(getattr(module, name), f"{short}.{name}"), ""]
        page = f"api/{room.rpartition('.')[2]}.md"
        (PAGES / page).write_text("\n".join(lines), encoding="utf-8")
        pages.append((short, page))
    return pages


def public_names(room: str) -> list[str]:
    """Return the public names of a room that are not rooms themselves."""
    module = importlib.import_module(room)
    return [name for name in sorted(module.__all__, key=str.lower) if not inspect.ismodule(getattr(module, name))]


def describe_name(value: object, shown: str) -> list[str]:
    """Return the lines of one name: for mkdocstrings where it is a class or a function, else its value."""
    if inspect.isclass(value) or inspect.isroutine(value):
        options = {"heading": shown, "toc_label": shown, "heading_level": 2}
        return [
            f"::: {value.__module__}.{value.__qualname__}",
            "    options:",
            *(f"      {k}: {v}" for k, v in options.items()),
        ]
    return [f"## {shown}", "", f"`{value!r}`"]


def write_theorems() -> str:
    """Write the page of mechanisms: the theorem of each in its docstring, beside its code."""
    import sordino.core.mechanisms

    lines = [
        "# Theorems by mechanism",
        "",
        "Each mechanism states what it promises, with the paper and the section, and its code stands below it.",
        "",
    ]
    for found in pkgutil.iter_modules(sordino.core.mechanisms.__path__):
        lines += [
            f"## {found.name.replace('_', ' ')}",
            "",
            f"::: sordino.core.mechanisms.{found.name}",
            "    options:",
            "      show_root_heading: false",
            "",
        ]
    (PAGES / "theorems.md").write_text("\n".join(lines), encoding="utf-8")
    return "theorems.md"


def write_commands() -> str:
    """Write the page of commands, each from its own --help."""
    lines = ["# Commands, from their own help", ""]
    for words in [(), *list_commands()]:
        shown = " ".join(("sordino", *words))
        lines += [f"## {shown}" if words else "## sordino --help", "", "```text", read_help(words), "```", ""]
    (PAGES / "commands.md").write_text("\n".join(lines), encoding="utf-8")
    return "commands.md"


def write_sql() -> str:
    """Write the page of SQL that `sordino sql` prints."""
    from sordino.ask.queries.sql.grammar import page

    (PAGES / "sql.md").write_text(page(), encoding="utf-8")
    return "sql.md"


def list_commands() -> Iterator[tuple[str, ...]]:
    """Yield the words of each command, in the order of the program's own list."""
    import typer.main

    from sordino.cli.main import app

    def walk(command: object, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        for name, inner in getattr(command, "commands", {}).items():
            if hasattr(inner, "commands"):
                yield from walk(inner, (*words, name))
            else:
                yield (*words, name)

    yield from walk(typer.main.get_command(app), ())


def read_help(words: tuple[str, ...]) -> str:
    """Return what `sordino WORDS --help` prints on a terminal of 92 columns without colors."""
    plain = {**os.environ, "COLUMNS": "92", "TERMINAL_WIDTH": "92", "NO_COLOR": "1", "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-m", "sordino", *words, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=plain)
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines())


def make_navigation(names: list[tuple[str, str]], theorems: str, commands: str, sql: str) -> list[object]:
    """Return the navigation: the headings and links of docs/index.md, then what was written here."""
    nav: list[object] = [{"Sordino": "index.md"}, {"In ten minutes": "start.md"}]
    text = (PAGES / "index.md").read_text(encoding="utf-8")
    for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        links = dict.fromkeys(re.findall(r"\]\(([^)#]+\.md)\)", body))
        nav.append({title.strip(): [page for page in links if page != "start.md"]})
    written = [{"Theorems": theorems}, {"Commands' help": commands}, {"The SQL that is read": sql}]
    nav.append({"Reference": [*written, *({short: page} for short, page in names)]})
    nav.append({"Evidence": [f"results/{page.name}" for page in sorted(RESULTS.glob("*.md"))]})
    beside = [page for page in FROM_ROOT.values() if page != "start.md" and (PAGES / page).exists()]
    nav.append({"Project": ["changelog.md", *beside]})
    return nav


def list_requests_elsewhere(site: Path) -> list[str]:
    """Return the pages and files of a site that would make a browser load something from another host."""
    files = [file for ending in ("*.html", "*.css") for file in sorted(site.rglob(ending))]
    return [
        str(file.relative_to(site))
        for file in files
        if ELSEWHERE.search(file.read_text(encoding="utf-8", errors="replace"))
    ]


def read_address(project: str) -> dict[str, str]:
    """Return the site's own address in project.urls as a setting; none until it is filled in.

    The theme would ask a forge's server for figures if it knew the repository, and the site asks nobody for anything.
    """
    urls = tomllib.loads(project)["project"]["urls"]
    return {"site_url": urls["Documentation"]} if "Documentation" in urls else {}


def main() -> int:
    """Gather, write and build; return 1 where a page would load anything from elsewhere."""
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    logging.basicConfig(level=logging.WARNING, format="%(levelname)s: %(message)s")
    gather_pages()
    nav = make_navigation(write_names(), write_theorems(), write_commands(), write_sql())
    build(load_config(str(ROOT / "mkdocs.yml"), nav=nav, **read_address((ROOT / "pyproject.toml").read_text("utf-8"))))
    loud = list_requests_elsewhere(SITE)
    for page in loud:
        print(f"{page} loads something from elsewhere", file=sys.stderr)
    place = SITE.relative_to(ROOT)
    print(f"{len(list(SITE.rglob('*.html')))} pages in {place}; open {place}/index.html")
    print(f"to search as well: python -m http.server --bind 127.0.0.1 --directory {place}")
    return 1 if loud else 0


if __name__ == "__main__":
    raise SystemExit(main())
