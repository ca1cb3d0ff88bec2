"""`sordino learn serve`: the workbench over a generated census for a class, with a card for each student."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sordino.cli.shared.options import Force, Quiet, ends_in, option, refuse_existing
from sordino.cli.shared.terminal import note, say
from sordino.core.errors import DeclarationError

Students = Annotated[int, option("--students", "N", "How many students: an account and a budget for each.")]
Epsilon = Annotated[str, option("--epsilon", "E", "What each student may spend, on one budget of the class.")]
Seed = Annotated[
    int | None,
    option("--seed", "N", "The same census and the same noise for everybody in the room. NOT PRIVATE."),
]
Cards = Annotated[
    Path | None,
    typer.Option(
        "--cards",
        metavar="FILE.html",
        help="Write the accounts as cards to print, instead of printing them as lines.",
        callback=ends_in(".html", ".htm"),
    ),
]
Address = Annotated[
    str | None, option("--address", "URL", "The address on the cards, where browsers reach this machine by another.")
]


def serve_class(
    students: Students,
    epsilon: Epsilon,
    seed: Seed = None,
    cards: Cards = None,
    rows: Annotated[int, option("--rows", "N", "How many people to generate.")] = 30_000,
    host: Annotated[str, option("--host", "ADDRESS", "Where to listen; 0.0.0.0: to the whole network.")] = "127.0.0.1",
    port: Annotated[int, option("--port", "N", "The port to listen on.")] = 8000,
    address: Address = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Serve the pages over a generated census to a class until stopped: a budget a student, tasks, and an attack as the last.

    Nobody in the census exists, and no other table is served: there is no option that names one. The accounts are made at
    once; the census, the accounts and the ledger are gone when it stops.
    """
    from sordino.cli.learn.demo import open_place
    from sordino.cli.serve.serve_tables import need_server

    need_server()
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.local.collector.service import serve_app
    from sordino.serve.workbench.classroom import check_class, classroom_app, open_classroom, write_cards

    check_class(students=students, rows=rows)
    url = _address(address, host=host, port=port)
    if cards is not None:
        refuse_existing(cards, force=force)
    with open_place(None) as directory:
        classroom, made = open_classroom(directory, students=students, epsilon=epsilon, rows=rows, seed=seed)
        if cards is None:
            for card in made:
                say(f"{url}  {card.name} signs in with {card.password}; token {card.token}")
        else:
            with open_atomic(cards) as target:
                target.write(write_cards(made, address=url, epsilon=classroom.epsilon).encode())
            # It holds passwords.
            cards.chmod(0o600)
            note(f"wrote {len(made)} cards to {cards}; print them, then delete the file", quiet=quiet)
        if seed is not None:
            note("the noise is seeded: it hides nothing, and every answer says so", quiet=quiet)
        app = classroom_app(classroom)
        serve_app(
            app, host=host, port=port, ready=lambda: note(f"serving a class at {url}; stop with Ctrl-C", quiet=quiet)
        )


def _address(stated: str | None, *, host: str, port: int) -> str:
    """Return the address on the cards; raises DeclarationError where none can be told from where it listens."""
    if stated is not None:
        if not stated.startswith(("http://", "https://")):
            raise DeclarationError(f"--address must begin with http:// or https://, as http://192.168.1.7:{port}")
        return stated.rstrip("/")
    if host in ("0.0.0.0", "::"):
        raise DeclarationError(
            f"--host {host} listens to the whole network, so the cards need --address, as http://192.168.1.7:{port}"
        )
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
