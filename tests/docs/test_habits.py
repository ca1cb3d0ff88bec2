"""The project's habits: one version, a change log out of the notes, records of ten lines, a workflow that names what exists."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib

import sordino as sd
from places import ROOT


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/sordino/__init__.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+", sd.__version__)
    assert f"\nversion: {sd.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_public_addresses_stand_in_one_place() -> None:
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    assert set(urls) <= {"Repository", "Documentation"}
    for name in ("mkdocs.yml", "CITATION.cff"):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"^(site_url|repo_url|url|repository-code):", text, flags=re.MULTILINE), name
    assert "[project.urls]" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_change_log_holds_every_note() -> None:
    code = "import sys; sys.path.insert(0, 'scripts'); import build_changelog; print(build_changelog.write_changelog())"
    made = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    notes = sorted((ROOT / "changes").glob("[0-9]*.md"))
    assert len(re.findall(r"^### ", made, flags=re.MULTILINE)) == len(notes)
    numbers = [int(found) for found in re.findall(r"^## (\d+)$", made, flags=re.MULTILINE)]
    assert numbers == sorted({int(note.name[:4]) for note in notes}, reverse=True)
    for note in notes:
        assert note.read_text(encoding="utf-8").strip().splitlines()[0].lstrip("# ").replace("](../", "](") in made


def test_the_share_of_lines_that_ran_is_that_of_the_page_that_make_coverage_writes() -> None:
    page = (ROOT / "bench" / "results" / "line-coverage.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\S.*?) \| ([\d,]+) \| ([\d,]+) \| ([\d.]+)% \|$", page, flags=re.MULTILINE)
    counts = {name: (int(statements.replace(",", "")), int(ran.replace(",", ""))) for name, statements, ran, _ in rows}
    total = counts.pop("all")
    assert total == (sum(s for s, _ in counts.values()), sum(r for _, r in counts.values()))
    packages = {f"`{file.parent.name}/`" for file in (ROOT / "src" / "sordino").glob("*/__init__.py")}
    assert packages <= set(counts)
    shares = {
        name: f"{ran * 1000 // statements / 10:.1f}" for name, (statements, ran) in {**counts, "all": total}.items()
    }
    assert shares == {name: share for name, _, _, share in rows}
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"The quick tests run {shares['all']}% of the lines" in readme
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "--cov-report=json:build/coverage.json" in makefile
    assert "scripts/record_coverage.py build/coverage.json" in makefile


def test_decisions_are_short_and_listed() -> None:
    records = sorted((ROOT / "docs" / "decisions").glob("[0-9]*.md"))
    listed = (ROOT / "docs" / "decisions" / "README.md").read_text(encoding="utf-8")
    for number, record in enumerate(records, 1):
        text = record.read_text(encoding="utf-8")
        assert record.name.startswith(f"{number:04d}-")
        assert f"]({record.name})" in listed
        assert len(text.splitlines()) <= 14
        assert all(word in text for word in ("**Question.**", "**Decision.**", "**What follows.**"))


def test_the_workflow_runs_targets_that_exist() -> None:
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"make ([a-z-]+)", workflow))
    assert {"test", "docs", "release", "lint"} <= targets
    assert all(re.search(rf"^{target}:", makefile, flags=re.MULTILINE) for target in targets)
    for path in re.findall(r"\btests/\S+", workflow):
        assert (ROOT / path).exists(), path
    assert all(f'"3.{minor}"' in workflow for minor in (11, 12, 13, 14))
