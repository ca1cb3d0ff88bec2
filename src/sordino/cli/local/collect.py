"""`sordino local serve`, `token`, `estimate`, `close` and `export`: a collector and its store. They see reports only."""

from __future__ import annotations

import csv
import json
import sys
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sordino.cli.local.tasks import task_in
from sordino.cli.shared.options import Confidence, ListForm, ListFormat, PictureFile, Quiet, ends_in, option
from sordino.cli.shared.terminal import note, say
from sordino.core.errors import DeclarationError
from sordino.core.text_table import columns_of

if TYPE_CHECKING:
    from sordino.local.collector.report_store import Store

StoreUrl = Annotated[str, option("--store", "STORE", "A file, sqlite:///PATH or postgresql://USER@HOST/NAME.")]
TaskName = Annotated[str | None, option("--task", "NAME", "The task, if the store has several.")]
Role = StrEnum("Role", "respondent admin")


def serve(
    tasks: Annotated[
        list[Path], typer.Argument(metavar="TASK...", help="Signed tasks, as `local task create` wrote them.")
    ],
    store: StoreUrl,
    host: Annotated[str, option("--host", "ADDRESS", "Where to listen.")] = "127.0.0.1",
    port: Annotated[int, option("--port", "N", "The port to listen on.")] = 8000,
    per_minute: Annotated[float, option("--per-minute", "N", "Reports that one token may send per minute.")] = 60,
    burst: Annotated[int, option("--burst", "N", "Reports that one token may send at once.")] = 100,
    per_token: Annotated[
        int | None,
        option("--per-token", "N", "Reports that one token may send to a task in all; 1: single-use tokens."),
    ] = None,
    unguarded: Annotated[
        bool, typer.Option("--open", help="Accept reports without a token; all respondents then share the limits.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Collect reports for these tasks until stopped (SIGINT, SIGTERM). An acknowledged report is on disk.

    No address is stored or logged. TLS is the job of a reverse proxy: see docs/collector.md.
    """
    try:
        from sordino.local.collector.app import collector_app
        from sordino.local.collector.service import serve_app
    except ImportError:
        raise DeclarationError("the collector needs more packages: pip install 'sordino[serve]'") from None
    from sordino.local.collector.service import Limits

    limits = Limits(per_minute=per_minute, burst=burst, open=unguarded, per_token=per_token)
    app = collector_app(store, [task_in(path, key=None) for path in tasks], limits=limits)
    note(f"collecting at http://{host}:{port}; stop with Ctrl-C", quiet=quiet)
    serve_app(app, host=host, port=port)


def token(
    store: StoreUrl,
    role: Annotated[Role, typer.Option("--role", help="What the tokens are for.")],
    count: Annotated[int, option("--count", "N", "How many to make.")] = 1,
) -> None:
    """Make tokens and print them, one per line. They are shown only once: the store keeps their hashes.

    A running collector accepts them within two seconds. A respondent's token is not linked to the reports it sends.
    """
    from sordino.core.noise.rng import Rng
    from sordino.local.collector.service import make_tokens

    tokens = make_tokens(count, Rng.secure())
    with closing(_open_store(store, new=True)) as opened:
        opened.add_tokens(role.value, tokens)
    for one in tokens:
        say(one)


def estimate(
    store: StoreUrl,
    task: TaskName = None,
    confidence: Confidence = 0.95,
    malicious: Annotated[
        float, option("--malicious", "SHARE", "The share of made-up reports in adversarial intervals.")
    ] = 0.01,
    simultaneous: Annotated[
        bool, typer.Option("--simultaneous", help="Make all intervals hold at once, not each by itself.")
    ] = False,
    form: ListForm = ListFormat.table,
    plot: PictureFile = None,
    recount: Annotated[bool, typer.Option("--recount", help="First count every stored report again.")] = False,
    quiet: Quiet = False,
) -> None:
    """Estimate how many people hold each label, with intervals. The collector may keep running."""
    from sordino.cli.shared.atomic_file import open_picture
    from sordino.local.collector.results import estimate_task, estimate_to_draw

    if not 0 < confidence < 1:
        raise DeclarationError(f"--confidence must lie between 0 and 1, not {confidence}")
    with closing(_open_store(store)) as opened:
        plain = estimate_task(
            opened, task, confidence=confidence, malicious=malicious, recount=recount, simultaneous=simultaneous
        )
        drawn = None if plot is None else estimate_to_draw(opened, task)
    if plot is not None and drawn is None:
        raise DeclarationError(
            "draws the labels of a task that has reports, and no task that searches for texts", key="--plot"
        )
    with open_picture(plot, confidence=confidence, quiet=quiet) as draw:
        draw(drawn)
    if form is ListFormat.json:
        say(json.dumps(plain, ensure_ascii=False, indent=2))
        return
    if not plain["reports"]:
        raise DeclarationError("there are no reports yet: an estimate needs one or more")
    _print(plain, form, quiet=quiet)


def close(store: StoreUrl, task: TaskName = None, quiet: Quiet = False) -> None:
    """Close a task permanently: a running collector starts to refuse its reports within two seconds."""
    from sordino.local.collector.results import find_task

    with closing(_open_store(store)) as opened:
        stored, _ = find_task(opened, task)
        opened.close_task(stored.task)
    note(f"closed {stored.task}", quiet=quiet)


def export_reports(
    store: StoreUrl,
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write the batch.", callback=ends_in(".reports")),
    ],
    task: TaskName = None,
    quiet: Quiet = False,
) -> None:
    """Write all reports of a task as one batch in the wire format, sorted, without arrival order or ids."""
    from sordino.cli.shared.atomic_file import open_atomic
    from sordino.local.collector.results import export_batch, find_task

    with closing(_open_store(store)) as opened:
        stored, read = find_task(opened, task)
        with open_atomic(output) as target:
            target.write(export_batch(read, opened.chunks(stored.number)))
    note(f"wrote {output}", quiet=quiet)


def _open_store(store: str, *, new: bool = False) -> Store:
    from sordino.local.collector.report_store import Store

    path = Path(store.removeprefix("sqlite:///")).expanduser()
    if not new and not store.startswith(("postgresql://", "postgres://")) and not path.is_file():
        raise DeclarationError(f"there is no store at {path}; `sordino local serve` makes one")
    return Store.open(store)


def _print(plain: dict[str, Any], form: ListFormat, *, quiet: bool) -> None:
    names = ("label", "count", "frequency", "lower", "upper", "adversarial_lower", "adversarial_upper")
    if form is ListFormat.csv:
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([one[name] for name in names] for one in plain["labels"])
        return
    head = ["label", "people", "share", "lower", "upper", "with malicious clients"]
    rows = [
        [
            "no answer" if one["label"] is None else str(one["label"]),
            f"{one['count']:,.0f}",
            f"{one['frequency']:.2%}",
            f"{one['lower']:.2%}",
            f"{one['upper']:.2%}",
            f"{one['adversarial_lower']:.1%} to {one['adversarial_upper']:.1%}",
        ]
        for one in plain["labels"]
    ]
    for line in columns_of(head, rows, right=[False, True, True, True, True, True]):
        say(line)
    kind = "closed" if plain["closed"] else "open"
    each = "all intervals together" if plain["simultaneous"] else "each interval by itself"
    summary = f"{plain['reports']:,} reports ({kind}); {each} at {plain['confidence']:g}; "
    note(
        f"{summary}with malicious clients: if {plain['malicious']:.1%} of the reports were made up to move a label",
        quiet=quiet,
        aside=False,
    )
