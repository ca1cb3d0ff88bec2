"""Which arguments of a command are read while it runs: what is stated and never read was ignored."""

from __future__ import annotations

import dis
import functools
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import typer

from sordino.cli.main import app

Tree = dict[tuple[str, ...], Any]  # commands by the words that call them

# Reading a local, or one that a nested function shares.
_READS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF")


@functools.cache
def all_commands() -> Tree:
    """Return every command of `sordino`, by the words that call it: made once, since typer takes a second over all of them."""
    found: Tree = {}

    def walk(command: Any, words: tuple[str, ...]) -> None:
        for name, inner in getattr(command, "commands", {}).items():
            walk(inner, (*words, name))
        if not hasattr(command, "commands"):
            found[words] = command

    walk(typer.main.get_command(app), ())
    return found


def flags_of(command: Any) -> dict[str, str]:
    """Return the argument's name of each option, by its flag at length."""
    return {
        next(one for one in p.opts if one.startswith("--")): p.name
        for p in command.params
        if p.param_type_name == "option" and p.name != "help"
    }


@contextmanager
def watch_reads(command: Any) -> Iterator[set[str]]:
    """Collect the arguments that the command's own code reads, nested functions and comprehensions included."""
    codes = {code: _reads_of(code) for code in _family(inspect.unwrap(command.callback).__code__)}
    found: set[str] = set()

    def of_frame(frame: FrameType, event: str, _: Any) -> Any:
        if event == "opcode":
            name = codes[frame.f_code].get(frame.f_lasti)
            if name is not None:
                found.add(name)
        return of_frame

    def of_call(frame: FrameType, event: str, _: Any) -> Any:
        if event != "call" or frame.f_code not in codes:
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return of_frame

    before = sys.gettrace()
    sys.settrace(of_call)
    try:
        yield found
    finally:
        sys.settrace(before)


def _family(code: CodeType) -> Iterator[CodeType]:
    yield code
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _family(inner)


def _reads_of(code: CodeType) -> dict[int, str]:
    return {one.offset: one.argval for one in dis.get_instructions(code) if one.opname in _READS}
