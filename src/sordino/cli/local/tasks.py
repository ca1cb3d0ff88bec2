"""`sordino local keygen` and `local task`: a signing key, signed tasks, and reading one. They see no reports."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sordino.cli.local.plan_collection import DEFAULT_LENGTH, Alphabet, Length
from sordino.cli.shared.option_rules import not_with
from sordino.cli.shared.options import (
    Quiet,
    TextForm,
    TextFormat,
    ends_in,
    one_of,
    option,
    output_ending,
)
from sordino.cli.shared.terminal import note, say, wrap
from sordino.core.errors import DeclarationError
from sordino.local.protocols.catalog import MAKERS, PERMANENT

if TYPE_CHECKING:
    from sordino.local.protocols.memoization import Memoized
    from sordino.local.protocols.randomizer import Randomizer
    from sordino.local.task import Task

TaskFile = Annotated[Path, typer.Argument(metavar="TASK", help="A signed task, as `local task create` wrote it.")]
NewKey = Annotated[
    Path,
    typer.Option(
        "--output", "-o", metavar="FILE", help="Where to write the key; never overwritten.", callback=ends_in(".key")
    ),
]
TaskName = Annotated[
    str, typer.Argument(metavar="NAME", help="The task's name, such as fruit-2026.", show_default=False)
]
KeyFile = Annotated[Path, option("--key", "FILE", "The key to sign with, from `local keygen`.")]
Question = Annotated[str, option("--question", "TEXT", "What people are asked.")]
MostEpsilon = Annotated[str, option("--epsilon", "E", "The epsilon that one report may reveal.")]
Expires = Annotated[str, option("--expires", "WHEN", "The day or time in UTC from which no report is accepted.")]
Origin = Annotated[str, option("--origin", "URL", "Where reports go, such as https://survey.example.")]
Epoch = Annotated[str, option("--epoch", "NAME", "The period that a permanent answer is for, such as 2026.")]
LabelWords = Annotated[
    list[str] | None, option("--label", "L", "One possible answer; may be repeated."), not_with("--alphabet")
]
LabelsFile = Annotated[
    Path | None, option("--labels-file", "FILE", "Instead: a file with one answer per line."), not_with("--alphabet")
]
Method = Annotated[str, one_of("--method", MAKERS, "How an answer is randomised."), not_with("--alphabet")]
PermanentEpsilon = Annotated[
    str | None,
    option(
        "--permanent-epsilon",
        "E",
        f"Fix each answer for the epoch: the epsilon of all its reports together. For {', '.join(PERMANENT)}.",
    ),
    not_with("--alphabet"),
]
LifetimeEpsilon = Annotated[
    str | None,
    option("--lifetime-epsilon", "E", "Instead: answers may change; the largest sum of the epsilons of one epoch."),
]
PublicKey = Annotated[str | None, option("--key", "PUBLIC", "The public key that must have signed it.")]
Cap = Annotated[str | None, option("--cap", "E", "Refuse (exit 4) a task that may reveal more than this.")]


def keygen(output: NewKey, quiet: Quiet = False) -> None:
    """Make a key to sign tasks with, and print its public half, which clients are built with.

    Anyone who has the file can ask in your name: keep it off the collecting server.
    """
    from sordino.core.noise.rng import Rng
    from sordino.local.task import SigningKey, key_fingerprint

    key = SigningKey.make(Rng.secure())
    key.save(output)
    say(key.public)
    note(f"wrote {output}; people can compare the key by its fingerprint, {key_fingerprint(key.public)}", quiet=quiet)


def create(
    name: TaskName,
    key: KeyFile,
    question: Question,
    epsilon: MostEpsilon,
    expires: Expires,
    origin: Origin,
    epoch: Epoch,
    label: LabelWords = None,
    labels_file: LabelsFile = None,
    alphabet: Alphabet = None,
    length: Length = None,
    method: Method = "grr",
    permanent_epsilon: PermanentEpsilon = None,
    lifetime_epsilon: LifetimeEpsilon = None,
    output: Annotated[Path | None, output_ending(".json")] = None,
    quiet: Quiet = False,
) -> None:
    """Sign a task: what is asked, how answers are randomised, and how much that may reveal.

    Give either --permanent-epsilon or --lifetime-epsilon. Devices recompute both epsilons from the signed
    thresholds, and refuse a task that understates one.
    """
    from sordino.local import HeavyHitters, SigningKey, create_task

    if (permanent_epsilon is None) == (lifetime_epsilon is None):
        raise DeclarationError("state --permanent-epsilon (answers are fixed) or --lifetime-epsilon (they may change)")
    task = create_task(
        protocol=HeavyHitters(alphabet, length=DEFAULT_LENGTH if length is None else length, epsilon=epsilon)
        if alphabet is not None
        else _make_protocol(method, _labels(label, labels_file), epsilon, permanent_epsilon),
        key=SigningKey.load(key),
        task=name,
        question=question,
        lifetime_epsilon=lifetime_epsilon,
        epoch=epoch,
        expires=_moment(expires),
        origin=origin,
    )
    _write(task, output, quiet=quiet)


def show_task(task: TaskFile, key: PublicKey = None, cap: Cap = None, form: TextForm = TextFormat.table) -> None:
    """Check a signed task as a device would, and show what it asks and reveals."""
    read = task_in(task, key=key)
    if cap is not None:
        read.refuse_above(cap)
    if form is TextFormat.json:
        plain = json.loads(read.manifest.text) | {"key": read.key, "hash": read.manifest.hash.hex()}
        say(json.dumps(plain, ensure_ascii=False, indent=2))
        return
    for line in _lines(read):
        say(line)
    if key is None:
        note("note: any key was taken; --key PUBLIC checks who signed it")


def task_in(path: Path, *, key: str | None) -> Task:
    """Return the task in a file, checked."""
    from sordino.local.task import read_task

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raise DeclarationError(f"{path} cannot be read; name a file that `sordino local task create` wrote") from None
    return read_task(text, key=key)


def _make_protocol(
    method: str, labels: list[str], epsilon: str, permanent_epsilon: str | None
) -> Randomizer | Memoized:
    from sordino.local import memoize
    from sordino.local.protocols.catalog import make_protocol

    if permanent_epsilon is None:
        return make_protocol(method, labels, epsilon=epsilon)
    return memoize(make_protocol(method, labels, epsilon=permanent_epsilon), epsilon=epsilon)


def _labels(given: list[str] | None, file: Path | None) -> list[str]:
    if (given is None) == (file is None):
        raise DeclarationError("state the possible answers with --label, once for each, or with --labels-file")
    if file is None:
        return list(given or [])
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        raise DeclarationError(f"{file} cannot be read; it must be text in UTF-8, with one answer per line") from None
    return [line.strip() for line in lines if line.strip()]


def _write(task: Task, output: Path | None, *, quiet: bool) -> None:
    from sordino.cli.shared.atomic_file import open_atomic

    if output is None:
        say(task.envelope)
    else:
        with open_atomic(output) as target:
            target.write(task.envelope.encode() + b"\n")
        note(f"wrote {output}", quiet=quiet)
    for line in _lines(task):
        note(line, quiet=quiet)


def _moment(text: str) -> datetime.datetime:
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise DeclarationError("--expires must be a day or moment such as 2026-12-31 or 2026-12-31T23:59:59Z") from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=datetime.UTC)


def _lines(task: Task) -> list[str]:
    return [line for label, text in task.summary.items() for line in wrap(label, text, indent=11)]
