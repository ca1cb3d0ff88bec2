"""What reaches the terminal: wrapped text, a touch of color where one is watching, notes on standard error.

There is also how the command line spells the arguments that errors name, and the stage and the time of a fit, in a terminal
only. It knows text and streams, and nothing of questions or answers.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TextIO

from sordino.core.text_table import plain

if TYPE_CHECKING:
    from sordino.synth.watched_table import Stages

# The exit code of a command that Ctrl-C ended.
INTERRUPTED = 130
_STYLES = {"bold": "1", "dim": "2", "green": "32", "yellow": "33", "red": "31"}
Style = Literal["bold", "dim", "green", "yellow", "red"]


def in_terminal(stream: TextIO | None = None) -> bool:
    """Tell whether a person watches this stream (standard output if None)."""
    return (stream or sys.stdout).isatty()


def paint(text: str, style: Style, stream: TextIO | None = None) -> str:
    """Return text in a style where the stream is a terminal and NO_COLOR is not set; else as it is."""
    colored = in_terminal(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return f"\x1b[{_STYLES[style]}m{text}\x1b[0m" if colored else text


def say(text: str = "") -> None:
    """Print a line that was asked for."""
    print(text)


def note(text: str, *, quiet: bool = False, aside: bool = True) -> None:
    """Print a line beside the answer, on standard error (`aside`) or standard output, unless `quiet`."""
    if not quiet:
        stream = sys.stderr if aside else sys.stdout
        print(paint(plain(text), "dim", stream), file=stream)


def wrap(label: str, text: str, *, indent: int = 11) -> list[str]:
    """Return a labelled text as lines that fit the terminal, the later ones under the text."""
    room = max(40, min(100, shutil.get_terminal_size((80, 24)).columns))
    lines = textwrap.wrap(plain(text), room - indent, break_long_words=False, break_on_hyphens=False) or [""]
    first = label.ljust(indent) if len(label) < indent or not label else f"{label} "
    return [f"{first}{lines[0]}".rstrip(), *(" " * indent + line for line in lines[1:])]


def shorten(text: str, room: int) -> str:
    """Return text cut to `room` characters where a person reads it in a terminal; whole elsewhere."""
    if not in_terminal() or len(text) <= room:
        return text
    return text[: max(1, room - 3)] + "..."


# Flags that are named otherwise than the argument of the library.
_FLAGS = {"n": "rows"}


def as_flag(name: str, followed: bool) -> str:
    """Return the flag of an argument, and a blank where a value follows.

    >>> as_flag("assume_rows", False), as_flag("delta", True)
    ('--assume-rows', '--delta ')
    """
    return f"--{_FLAGS.get(name, name)}".replace("_", "-") + " " * followed


@contextmanager
def stages(*, quiet: bool) -> Iterator[Stages]:
    """Show stage and elapsed time on standard error where that is a terminal; nothing elsewhere, nor when `quiet`."""
    from sordino.synth.watched_table import Stages as Shown

    if quiet or not in_terminal(sys.stderr):
        yield Shown(lambda _: None)
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=None)
        yield Shown(lambda stage: progress.update(task, description=stage))
