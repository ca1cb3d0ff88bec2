"""The command `sordino`: its commands, grouped by what people want to do, and how errors end. It does no work itself."""

from __future__ import annotations

import functools
import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from sordino import __version__
from sordino.cli.ask.ask import ask
from sordino.cli.ask.audit_question import audit
from sordino.cli.ask.budget import budget
from sordino.cli.ask.ledger_commands import amend, backup, export, move, new, restore, verify
from sordino.cli.ask.past_releases import explain, releases, report, show
from sordino.cli.ask.plan_question import plan
from sordino.cli.ask.search_bounds import bounds, caps
from sordino.cli.ask.series import open_series, release_period, show_series
from sordino.cli.ask.tabulate import tabulate
from sordino.cli.declare.check_project import check
from sordino.cli.declare.import_table import import_table
from sordino.cli.declare.init import init
from sordino.cli.declare.make_dummy import dummy
from sordino.cli.epsilon.assess_worlds import worlds
from sordino.cli.epsilon.choose_interval import choose
from sordino.cli.learn.demo import demo
from sordino.cli.learn.print_grammar import sql
from sordino.cli.learn.run_attacks import attack
from sordino.cli.learn.sensitivity import sensitivity
from sordino.cli.learn.serve_class import draw_slides, serve_class
from sordino.cli.local.collect import close, estimate, export_reports, serve, token
from sordino.cli.local.plan_collection import local_plan
from sordino.cli.local.simulate_collection import local_simulate
from sordino.cli.local.tasks import create, keygen, show_task
from sordino.cli.models.fit_model import model_choose, model_fit, model_show
from sordino.cli.serve import manage_accounts as accounts
from sordino.cli.serve.assist import mcp
from sordino.cli.serve.serve_tables import ServeGroup, open_workbench, start
from sordino.cli.shared.option_rules import CheckedCommand
from sordino.cli.shared.terminal import INTERRUPTED, as_flag, paint
from sordino.cli.synth.fit_model import synth_fit
from sordino.cli.synth.plan_histogram import synth_plan
from sordino.cli.synth.propose_rules import synth_rules
from sordino.cli.synth.report_quality import synth_report
from sordino.cli.synth.use_model import synth_answer, synth_sample, synth_show
from sordino.core.errors import QuestionRefused, SordinoError
from sordino.core.text_table import plain

app = typer.Typer(
    name="sordino",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog="Exit codes: 2 usage or declaration, 3 the question is refused, 4 budget exhausted, 5 charged but failed.",
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"sordino {__version__}")
        raise typer.Exit


@app.callback()
def _about(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Ask a sensitive table questions; publish answers that hide each person."""
    del version


_COUNT = "SELECT COUNT(*) AS n FROM people WHERE age > 64"

_WORLDS = "--universe 1,2,3,10 --size 3 --query mean --risk 1/3"

_MEDIAN = "--universe 1,2,3,10,11 --size 3 --query median --within 1 --neighbors replace"

_TASK = (
    '--key collector.key --question "Which fruit?" --label apple --label pear --epsilon 1 --permanent-epsilon 2 '
    "--epoch 2026 --expires 2027-01-01 --origin https://survey.example -o fruit.json"
)

# Each command's name, function and example.
Commands = tuple[tuple[str, Callable[..., None], str], ...]

_PANELS: dict[str, Commands] = {
    "Declare": (
        ("init", init, "sordino init people.parquet"),
        ("check", check, "sordino check --project survey/sordino.toml"),
        ("import", import_table, "sordino import --header raw.csv people.parquet"),
        ("dummy", dummy, "sordino dummy --rows 500 -o practice.parquet"),
    ),
    "Ask": (
        ("plan", plan, f'sordino plan "{_COUNT}" --epsilon 0.5'),
        ("ask", ask, f'sordino ask "{_COUNT}" --epsilon 0.5 -o over64.json'),
        ("tabulate", tabulate, "sordino tabulate plan.toml -o tables"),
        ("bounds", bounds, "sordino bounds capital_gain --epsilon 1 --plot bounds.svg"),
        ("caps", caps, "sordino caps --epsilon 0.1 --plot caps.svg"),
        ("mcp", mcp, "sordino mcp sordino.toml --account bot"),
        ("workbench", open_workbench, "sordino workbench survey/sordino.toml"),
    ),
    "Look back": (
        ("budget", budget, "sordino budget --format json"),
        ("releases", releases, "sordino releases"),
        ("show", show, "sordino show c-0001 --format csv"),
        ("report", report, "sordino report -o board.html"),
    ),
    "Learn": (
        ("explain", explain, "sordino explain c-0001"),
        ("demo", demo, "sordino demo --keep census"),
        ("sql", sql, "sordino sql"),
        ("sensitivity", sensitivity, f"sordino sensitivity {_MEDIAN}"),
        ("audit", audit, f'sordino audit "{_COUNT}" --epsilon 0.5'),
        ("attack", attack, "sordino attack release --epsilon 1,10 -o board.html"),
    ),
}
_LEDGER: Commands = (
    ("verify", verify, "sordino ledger verify"),
    ("export", export, "sordino ledger export -o charges.jsonl"),
    ("amend", amend, 'sordino ledger amend --reason "the ethics board raised the cap"'),
    ("new", new, 'sordino ledger new --reason "the disk was lost, and no backup has it"'),
    ("backup", backup, "sordino ledger backup backups/2026-11-24"),
    ("restore", restore, 'sordino ledger restore backups/people.ledger --reason "the disk was lost"'),
    ("move", move, "sordino ledger move postgresql://db.example.org/ledgers#people"),
)
_COUNT_BY_WARD = "SELECT ward, COUNT(*) AS count FROM visits GROUP BY ward"
_SERIES: Commands = (
    ("open", open_series, f'sordino series open wards "{_COUNT_BY_WARD}" --over day --every day --rho 0.5'),
    ("release", release_period, "sordino series release wards 2026-11-24"),
    ("show", show_series, "sordino series show wards --from 2026-11-01 --to 2026-11-24"),
)
_EPSILON: Commands = (
    ("worlds", worlds, f"sordino epsilon worlds {_WORLDS}"),
    ("choose", choose, "sordino epsilon choose --attacker-prior 0.5 --max-posterior 0.75 --write"),
)
_LOCAL: Commands = (
    ("plan", local_plan, "sordino local plan --size 14 --epsilon 1 --respondents 100000"),
    ("simulate", local_simulate, "sordino local simulate --data adult.data --column occupation --epsilon 1"),
    ("keygen", keygen, "sordino local keygen -o collector.key"),
    ("token", token, "sordino local token --store reports.db --role respondent --count 100"),
    ("serve", serve, "sordino local serve fruit.json --store reports.db"),
    ("estimate", estimate, "sordino local estimate --store reports.db --format json"),
    ("close", close, "sordino local close --store reports.db --task fruit-2026"),
    ("export", export_reports, "sordino local export --store reports.db -o fruit.reports"),
)
_TASKS: Commands = (
    ("create", create, f"sordino local task create fruit-2026 {_TASK}"),
    ("show", show_task, "sordino local task show fruit.json --cap 2"),
)
_SERVE: Commands = (("start", start, "sordino serve sordino.toml"),)
_ACCOUNTS: Commands = (
    ("add", accounts.add_account, "sordino serve account add ana --role analyst"),
    ("list", accounts.list_accounts, "sordino serve account list"),
    ("disable", accounts.disable_account, "sordino serve account disable ana"),
    ("token", accounts.make_token, "sordino serve account token ana --name notebook"),
    ("password", accounts.set_password, "sordino serve account password ana"),
    ("share", accounts.set_share, "sordino serve account share ana --epsilon 0.5"),
)
_SYNTH: Commands = (
    ("plan", synth_plan, "sordino synth plan age,occupation --epsilon 1 --table adult"),
    ("fit", synth_fit, "sordino synth fit --table adult --epsilon 1 --delta 1e-9 -o adult.model"),
    ("rules", synth_rules, "sordino synth rules --table adult --codebook columns.csv"),
    ("sample", synth_sample, "sordino synth sample adult.model --rows 32561 -o adult.csv"),
    ("answer", synth_answer, 'sordino synth answer adult.model "SELECT COUNT(*) AS n FROM adult WHERE age > 64"'),
    ("report", synth_report, "sordino synth report adult.model --table adult --epsilon 0.1 -o report.html"),
    ("show", synth_show, "sordino synth show adult.model"),
)

_LEARN: Commands = (
    ("serve", serve_class, "sordino learn serve --students 24 --epsilon 1 --cards cards.html"),
    ("slides", draw_slides, "sordino learn slides lesson"),
)
_MODEL: Commands = (
    ("fit", model_fit, "sordino model fit linear_regression --y price --x area,zone --epsilon 1 -o price.model"),
    (
        "choose",
        model_choose,
        "sordino model choose naive_bayes logistic_regression --y new --x area,zone --validate 4 --epsilon 1 -o new.model",
    ),
    ("show", model_show, "sordino model show price.model"),
)


def _help(command: Callable[..., None]) -> str:
    """Return a command's docstring with each paragraph on one line, to be folded to the terminal."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(p.split()) for p in paragraphs)


def _add(group: typer.Typer, commands: Commands, *, panel: str | None = None) -> None:
    for name, command, example in commands:
        epilog = f"Example: {example}"
        add = group.command(name, cls=CheckedCommand, rich_help_panel=panel, help=_help(command), epilog=epilog)
        add(command)


def _add_group(
    parent: typer.Typer, name: str, commands: Commands, *, help: str, panel: str | None = None
) -> typer.Typer:
    group = typer.Typer(name=name, rich_markup_mode="rich", help=help, no_args_is_help=True)
    _add(group, commands)
    parent.add_typer(group, rich_help_panel=panel)
    return group


for _panel, _commands in _PANELS.items():
    _add(app, _commands, panel=_panel)
_add_group(
    app,
    "ledger",
    _LEDGER,
    help="Verify, export, amend, back up, restore, replace or move the ledger.",
    panel="Look back",
)
_add_group(
    app, "series", _SERIES, help="Release a number a day, or a week, for years: one charge for all.", panel="Ask"
)
_add_group(app, "epsilon", _EPSILON, help="Choose epsilon from requirements that people understand.", panel="Learn")
_add_group(
    app,
    "learn",
    _LEARN,
    help="Teach a class: accounts, tasks and an attack on a generated census; slides.",
    panel="Learn",
)
_local = _add_group(app, "local", _LOCAL, help="Collect answers without a trusted server.", panel="Ask")
_add_group(_local, "task", _TASKS, help="Sign what a collector asks, or check it.")
_serve = _add_group(app, "serve", _SERVE, help="Serve tables to accounts over the network.", panel="Ask")
_serve.info.cls = ServeGroup
_add_group(_serve, "account", _ACCOUNTS, help="Manage the server's accounts: who may ask, and what each may spend.")
_add_group(app, "model", _MODEL, help="Fit a regression, a classifier, components or clusters.", panel="Ask")
_add_group(app, "synth", _SYNTH, help="Publish a synthetic table, or ask its model.", panel="Ask")


@functools.cache
def _command() -> Callable[..., object]:
    """Return all commands as one, built once a process."""
    return typer.main.get_command(app).main


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code; every error is one line on standard error, without data."""
    _escape_unprintable()
    if arguments is None:
        _leave_out_pandas()
    try:
        code = _run(sys.argv[1:] if arguments is None else list(arguments))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        return _end_unread()
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: list[str]) -> int:
    try:
        ended = _command()(args=arguments, prog_name="sordino", standalone_mode=False)
        return ended if isinstance(ended, int) else 0
    except SordinoError as error:
        return _print_error(refused_in_sql(error).spelled(as_flag), error.exit_code)
    except typer.Abort:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except SystemExit as end:
        # This is Typer's way to end when the output pipe is closed.
        if isinstance(end.__context__, BrokenPipeError):
            raise end.__context__ from None
        return end.code if isinstance(end.code, int) else 1
    except Exception as error:
        describe = getattr(error, "format_message", None)
        if describe is not None:
            return _end_misuse(error, str(describe()))
        return _end_unexpected(error)


def refused_in_sql(error: SordinoError) -> SordinoError:
    """Return a refusal in the words of SQL, which is what the command line asks in."""
    return error.in_sql() if isinstance(error, QuestionRefused) else error


def _end_misuse(error: Exception, message: str) -> int:
    """End after a command line that cannot be read; without any words it asked for help."""
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoArgsIsHelpError":
        print(message)
        return 2
    path = getattr(context, "command_path", "sordino")
    message = message.replace("Value error, ", "").rstrip(".")
    owners = _find_owners(str(getattr(error, "option_name", "")), context)
    if owners:
        message += f"; {' and '.join(owners)} {'has' if len(owners) == 1 else 'have'} it"
    return _print_error(f"{message}; `{path} --help` shows how", 2)


def _find_owners(option: str, context: Any) -> list[str]:
    """Return the commands of sordino itself that have an option which another lacks, where they are one or two."""
    commands = getattr(getattr(getattr(context, "parent", None), "command", None), "commands", {})
    owners = [
        f"`sordino {name}`"
        for name, command in commands.items()
        if option and any(option in getattr(parameter, "opts", ()) for parameter in command.params)
    ]
    return owners if len(owners) <= 2 else []


def _end_unexpected(error: Exception) -> int:
    """End after an unexpected error; its text may hold data, so it is hidden unless asked for."""
    if os.environ.get("SORDINO_DEBUG") == "1":
        import traceback

        traceback.print_exception(error)
    rule = "unexpected error; details are hidden because they may contain data"
    return _print_error(f"{rule}. SORDINO_DEBUG=1 shows them, to the curator only", 1)


def _print_error(message: str, code: int) -> int:
    line = " ".join(plain(message).split("\n"))
    print(f"{paint('error:', 'red', sys.stderr)} {line}", file=sys.stderr)
    return code


def _end_unread() -> int:
    """End quietly when the output pipe is closed, as in `sordino ask ... | head -1`."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 141


def _leave_out_pandas() -> None:
    """Keep pyarrow from importing pandas with the first array: no command uses it, and a first answer would take a third longer.

    Only for a process that is this command line: in Python, `Release.to_pandas` and frames as tables need it.
    """
    if "pandas" not in sys.modules:
        sys.meta_path.insert(0, _WithoutPandas())


class _WithoutPandas:
    """Finds that pandas is not installed.

    `sys.modules["pandas"] = None` would say so too, but pyarrow's compiled import takes that None for pandas.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        """Refuse pandas, and leave every other module to the finders that follow."""
        del path, target
        if name == "pandas":
            raise ModuleNotFoundError("the command line does without pandas", name=name)


def _escape_unprintable() -> None:
    """Let no declared name stop an answer because a terminal cannot show it."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
