"""Check a wheel and a source archive: names, contents, and that the wheel works in a fresh environment. `make release` runs it.

python scripts/check_release.py dist
"""

from __future__ import annotations

import email
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IN_WHEEL = (
    "sordino/py.typed",
    "sordino/collector/page/sordino.js",
    "sordino/reporting/templates/",
    "sordino/serve/workbench/pages/",
)
IN_SOURCE = (
    "LICENSE",
    "README.md",
    "CHANGELOG.md",
    "constraints.txt",
    "tests/test_architecture.py",
    "docs/index.md",
    "src/sordino/__init__.py",
)
NEVER = re.compile(r"\.ledger|\.model$|__pycache__|/\.venv/|adult\.data|\.key$")


def check(condition: object, words: str) -> None:
    """Stop with the words where a condition does not hold."""
    if not condition:
        raise SystemExit(f"not fit to release: {words}")


def read_version() -> str:
    """Return the version that the source states."""
    found = re.search(
        r'^__version__ = "(\d+\.\d+\.\d+)"$', (ROOT / "src/sordino/__init__.py").read_text(encoding="utf-8"), re.M
    )
    check(found, "__version__ is not three numbers")
    assert found is not None
    return found[1]


def check_wheel(wheel: Path, version: str) -> None:
    """Check what lies in the wheel and what its metadata say."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        about = email.message_from_bytes(archive.read(f"sordino-{version}.dist-info/METADATA"))
    for wanted in IN_WHEEL:
        check(any(name.startswith(wanted) for name in names), f"the wheel lacks {wanted}")
    check(
        all(name.startswith(("sordino/", f"sordino-{version}.dist-info/")) for name in names),
        "the wheel has files outside sordino/",
    )
    check(not any(NEVER.search(name) for name in names), "the wheel has files that belong to a machine")
    check(about["Version"] == version, "the wheel is of another version")
    check("differential privacy" in str(about.get_payload()).lower(), "the wheel's description is not the README")


def check_source(archive: Path, version: str) -> None:
    """Check what lies in the source archive."""
    with tarfile.open(archive) as files:
        names = {name.removeprefix(f"sordino-{version}/") for name in files.getnames()}
    for wanted in IN_SOURCE:
        check(wanted in names, f"the source archive lacks {wanted}")
    check(not any(NEVER.search(name) for name in names), "the source archive has files that belong to a machine")


def try_wheel(wheel: Path, version: str) -> None:
    """Install the wheel in a fresh environment, and run what the README runs first."""
    with tempfile.TemporaryDirectory(prefix="sordino-release-") as place:
        venv.create(place, with_pip=True)
        python = Path(place, "bin", "python")
        subprocess.run(
            [python, "-m", "pip", "install", "-qq", "-c", ROOT / "constraints.txt", wheel.resolve()], check=True
        )
        said = subprocess.run(
            [Path(place, "bin", "sordino"), "--version"], cwd=place, capture_output=True, text=True, check=True
        )
        check(version in said.stdout, "sordino --version says something else")
        subprocess.run([Path(place, "bin", "sordino"), "demo"], cwd=place, check=True, stdout=subprocess.DEVNULL)


def main() -> None:
    """Check all of a directory."""
    dist, version = Path(sys.argv[1]), read_version()
    wheels, sources = list(dist.glob("*.whl")), list(dist.glob("*.tar.gz"))
    check([w.name for w in wheels] == [f"sordino-{version}-py3-none-any.whl"], f"one wheel of {version} is wanted")
    check([s.name for s in sources] == [f"sordino-{version}.tar.gz"], f"one source archive of {version} is wanted")
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    check(f"\nversion: {version}\n" in cited, "CITATION.cff is of another version")
    check_wheel(wheels[0], version)
    check_source(sources[0], version)
    try_wheel(wheels[0], version)
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["urls"]
    if not {"Repository", "Documentation"} <= set(urls):
        print(
            "it has no public address yet: fill in Repository and Documentation under [project.urls] in pyproject.toml"
        )
    print(f"{wheels[0].name} and {sources[0].name} are fit to release")


if __name__ == "__main__":
    main()
