"""`sordino demo`: the main job on a generated census, nothing else needed. Every line it prints really happened."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.shared.options import option
from sordino.cli.shared.terminal import INTERRUPTED, paint, say
from sordino.core.errors import DeclarationError, SordinoError

_JOBS = "SELECT occupation, COUNT(*) AS n FROM people WHERE education_num > 12 GROUP BY occupation"
_HOURS = "SELECT AVG(hours_per_week) AS hours FROM people"
_OLD = "SELECT sex, COUNT(*) AS n FROM people WHERE age > 64 GROUP BY sex"
# The steps before those in Python: a title, then command lines, each with options that are not shown.
_BEFORE = (
    (
        "2. Price a question, then ask it: nothing is read before the charge is on disk",
        ((f'sordino plan "{_JOBS}" --epsilon 0.25', "--quiet"), (f'sordino ask "{_JOBS}" --epsilon 0.25', "")),
    ),
)
# The same after the steps in Python.
_AFTER = (
    (
        "4. A budget is a promise: what it does not cover is refused, uncharged",
        (("sordino budget", "--quiet"), (f'sordino ask "{_HOURS}" --epsilon 1.75', "")),
    ),
    ("5. What did the first answer reveal about one person?", (("sordino explain c-0001", "--quiet"),)),
    (
        "6. Publish: a synthetic table, charged once; rows and answers from it are free",
        (
            ("sordino synth fit --columns age,sex,occupation --epsilon 0.5 -o people.model", ""),
            ("sordino synth sample people.model --rows 4", "--quiet"),
            (f'sordino synth answer people.model "{_OLD}"', "--quiet"),
        ),
    ),
    (
        "7. Collect: from people who trust no server, each answer noisy before it leaves the device",
        (("sordino local plan --size 12 --epsilon 1 --respondents 100000", ""),),
    ),
    (
        "8. How large may epsilon be? From a risk that people understand",
        (("sordino epsilon worlds --universe 1,2,3,10 --size 3 --query mean --risk 1/3", ""),),
    ),
)
# The seed of the people, who are public: the README's figures come out again, except for the noise.
_SEED = 2026
# The lines of the project file that are shown, and why they are there.
_DECLARED = {
    "cap =": "# the most that may ever be lost",
    "neighbors =": "# hides whether a person is in it at all",
    "privacy_unit =": "# a person is a row",
    "age =": "# public bounds",
}


def demo(
    context: typer.Context,
    keep: Annotated[Path | None, option("--keep", "DIR", "Keep the project in DIR; by default it is removed.")] = None,
    rows: Annotated[int, option("--rows", "N", "How many people to generate.")] = 30_000,
) -> None:
    """See it all on a generated census: declare, price, ask, look back, publish, collect, choose epsilon.

    It takes a few seconds and needs nothing else.
    """
    from sordino.lab.datasets.census import free_for_project

    if not 1 <= rows <= 100_000_000:
        raise DeclarationError("--rows must be from 1 to 100,000,000")
    if keep is not None:
        free_for_project(keep)
    here = Path.cwd()
    with open_place(keep) as directory:
        try:
            _declare(context, directory, rows)
            _run_all(context, _BEFORE)
            _ask_in_python(rows)
            _run_all(context, _AFTER)
        finally:
            os.chdir(here)
    _next(keep)


@contextmanager
def open_place(keep: Path | None) -> Iterator[Path]:
    """Give the directory to keep, or one that is removed together with the ledger's mark."""
    if keep is not None:
        yield keep
        return
    before = os.environ.get("SORDINO_STATE")
    with tempfile.TemporaryDirectory(prefix="sordino-demo-") as name:
        os.environ["SORDINO_STATE"] = str(Path(name) / "state")
        try:
            yield Path(name)
        finally:
            del os.environ["SORDINO_STATE"]
            if before is not None:
                os.environ["SORDINO_STATE"] = before


def _declare(context: typer.Context, directory: Path, rows: int) -> None:
    from sordino.core.noise.rng import Rng
    from sordino.lab.datasets.census import write_census_project

    _title(f"1. A table of {rows:,} invented people, and what is public about it")
    project = write_census_project(directory, rows, Rng.seeded(_SEED))
    for line in project.read_text(encoding="utf-8").splitlines():
        code = line.partition("#")[0].rstrip()
        why = next((words for start, words in _DECLARED.items() if code.startswith(start)), None)
        if why is not None:
            say(f"   {code:<26}  {paint(why, 'dim')}".rstrip())
    os.chdir(directory)
    _run(context, "sordino check")


def _ask_in_python(rows: int) -> None:
    import sordino as sd
    from sordino.core.loss import round_up

    _title("3. The same in Python")
    people = sd.connect("sordino.toml").table("people")
    say(paint('>>> people = sd.connect("sordino.toml").table("people")', "bold"))
    say(paint(f'>>> plan = people.plan(sd.mean("age"), epsilon=0.25, assume_rows={rows:_})', "bold"))
    plan = people.plan(sd.mean("age"), epsilon="0.25", assume_rows=rows)
    say(paint(">>> plan.error(0.95)                # free: an upper bound, from public facts", "bold"))
    say(round_up(plan.error(0.95), digits=2))
    answer = people.ask(plan)
    say(paint(">>> answer = people.ask(plan)       # charged once", "bold"))
    say(paint(">>> answer.value, answer.interval(0.95), people.remaining", "bold"))
    low, high = answer.interval(0.95)
    say(f"({answer.value:.4f}, ({low:.4f}, {high:.4f}), {people.remaining!r})")
    people.close()


def _next(keep: Path | None) -> None:
    _title("Try next")
    if keep is None:
        lines = [
            "sordino demo --keep census      # the same, kept",
            "cd census",
            f'sordino ask "{_HOURS}" --epsilon 0.1',
        ]
    else:
        lines = [f"cd {keep}", f'sordino ask "{_HOURS}" --epsilon 0.1', "sordino releases"]
    for line in lines:
        say(f"  {line}")


def _title(text: str) -> None:
    say()
    say(paint(text, "bold"))


def _run_all(context: typer.Context, chapters: Iterable[tuple[str, Iterable[tuple[str, str]]]]) -> None:
    for title, lines in chapters:
        _title(title)
        for line, more in lines:
            _run(context, line, more)


def _run(context: typer.Context, line: str, more: str = "") -> None:
    """Show a command line and run it, with `more` options; show a refusal as the command would."""
    say()
    for part in _fold(f"$ {line}"):
        say(paint(part, "green"))
    command = context.find_root().command
    try:
        ended = command.main(shlex.split(f"{line} {more}")[1:], prog_name="sordino", standalone_mode=False)
        # Typer returns the exit code of an interrupt when a command runs within another one
        if ended == INTERRUPTED:
            raise KeyboardInterrupt
    except SordinoError as error:
        for part in _fold(f"error: {error}"):
            say(part)
        say(paint(f"(exit code {error.exit_code})", "dim"))


def _fold(text: str) -> list[str]:
    """Return a command line in lines that fit, broken between words."""
    import textwrap

    return textwrap.wrap(text, 79, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
