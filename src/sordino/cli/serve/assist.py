"""`sordino mcp`: offer tables to an assistant as tools, under a share of its own. It parses, opens and listens."""

from __future__ import annotations

from typing import Annotated

import typer

from sordino.cli.shared.option_rules import goes_with
from sordino.cli.shared.options import option
from sordino.cli.shared.terminal import note
from sordino.core.errors import DeclarationError


def mcp(
    project: Annotated[
        str | None,
        typer.Argument(metavar="[sordino.toml]", help="The project file, or a server's address, https://..."),
    ] = None,
    account: Annotated[str | None, option("--account", "NAME", "Whose share of a project file is spent.")] = None,
    http: Annotated[bool, typer.Option("--http", help="Listen on a port, not on standard input.")] = False,
    port: Annotated[int, option("--port", "N", "With --http: the port to listen on."), goes_with("--http")] = 8001,
) -> None:
    """Offer tables to an assistant as tools (Model Context Protocol): tables, dummy, plan, ask, budget, explain.

    It spends the share of an account or, at a server, of the token in SORDINO_TOKEN, and waits for approvals.
    """
    try:
        from sordino.serve.assistant.backends import open_backend
        from sordino.serve.assistant.tools import listen_http, run_stdio
    except ImportError:
        raise DeclarationError("assistants need more packages: pip install 'sordino[mcp,serve]'") from None
    backend = open_backend(project, account)
    if http:
        listen_http(backend, port=port, say=lambda words: note(words, quiet=False))
    else:
        run_stdio(backend)
