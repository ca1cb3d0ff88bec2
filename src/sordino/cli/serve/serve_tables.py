"""`sordino serve`: serve the tables of a project over HTTP, to accounts. It parses, opens and listens."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from sordino.cli.shared.option_rules import not_with
from sordino.cli.shared.options import Quiet, option
from sordino.cli.shared.terminal import note, say
from sordino.core.errors import DeclarationError

if TYPE_CHECKING:
    from typer._click.core import Context

ProjectFile = Annotated[
    Path | None, typer.Argument(metavar="[sordino.toml]", help="The project file; without it, the one here or above.")
]


class ServeGroup(TyperGroup):
    """Take `sordino serve FILE` for `sordino serve start FILE`."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Put the command in front of arguments that name none."""
        if not args or (args[0] not in self.commands and args[0] not in ctx.help_option_names):
            args = ["start", *args]
        return super().parse_args(ctx, args)


def need_server() -> None:
    """Raise DeclarationError where what the server is made of is not installed."""
    try:
        import sordino.serve.server.opening  # noqa: F401
    except ImportError:
        raise DeclarationError("the server needs more packages: pip install 'sordino[serve]'") from None


def start(
    project: Annotated[ProjectFile, not_with("--demo")] = None,
    host: Annotated[str, option("--host", "ADDRESS", "Where to listen.")] = "127.0.0.1",
    port: Annotated[int, option("--port", "N", "The port to listen on.")] = 8000,
    demo: Annotated[bool, typer.Option("--demo", help="Serve a generated census, with three accounts.")] = False,
    postgres_port: Annotated[
        int | None, option("--postgres-port", "N", "The port for SQL clients (psql, psycopg, ...), if any.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Serve the tables of a project until stopped (SIGINT, SIGTERM): accounts ask, an officer decides, shares are spent.

    TLS is the job of a reverse proxy: see docs/server.md.
    """
    from sordino.cli.learn.demo import open_place
    from sordino.cli.shared.opening import project_path

    need_server()
    from sordino.local.collector.service import serve_app
    from sordino.serve.server.census_demo import open_census_demo
    from sordino.serve.server.logs import log_note, write_log
    from sordino.serve.server.opening import open_service
    from sordino.serve.server.sql_wire.wire_server import serving_sql
    from sordino.serve.workbench.workbench_app import workbench_app

    with ExitStack() as stack:
        if demo:
            service, people = open_census_demo(stack.enter_context(open_place(None)))
            for name, (role, password) in people.items():
                say(f"http://{host}:{port}/  {name} ({role}) signs in with {password}")
        else:
            service = open_service(project_path(project))
        form = "off" if quiet else service.settings.log
        write_log(form)
        # A log of JSON has no other lines.
        tell = log_note if form == "json" else partial(note, quiet=quiet)
        if not service.account_service.accounts.all():
            tell("no accounts yet: sordino serve account add NAME --role officer")
        if not service.settings.answer_every:
            tell(
                "answers leave when they are ready (answer_every): who measures the time learns how long the work took"
            )
        place = stack.enter_context(serving_sql(service, host=host, port=postgres_port))
        also = "" if place is None else f", SQL clients at {place}"
        listening = f"serving at http://{host}:{port}{also}; stop with Ctrl-C"
        app = workbench_app(service)
        if service.store.note is not None:
            tell(service.store.note)
        serve_app(app, host=host, port=port, ready=lambda: tell(listening))


def open_workbench(
    project: ProjectFile = None,
    port: Annotated[int, option("--port", "N", "The port on this machine.")] = 8400,
) -> None:
    """Serve the pages of a project on this machine only, for one person without accounts, until stopped.

    It prints a link that signs in one browser, once; Ctrl-C stops it. Questions are charged as by `sordino ask`.
    """
    from sordino.cli.shared.opening import project_path

    need_server()
    from sordino.serve.workbench.local_service import serve_owner

    serve_owner(project_path(project), port=port, show=lambda link: print(link, flush=True), tell=note)
