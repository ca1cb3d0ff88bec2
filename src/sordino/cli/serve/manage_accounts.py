"""`sordino serve account`: accounts, tokens, passwords and shares, by whoever may write the server's store and ledgers."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from sordino.cli.serve.serve_tables import need_server
from sordino.cli.shared.options import BudgetName, Delta, Epsilon, ProjectPath, Rho, TextForm, TextFormat, option
from sordino.cli.shared.terminal import note, say
from sordino.core.errors import DeclarationError
from sordino.core.text_table import columns_of

if TYPE_CHECKING:
    from pathlib import Path

    from sordino.serve.server.access import Visitor
    from sordino.serve.server.curator_service import CuratorService

Role = StrEnum("Role", "analyst officer auditor")
Name = Annotated[str, typer.Argument(metavar="NAME", help="The account.")]
By = Annotated[
    str | None,
    option("--by", "OFFICER", "The officer who does this: it counts as at the server, where approving takes two."),
]
_BY = "the command line"
_HERE = ", on the command line"


def add_account(
    name: Name,
    role: Annotated[Role, typer.Option("--role", help="What it may do.")],
    openid: Annotated[str | None, option("--openid", "SUBJECT", "Its subject at the OpenID provider.")] = None,
    by: By = None,
    project: ProjectPath = None,
) -> None:
    """Add an account. It signs in with a password or a token, each set by its own command, or through an OpenID provider."""
    service = _service(project)
    issuer = service.settings.issuer
    if openid is not None and issuer is None:
        raise DeclarationError("--openid needs a provider: state [serve] openid in the project file")
    officer = _officer(service, by)
    account = service.account_service.accounts.add(
        name, role.value, subject=None if openid is None else f"{issuer} {openid}"
    )
    _note(service, officer, "made", account.id)
    service.account_service.audit_log.append(
        officer or _BY, "account.change", f"{name} added as {role.value}{_HERE * bool(officer)}"
    )
    note(f"added {name}; `sordino serve account token {name}` or `... password {name}` lets it in", quiet=False)


def list_accounts(form: TextForm = TextFormat.table, project: ProjectPath = None) -> None:
    """List the accounts, without any secret."""
    accounts = [account.to_dict() for account in _service(project).account_service.accounts.all()]
    if form is TextFormat.json:
        say(json.dumps({"schema": 1, "accounts": accounts}, indent=2))
        return
    names = ("name", "role", "disabled", "password", "openid", "created")
    rows = [["" if one[n] is False else "yes" if one[n] is True else str(one[n]) for n in names] for one in accounts]
    for line in columns_of(list(names), rows, right=[False] * len(names)):
        say(line)


def disable_account(
    name: Name,
    enable: Annotated[bool, typer.Option("--enable", help="Let it in again.")] = False,
    by: By = None,
    project: ProjectPath = None,
) -> None:
    """Disable an account: its sessions end and its tokens are refused. What it spent stays spent."""
    service = _service(project)
    officer = _officer(service, by)
    changed = service.account_service.accounts.change(service.account_service.accounts.find(name), disabled=not enable)
    if enable:
        _note(service, officer, "changed", changed.id)
    did = f"{name} {'enabled' if enable else 'disabled'}{_HERE * bool(officer)}"
    service.account_service.audit_log.append(officer or _BY, "account.change", did)


def make_token(
    name: Name,
    label: Annotated[str, option("--name", "LABEL", "What the token is for.")] = "command line",
    spender: Annotated[str | None, option("--share", "NAME", "Spend this share instead of the account's own.")] = None,
    by: By = None,
    project: ProjectPath = None,
) -> None:
    """Make a token for a program and print it. It is shown only once: the store keeps its hash."""
    service = _service(project)
    officer = _officer(service, by)
    account = service.account_service.accounts.find(name)
    _, secret = service.account_service.accounts.make_token(account, label, spender=spender)
    # whoever makes a token may ask with it
    _note(service, officer, "made a token of", account.id)
    service.account_service.audit_log.append(officer or _BY, "token.make", f"{name}: {label}{_HERE * bool(officer)}")
    say(secret)


def set_password(name: Name, by: By = None, project: ProjectPath = None) -> None:
    """Set the password of an account, typed twice in a terminal or read from the first line of standard input."""
    service = _service(project)
    officer = _officer(service, by)
    account = service.account_service.accounts.find(name)
    typed = typer.prompt("Password", hide_input=True, confirmation_prompt=True) if sys.stdin.isatty() else ""
    service.account_service.accounts.set_password(account, typed or sys.stdin.readline().rstrip("\n"))
    _note(service, officer, "reset the password of", account.id)
    service.account_service.audit_log.append(officer or _BY, "password.change", f"{name}{_HERE * bool(officer)}")


def set_share(
    name: Name,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    budget: BudgetName = None,
    by: By = None,
    project: ProjectPath = None,
) -> None:
    """Give an account, or a program's own share, a part of a budget. Run it again to change the amount."""
    from sordino.ask.project.load import share_from

    stated = {key: value for key, value in (("epsilon", epsilon), ("delta", delta), ("rho", rho)) if value is not None}
    service = _service(project)
    named = service.project.budget(budget).name
    service.set_share(_officer(service, by) or _BY, name, named, lambda cap: share_from(stated, name, cap=cap))


def _officer(service: CuratorService, name: str | None) -> Visitor | None:
    """Return the officer of this name, None where nobody is named; raises DeclarationError for an account of another role."""
    from sordino.serve.server.accounts import visitor_of_account

    if name is None:
        return None
    account = service.account_service.accounts.find(name)
    if account.role != "officer" or account.disabled:
        raise DeclarationError(f"must name an officer's account, and {name!r} is none", key="--by")
    return visitor_of_account(account, via="local")


def _note(service: CuratorService, officer: Visitor | None, did: str, account: int) -> None:
    if officer is not None:
        service.account_service.two_person.note(officer, did, account=account)


def _service(project: Path | None) -> CuratorService:
    from sordino.cli.shared.opening import project_path

    need_server()
    from sordino.serve.server.opening import open_service

    return open_service(project_path(project))
