"""Attacks together on what people publish: counts, a synthetic table, reports of the local model; private and not.

Without rows they run on a generated census. With rows they read them all, and what they say is NOT PRIVATE.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sordino.ask.curator.declare_tables import protect
from sordino.core.domain import Boolean, Category, Domain, Identifier
from sordino.core.errors import DeclarationError, UnknownName, arg, nearest
from sordino.core.loss import PureDP, format_number
from sordino.core.noise.rng import Rng
from sordino.core.source import Source
from sordino.lab.audit.answer_attack import average_answers, check_bits, infer_answers, take_differences
from sordino.lab.audit.attack import Epsilons, claims_from
from sordino.lab.audit.attack_collection import Attacks
from sordino.lab.audit.table_attacks import (
    Released,
    closest_records,
    infer_attribute,
    infer_membership,
    reconstruct_from_counts,
)
from sordino.lab.datasets.census import census_domain, make_census
from sordino.local import SubsetSelection
from sordino.local.protocols.memoization import memoize
from sordino.local.protocols.response import GRR

if TYPE_CHECKING:
    import pyarrow as pa

    from sordino.ask.project.load import DeclaredTable

Watch = Callable[[str], None]
_SECRET = re.compile(r"\s*(\w+)\s*(=|<|>)\s*(.+?)\s*")
# People whose bits the linear program solves for.
_SOLVED = 80
_LOCAL_PEOPLE = 2000
Kind = Literal["release", "synth", "local"]


def attack_kind(kind: Kind, table: DeclaredTable | None = None, *, secret: str | None = None, **stated: Any) -> Attacks:
    """Run `attack_release`, `attack_synth` or `attack_local` on the true rows of a declared table, or on a generated census.

    `secret` is the condition, the column that is guessed, or the column of the answers; `stated` all else but None.
    """
    more: dict[str, Any] = {name: value for name, value in stated.items() if value is not None}
    rows = None if table is None else _read_rows(table)
    if kind == "release":
        return attack_release(rows, **more) if secret is None else attack_release(rows, secret=secret, **more)
    if kind == "synth":
        return attack_synth(rows, domain=None if table is None else table.domain, secret=secret, **more)
    if rows is None or table is None:
        if secret is not None:
            raise DeclarationError(f"answers of a column of your own need a declared table: {arg('table=')}...")
        return attack_local(**more)
    categories = [name for name in table.domain if isinstance(table.domain[name], Category)]
    if secret not in categories:
        raise DeclarationError(f"state a category of the table as secret: {', '.join(categories) or 'it has none'}")
    column = table.domain[secret]
    people = more.pop("people", _LOCAL_PEOPLE)
    values = column.values if isinstance(column, Category) else ()
    cells = _take(rows.select([secret]), people, more.get("seed", 1)).column(0).to_pylist()
    return attack_local([cell for cell in cells if cell in values], labels=values, **more)


def attack_release(
    rows: pa.Table | None = None,
    *,
    secret: str = "age > 45",
    epsilon: Epsilons = 1,
    people: int = 200,
    seed: int = 1,
    watch: Watch = lambda _: None,
) -> Attacks:
    """Attack counts: differencing, averaging with and without the ledger, and all secrets from many counts.

    `secret` names a bit of each of `people` rows, taken by lot: COLUMN = VALUE, or > or < a number. Each attack runs on
    exact counts and on counts that lose `epsilon` in all, one or several. `watch` is called with each stage.

    Raises DeclarationError for another kind of secret, or one that all have, UnknownName for another column.
    """
    claims = claims_from(epsilon)
    table = make_census(10 * people, Rng.seeded(seed)) if rows is None else rows
    bits = [bit for bit in _read_secret(_take(table, people, seed), secret) if bit is not None]
    _, share, _ = check_bits(bits)
    watch("differencing")
    attacks = [take_differences(bits, epsilon=claims, seed=seed)]
    watch("averaging")
    attacks.append(average_answers(bits, epsilon=claims, seed=seed))
    watch("reconstructing")
    some = bits[:_SOLVED]
    prior = format(min(max(share, 1e-6), 1 - 1e-6), ".6f")
    attacks.append(reconstruct_from_counts(some, epsilon=claims, prior=prior, seed=seed))
    words = f"{len(bits)} people of {_subject(rows)}; the secret: {secret}"
    return Attacks("Attacks on counts", words, tuple(attacks), seed, invented=rows is None)


def attack_synth(
    rows: pa.Table | None = None,
    *,
    domain: Domain | None = None,
    secret: str | None = None,
    epsilon: Epsilons = 1,
    people: int = 300,
    seed: int = 1,
    watch: Watch = lambda _: None,
) -> Attacks:
    """Attack synthetic tables: membership, a missing attribute, the distance to the closest record.

    Twice `people` rows are taken by lot: one half is published, once without names and once as a synthetic table at each
    `epsilon` (`synth.fit`), the other half is in neither. `secret` is the column that is guessed, the last category where
    None. Losses are under replace. Rows of one's own need their `domain`.
    """
    if rows is not None and domain is None:
        raise DeclarationError("attack_synth needs the domain of these rows: domain=sd.Domain({...})")
    declared = census_domain() if domain is None else domain
    columns = [name for name in declared if not isinstance(declared[name], Identifier)]
    guessed = _last_category(declared, columns) if secret is None else secret
    if guessed not in columns:
        raise UnknownName(f"secret {guessed!r} is not a column; {nearest(guessed, columns)}")
    table = make_census(2 * people, Rng.seeded(seed)) if rows is None else rows
    sample = _take(table.select(columns), 2 * people, seed)
    members = sample.slice(0, len(sample) // 2)
    others = sample.slice(len(sample) // 2)
    releases: dict[str, Released] = {"the rows without names": (members, None)}
    for claim in claims_from(epsilon):
        watch(f"fitting at epsilon {format_number(claim)}")
        rows_made = _synthesize(members, Domain({name: declared[name] for name in columns}), claim, seed)
        releases[f"synthetic rows at epsilon {format_number(claim)}"] = (rows_made, PureDP(claim))
    watch("attacking")
    close = closest_records(releases, members, others)
    attacks = (
        infer_membership(releases, members, others),
        infer_attribute(releases, members, others, secret=guessed),
        close.attack,
    )
    words = f"{len(members)} members and {len(others)} others of {_subject(rows)}"
    return Attacks("Attacks on a synthetic table", words, attacks, seed, close, rows is None)


def attack_local(
    answers: Sequence[Any] | None = None,
    *,
    labels: Sequence[Any] | None = None,
    epsilon: Epsilons = 1,
    people: int = _LOCAL_PEOPLE,
    rounds: int = 20,
    seed: int = 1,
    watch: Watch = lambda _: None,
) -> Attacks:
    """Attack reports of the local model: guess each answer from one, from many fresh ones, and from a permanent answer's.

    `answers` are one a person, of declared `labels`; without them occupations of `people` of a generated census. At each
    `epsilon` one attack; the permanent answer has that epsilon for ever, and half of it a report.
    """
    invented = answers is None
    subject = "occupations of a generated census" if invented else "answers of your own"
    if answers is None:
        occupations = make_census(people, Rng.seeded(seed)).column("occupation").to_pylist()
        answers = [a for a in occupations if a is not None]
        labels = sorted({a for a in occupations if a is not None})
    if labels is None:
        raise DeclarationError("attack_local needs the labels of these answers: labels=[...]")
    attacks = []
    for claim in claims_from(epsilon):
        watch(f"guessing at epsilon {format_number(claim)}")
        permanent = memoize(GRR(labels, epsilon=claim), epsilon=claim / 2)
        protocol = SubsetSelection(labels, epsilon=claim)
        attacks.append(infer_answers(protocol, answers, repeats=rounds, permanent=permanent, seed=seed))
    words = f"{subject}, {len(answers)} people, {len(labels)} labels"
    return Attacks("Attacks on reports", words, tuple(attacks), seed, invented=invented)


def _read_rows(table: DeclaredTable) -> pa.Table:
    """Return the declared columns of a table, true rows: of a CSV or Parquet file, or as they are in memory."""
    from sordino.ask.engines.readers.raw import load_rows

    source = table.source
    if not isinstance(source, Source):
        return source
    if source.format not in ("csv", "parquet"):
        raise DeclarationError(f"attacks read rows of CSV and Parquet files, not of {source.format}: export some rows")
    return load_rows(source.path, table.domain, source.csv)


def _take(rows: pa.Table, count: int, seed: int) -> pa.Table:
    """Return `count` rows by lot, in random order; all where there are fewer."""
    order = np.argsort(Rng.seeded(seed).words(len(rows)), kind="stable")
    return rows.take(order[:count])


def _read_secret(rows: pa.Table, secret: str) -> list[int | None]:
    """Return the bit that `secret` names of each row, None where the cell is missing."""
    match = _SECRET.fullmatch(secret)
    if match is None:
        raise DeclarationError("a secret is COLUMN = VALUE, COLUMN > NUMBER or COLUMN < NUMBER, such as age > 45")
    name, sign, text = match.groups()
    if name not in rows.column_names:
        raise UnknownName(f"the secret's column {name!r} is not there; {nearest(name, rows.column_names)}")
    cells = rows.column(name).to_pylist()
    if sign == "=":
        return [None if cell is None else int(str(cell) == text.strip("'\"")) for cell in cells]
    try:
        limit = float(text)
        numbers = [None if cell is None else float(cell) for cell in cells]
    except (TypeError, ValueError):
        raise DeclarationError(f"{name} {sign} ... compares numbers; {name} = VALUE works for texts") from None
    return [None if x is None else int(x > limit if sign == ">" else x < limit) for x in numbers]


def _last_category(domain: Domain, columns: Sequence[str]) -> str:
    categories = [name for name in columns if isinstance(domain[name], (Category, Boolean))]
    return (categories or list(columns))[-1]


def _synthesize(members: pa.Table, domain: Domain, claim: Any, seed: int) -> pa.Table:
    """Return as many synthetic rows as there are members, of a model that loses `claim`."""
    from sordino.synth.fitting import fit

    people = protect(
        members,
        domain=domain,
        neighbors="replace",
        privacy_unit="row",
        budget=PureDP(claim),
        ledger=None,
        name="people",
        rng=Rng.seeded(seed),
    )
    model = fit(people, epsilon=claim, rng=Rng.seeded(seed + 1))
    return model.sample(len(members), rng=Rng.seeded(seed + 2))


def _subject(rows: object) -> str:
    return "a generated census" if rows is None else "a table of yours"
