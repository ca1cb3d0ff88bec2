"""`sordino demo`: the main job on a generated census, nothing else needed. Every line it prints really happened."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.shared.terminal import paint, say
from sordino.errors import DeclarationError, SordinoError

__all__ = ["demo"]

_JOBS = "SELECT occupation, COUNT(*) AS n FROM people WHERE education_num > 12 GROUP BY occupation"
_HOURS = "SELECT AVG(hours_per_week) AS hours FROM people"
_OLD = "SELECT sex, COUNT(*) AS n FROM people WHERE age > 64 GROUP BY sex"
_SEED = 2026  # of the people, who are public: what the README shows comes out again, but for the noise
_DECLARED = {  # the lines of the project file that are shown, and why they are there
    "cap =": "# the most that may ever be lost",
    "neighbors =": "# hides whether a person is in it at all",
    "privacy_unit =": "# a person is a row",
    "age =": "# public bounds",
}


def demo(
    keep: Annotated[
        Path | None,
        typer.Option(
            "--keep", metavar="DIR", help="Keep the project in DIR; without it, it is removed.", show_default=False
        ),
    ] = None,
    rows: Annotated[int, typer.Option("--rows", metavar="N", help="How many people to generate.")] = 30_000,
) -> None:
    """See it all on a generated census: declare, price, ask, look back, publish, collect, choose epsilon.

    A few seconds, nothing else needed.
    """
    from sordino.datasets.census import free_for_project

    if not 1 <= rows <= 100_000_000:
        raise DeclarationError("--rows must be from 1 to 100,000,000")
    if keep is not None:
        free_for_project(keep)
    with _place(keep) as directory:
        here = Path.cwd()
        try:
            _declare(directory, rows)
            _ask(rows)
            _look_back()
            _publish()
            _collect()
            _choose()
        finally:
            os.chdir(here)
    _next(keep)


@contextmanager
def _place(keep: Path | None) -> Iterator[Path]:
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


def _declare(directory: Path, rows: int) -> None:
    from sordino.cli.declare.check_project import check
    from sordino.datasets.census import write_census_project
    from sordino.noise.rng import Rng

    _title(f"1. A table of {rows:,} people that never were, and what is public about it")
    project = write_census_project(directory, rows, Rng.seeded(_SEED))
    for line in project.read_text(encoding="utf-8").splitlines():
        code = line.partition("#")[0].rstrip()
        why = next((words for start, words in _DECLARED.items() if code.startswith(start)), None)
        if why is not None:
            say(f"   {code:<26}  {paint(why, 'dim')}".rstrip())
    os.chdir(directory)
    _run("sordino check", check)


def _ask(rows: int) -> None:
    import sordino as sd
    from sordino.cli.ask.ask import ask
    from sordino.cli.ask.plan_question import plan
    from sordino.loss import round_up

    _title("2. Price a question, then ask it: nothing is read before the charge is on disk")
    _run(f'sordino plan "{_JOBS}" --epsilon 0.25', lambda: plan(_JOBS, epsilon="0.25", quiet=True))
    _run('sordino ask  "...the same..." --epsilon 0.25', lambda: ask(_JOBS, epsilon="0.25"))

    _title("3. The same in Python")
    people = sd.connect("sordino.toml").table("people")
    say(paint('>>> people = sd.connect("sordino.toml").table("people")', "bold"))
    say(paint(f'>>> plan = people.plan(sd.mean("age"), epsilon=0.25, assume_rows={rows:_})', "bold"))
    made = people.plan(sd.mean("age"), epsilon="0.25", assume_rows=rows)
    say(paint(">>> plan.error(0.95)                # free: an upper bound, from public facts", "bold"))
    say(round_up(made.error(0.95), digits=2))
    answer = people.ask(made)
    say(paint(">>> answer = people.ask(plan)       # charged once", "bold"))
    say(paint(">>> answer.value, answer.interval(0.95), people.remaining", "bold"))
    low, high = answer.interval(0.95)
    say(f"({answer.value:.4f}, ({low:.4f}, {high:.4f}), {people.remaining!r})")
    people.close()


def _look_back() -> None:
    from sordino.cli.ask.ask import ask
    from sordino.cli.ask.budget import budget
    from sordino.cli.ask.explain_release import explain

    _title("4. A budget is a promise: what it does not cover is refused, uncharged")
    _run("sordino budget", lambda: budget(quiet=True))
    _run(f'sordino ask "{_HOURS}" --epsilon 1.75', lambda: ask(_HOURS, epsilon="1.75"))

    _title("5. What did the first answer reveal about one person?")
    _run("sordino explain c-0001", lambda: explain("c-0001", quiet=True))


def _publish() -> None:
    from sordino.cli.synth.answer_question import synth_answer
    from sordino.cli.synth.fit_model import synth_fit
    from sordino.cli.synth.sample_rows import synth_sample

    columns, model = "age,sex,occupation", Path("people.model")
    _title("6. Publish: a synthetic table, paid for once; rows and answers from it are free")
    _run(
        f"sordino synth fit --columns {columns} --epsilon 0.5 -o people.model",
        lambda: synth_fit(model, epsilon="0.5", columns=columns),
    )
    _run("sordino synth sample people.model --rows 4", lambda: synth_sample(model, rows=4, quiet=True))
    _run(
        f'sordino synth answer people.model "{_OLD}"',
        lambda: synth_answer(model, sql=_OLD, quiet=True),
    )


def _collect() -> None:
    from sordino.cli.local.plan_collection import local_plan

    _title("7. Collect: from people who trust no server, each answer noisy before it leaves the device")
    _run(
        "sordino local plan --size 12 --epsilon 1 --respondents 100000",
        lambda: local_plan("1", respondents=100_000, size=12),
    )


def _choose() -> None:
    from sordino.cli.epsilon.assess_worlds import worlds

    _title("8. How large may epsilon be? From a risk that people understand")
    _run(
        "sordino epsilon worlds --universe 1,2,3,10 --size 3 --query mean --risk 1/3",
        lambda: worlds(["1,2,3,10"], size=3, query="mean", risk="1/3"),
    )


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


def _run(shown: str, step: Callable[[], None]) -> None:
    """Show a command line, run it, and show a refusal as the command would."""
    say()
    for line in _fold(f"$ {shown}"):
        say(paint(line, "green"))
    try:
        step()
    except SordinoError as error:
        for line in _fold(f"error: {error}"):
            say(line)
        say(paint(f"(exit code {error.exit_code})", "dim"))


def _fold(text: str) -> list[str]:
    """Return a command line in lines that fit, broken between words."""
    import textwrap

    return textwrap.wrap(text, 79, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
