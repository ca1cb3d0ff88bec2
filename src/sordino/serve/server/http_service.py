"""The routes of the API: questions, releases, models, collections, accounts, sign-in."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import Depends, Header, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response, StreamingResponse
from starlette.concurrency import run_in_threadpool

from sordino.ask.project.load import share_from
from sordino.core.errors import DeclarationError, NotAllowed, SignInNeeded
from sordino.core.ledger.records import charge_to_dict
from sordino.core.loss import loss_to_numbers
from sordino.core.release import Release
from sordino.models.record import PricedModel
from sordino.serve.server import http_schemas as schemas
from sordino.serve.server.access import Visitor
from sordino.serve.server.accounts import Account
from sordino.serve.server.collection_service import CollectionService
from sordino.serve.server.evaluation_service import EVALUATION_SCHEMA, EvaluationService
from sordino.serve.server.http_request import (
    Confidence,
    StoredInt,
    address_of,
    api_router,
    body_of,
    check_origin,
    check_parameters,
    cookie_name,
    fields_schema,
    read_json,
    respond,
    run_work,
    service_of,
    session_of,
    set_cookie,
    visitor_of,
)
from sordino.serve.server.jobs import ShortQueue
from sordino.serve.server.model_service import FIT_SCHEMA, ModelService, describe_prediction
from sordino.serve.server.openid import TRY_SECONDS, OpenIdProvider, OpenIdTry
from sordino.serve.server.question_request import asked_schema, check_keys, read_question_request
from sordino.serve.server.series_service import SERIES_SCHEMA, SeriesService
from sordino.serve.server.sessions import SESSION_HOURS, Session

# ---- The routes of collections: what their collectors have by now. Reports go to a collector, never here

COLLECTIONS = api_router("collections")


async def _check_and_enter(request: Request, visitor: Annotated[Visitor, Depends(visitor_of)]) -> Visitor:
    """Return who asks; raises UnknownKey where the address has a parameter that its route does not take."""
    check_parameters(request)
    return visitor


Who = Annotated[Visitor, Depends(_check_and_enter)]


def _collection_service(request: Request) -> CollectionService:
    collection_service: CollectionService = request.app.state.collections
    return collection_service


@COLLECTIONS.get("/collections", responses=schemas.answers(schemas.Collections))
async def list_collections(request: Request, visitor: Who) -> Response:
    """Return the collections of the project: name, question, reports so far, epsilons, whether each is closed."""
    collections = await run_in_threadpool(_collection_service(request).list_collections, visitor)
    return respond({"schema": 1, "collections": collections})


@COLLECTIONS.get("/collections/{name}", responses=schemas.answers(schemas.CollectionEstimate))
async def estimate(request: Request, visitor: Who, name: str, confidence: Confidence = 0.95) -> Response:
    """Return the estimates of a collection with their intervals, as `sordino local estimate --format json`."""
    return respond(
        await run_in_threadpool(lambda: _collection_service(request).estimate(visitor, name, confidence=confidence))
    )


@COLLECTIONS.post("/collections/{name}/close", responses=schemas.answers(schemas.Done))
async def close(request: Request, visitor: Who, name: str) -> Response:
    """Close a collection for ever."""
    await run_in_threadpool(_collection_service(request).close, visitor, name)
    return respond({"schema": 1})


# ---- The routes of people: sessions, accounts, passwords, tokens, shares, approvals, the audit log

DESK = api_router("accounts")


async def _fields(
    request: Request, needs: str = "", may: str = "", *, flags: str = "", amounts: str = ""
) -> dict[str, Any]:
    """Return the JSON object of a body that has these keys alone, as `fields_schema` describes it; null is left out."""
    fields = {name: value for name, value in (await read_json(request)).items() if value is not None}
    check_keys(fields, (*needs.split(), *may.split(), *flags.split(), *amounts.split()), what="this request")
    for name, value in fields.items():
        if name in flags.split():
            kinds: tuple[type, ...] = (bool,)
            words = "must be true or false"
        elif name in amounts.split():
            kinds = (str, int, float)
            words = "must be text or a number"
        else:
            kinds = (str,)
            words = "must be text"
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise DeclarationError(words, key=name)
    for name in needs.split():
        if name not in fields:
            raise DeclarationError("is missing; state it as text", key=name)
    return fields


# ---- sessions


@DESK.post(
    "/session", openapi_extra=body_of(fields_schema("name password")), responses=schemas.answers(schemas.Session)
)
async def sign_in(request: Request) -> Response:
    """Begin a session with a name and a password; the answer sets its cookie and holds its CSRF token."""
    check_origin(request)
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise NotAllowed("send JSON with content-type application/json: a form of another site cannot")
    fields = await _fields(request, "name password")
    account_service = service_of(request).account_service
    address = address_of(request)
    cookie, session = await run_in_threadpool(
        lambda: account_service.sign_in(fields["name"], fields["password"], address=address)
    )
    answer = respond(_session(session))
    set_cookie(request, answer, cookie, seconds=SESSION_HOURS * 3600)
    return answer


@DESK.get("/session", responses=schemas.answers(schemas.Session))
async def show_session(session: Annotated[Session, Depends(session_of)]) -> Response:
    """Return who is signed in, and the session's CSRF token."""
    return respond(_session(session))


@DESK.delete("/session", responses=schemas.answers(schemas.Done))
async def sign_out(request: Request, visitor: Who) -> Response:
    """End the session."""
    cookie = request.cookies.get(cookie_name(request), "")
    await run_in_threadpool(service_of(request).account_service.sign_out, visitor, cookie)
    answer = respond({"schema": 1})
    set_cookie(request, answer, "", seconds=0)
    return answer


def _session(session: Session) -> dict[str, Any]:
    who = session.visitor
    return {"schema": 1, "name": who.name, "role": who.role, "csrf": session.csrf}


@DESK.get("/me", responses=schemas.answers(schemas.Visitor))
async def show_visitor(visitor: Who) -> Response:
    """Return who asks: the account's name, its role, and the share that is spent."""
    return respond({"schema": 1, "name": visitor.name, "role": visitor.role, "spender": visitor.spender})


# ---- accounts and shares


@DESK.get("/accounts", responses=schemas.answers(schemas.Accounts))
async def list_accounts(request: Request, visitor: Who) -> Response:
    """Return the accounts; an analyst sees its own."""
    accounts = await run_in_threadpool(service_of(request).account_service.list_accounts, visitor)
    return respond({"schema": 1, "accounts": [account.to_dict() for account in accounts]})


@DESK.post(
    "/accounts",
    openapi_extra=body_of(fields_schema("name role", "password")),
    responses=schemas.answers(schemas.Account, status=201),
    status_code=201,
)
async def add_account(request: Request, visitor: Who) -> Response:
    """Add an account with a name and a role, with a password or without."""
    fields = await _fields(request, "name role", "password")
    account_service = service_of(request).account_service
    account: Account = await run_in_threadpool(lambda: account_service.add_account(visitor, **fields))
    return respond(account.to_dict(), 201)


@DESK.patch(
    "/accounts/{name}",
    openapi_extra=body_of(fields_schema("", "role", flags="disabled")),
    responses=schemas.answers(schemas.Account),
)
async def change_account(request: Request, visitor: Who, name: str) -> Response:
    """Change an account's role, or disable it."""
    fields = await _fields(request, "", "role", flags="disabled")
    account_service = service_of(request).account_service
    changed: Account = await run_in_threadpool(lambda: account_service.change_account(visitor, name, **fields))
    return respond(changed.to_dict())


@DESK.put(
    "/accounts/{name}/password",
    openapi_extra=body_of(fields_schema("new", "old")),
    responses=schemas.answers(schemas.Done),
)
async def change_password(request: Request, visitor: Who, name: str) -> Response:
    """Set a password: one's own with the `old` one, another's as an officer. All sessions of the account end."""
    fields = await _fields(request, "new", "old")
    account_service = service_of(request).account_service
    await run_in_threadpool(
        lambda: account_service.change_password(visitor, name, fields["new"], old=fields.get("old"))
    )
    return respond({"schema": 1})


@DESK.put(
    "/shares/{budget}/{spender}",
    openapi_extra=body_of(fields_schema(amounts="epsilon delta rho")),
    responses=schemas.answers(schemas.Done),
)
async def set_share(request: Request, visitor: Who, budget: str, spender: str) -> Response:
    """Give a spender, an account's name or a program's, a share of a budget, or change it: {"epsilon": "0.5"}."""
    stated = await _fields(request, amounts="epsilon delta rho")
    service = service_of(request)

    def work() -> None:
        service.set_share(visitor, spender, budget, lambda cap: share_from(stated, spender, cap=cap))

    await run_in_threadpool(work)
    return respond({"schema": 1})


# ---- tokens


@DESK.get("/accounts/{name}/tokens", responses=schemas.answers(schemas.Tokens))
async def list_tokens(request: Request, visitor: Who, name: str) -> Response:
    """Return the tokens of an account, never the secrets."""
    tokens = await run_in_threadpool(service_of(request).account_service.list_tokens, visitor, name)
    return respond({"schema": 1, "tokens": [token.to_dict() for token in tokens]})


@DESK.post(
    "/tokens",
    openapi_extra=body_of(fields_schema("name")),
    responses=schemas.answers(schemas.NewToken, status=201),
    status_code=201,
)
async def make_token(request: Request, visitor: Who) -> Response:
    """Make a token for one's own account; its secret is in this answer, and nowhere else ever again."""
    fields = await _fields(request, "name")
    token, secret = await run_in_threadpool(service_of(request).account_service.make_token, visitor, fields["name"])
    return respond({**token.to_dict(), "secret": secret}, 201)


@DESK.delete("/tokens/{number}", responses=schemas.answers(schemas.Done))
async def revoke_token(request: Request, visitor: Who, number: StoredInt) -> Response:
    """Revoke a token."""
    await run_in_threadpool(service_of(request).account_service.revoke_token, visitor, number)
    return respond({"schema": 1})


# ---- approvals and the log


State = Literal["waiting", "approved", "declined"]


@DESK.get("/approvals", responses=schemas.answers(schemas.Approvals))
async def list_approvals(request: Request, visitor: Who, state: State | None = None) -> Response:
    """Return what waits for an officer, or did: question, plans, cost, and what it reveals; an analyst sees its own."""
    account_service = service_of(request).account_service
    approvals = await run_in_threadpool(lambda: account_service.list_approvals(visitor, state=state))
    return respond({"schema": 1, "approvals": [one.to_dict() for one in approvals]})


@DESK.get("/approvals/{number}", responses=schemas.answers(schemas.Approval))
async def show_approval(request: Request, visitor: Who, number: StoredInt) -> Response:
    """Return one of them."""
    found = await run_in_threadpool(service_of(request).account_service.find_approval, visitor, number)
    return respond(found.to_dict())


@DESK.post(
    "/approvals/{number}",
    openapi_extra=body_of(fields_schema("decision", "reason")),
    responses=schemas.answers(schemas.Approval),
)
async def decide(request: Request, visitor: Who, number: StoredInt) -> Response:
    """Approve or decline: {"decision": "approved", "reason": "..."}; 409 where another officer was first."""
    fields = await _fields(request, "decision", "reason")
    if fields["decision"] not in ("approved", "declined"):
        raise DeclarationError('must be "approved" or "declined"', key="decision")
    reason = None if "reason" not in fields else fields["reason"][:2000]
    account_service = service_of(request).account_service
    decided = await run_in_threadpool(
        lambda: account_service.decide(visitor, number, fields["decision"], reason=reason)
    )
    return respond(decided.to_dict())


Line = Annotated[int, Query(ge=0, le=2**63 - 1)]
Lines = Annotated[int, Query(ge=1, le=10_000)]


@DESK.get("/audit", responses=schemas.answers(schemas.AuditLog))
async def read_audit_log(request: Request, visitor: Who, after: Line = 0, most: Lines = 1000) -> Response:
    """Return who did what when, oldest first, after the line of a number."""
    account_service = service_of(request).account_service
    lines = await run_in_threadpool(lambda: account_service.read_audit_log(visitor, after=after, most=most))
    return respond({"schema": 1, "lines": lines})


# ---- The routes of synthetic models and of jobs

MODELS_AND_JOBS = api_router("models")
_SAMPLE: dict[str, Any] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "rows": {"type": ["integer", "null"], "minimum": 0, "maximum": 1_000_000},
        "where": {"type": ["string", "null"]},
        "independent": {
            "type": "boolean",
            "description": "Draw each row by itself. Without it counts scatter less than those of independent rows.",
        },
    },
}
RequestId = Annotated[str | None, Header(alias="Idempotency-Key")]


def _models(request: Request) -> ModelService:
    model_service: ModelService = request.app.state.models
    return model_service


def _evaluations(request: Request) -> EvaluationService:
    evaluation_service: EvaluationService = request.app.state.evaluations
    return evaluation_service


@MODELS_AND_JOBS.post(
    "/models",
    openapi_extra=body_of(FIT_SCHEMA),
    responses=schemas.answers(schemas.Job, status=201, waits=True),
    status_code=201,
)
async def fit(request: Request, visitor: Who, key: RequestId = None) -> Response:
    """Begin to fit a model, charged once; the answer is its job.

    It is synthetic, or with "model" a regression, a classifier, clusters or components: {"model": "linear_regression",
    "y": "price", "x": ["area", "zone"], "epsilon": "1"}. With an Idempotency-Key the same call again is the same job."""
    body = await read_json(request)
    job = await run_work(request, visitor, lambda: _models(request).fit(visitor, body, request=key))
    return respond(job.to_dict(), 201)


@MODELS_AND_JOBS.get("/models", responses=schemas.answers(schemas.Models))
async def list_models(request: Request, visitor: Who) -> Response:
    """Return the models: number, table, charge, moment."""
    return respond({"schema": 1, "models": await run_in_threadpool(_models(request).list_models, visitor)})


@MODELS_AND_JOBS.get("/models/{number}", responses=schemas.answers(schemas.Model | schemas.Prediction))
async def show_model(request: Request, visitor: Who, number: StoredInt, confidence: Confidence = 0.95) -> Response:
    """Return what a model is, as `sordino synth show --format json`; of one that predicts its card, and its SQL."""
    model = await run_work(request, visitor, lambda: _models(request).any_model(visitor, number))
    if isinstance(model, PricedModel):
        return respond(describe_prediction(model))
    return respond(model.to_dict(confidence=confidence))


@MODELS_AND_JOBS.get(
    "/models/{number}/file",
    response_class=Response,
    responses=schemas.sends("application/octet-stream", description="the model", binary=True),
)
async def send_model(request: Request, visitor: Who, number: StoredInt) -> Response:
    """Return a model as a file, which `sd.synth.load` reads; one that predicts, `sd.models.load`."""
    content = await run_work(request, visitor, lambda: _models(request).file_of(visitor, number))
    headers = {"cache-control": "no-store", "content-disposition": f'attachment; filename="{number}.model"'}
    return Response(content, media_type="application/octet-stream", headers=headers)


@MODELS_AND_JOBS.post(
    "/models/{number}/sample",
    openapi_extra=body_of(_SAMPLE),
    response_class=Response,
    responses=schemas.sends("text/csv", description="the rows, with a header line"),
)
async def sample(request: Request, visitor: Who, number: StoredInt) -> Response:
    """Return drawn rows as CSV, free: {"rows": 1000, "where": "age > 40"}.

    Counts over them are much closer to the model than those of independent rows, so that a test or a standard error over
    repeated draws comes out far too small; {"independent": true} draws each row by itself.
    """
    body = await read_json(request)
    check_keys(body, _SAMPLE["properties"], what="a sample")
    rows = body.get("rows")
    where = body.get("where")
    if not (rows is None or (isinstance(rows, int) and not isinstance(rows, bool))):
        raise DeclarationError("must be a whole number", key="rows")
    if not (where is None or isinstance(where, str)):
        raise DeclarationError("must be text, such as age > 40", key="where")
    independent = body.get("independent", False)
    if not isinstance(independent, bool):
        raise DeclarationError("must be true or false", key="independent")
    models = _models(request)
    parts = await run_work(
        request, visitor, lambda: models.sample(visitor, number, rows=rows, where=where, independent=independent)
    )
    return StreamingResponse(parts, media_type="text/csv; charset=utf-8", headers={"cache-control": "no-store"})


@MODELS_AND_JOBS.post(
    "/models/{number}/answer", openapi_extra=body_of(asked_schema()), responses=schemas.answers(schemas.Release)
)
async def answer(request: Request, visitor: Who, number: StoredInt) -> Response:
    """Return a model's own answer to a question, free, as `sordino synth answer --format json`."""
    question = read_question_request(await read_json(request))
    release = await run_work(request, visitor, lambda: _models(request).answer(visitor, number, question))
    return respond(release.to_dict(confidence=question.confidence))


@MODELS_AND_JOBS.post(
    "/models/{number}/evaluations",
    openapi_extra=body_of(EVALUATION_SCHEMA),
    responses=schemas.answers(schemas.Job, status=201, waits=True),
    status_code=201,
)
async def evaluate(request: Request, visitor: Who, number: StoredInt, key: RequestId = None) -> Response:
    """Begin to compare a model's rows with its table, charged once; the answer is its job, as of a fit."""
    body = await read_json(request)
    job = await run_work(request, visitor, lambda: _evaluations(request).begin(visitor, number, body, request=key))
    return respond(job.to_dict(), 201)


@MODELS_AND_JOBS.get("/models/{number}/evaluations", responses=schemas.answers(schemas.Evaluations))
async def list_evaluations(request: Request, visitor: Who, number: StoredInt) -> Response:
    """Return the evaluations of a model: number, charge, mean distances over one, two and three columns."""
    evaluations = await run_in_threadpool(_evaluations(request).list_evaluations, visitor, number)
    return respond({"schema": 1, "evaluations": evaluations})


@MODELS_AND_JOBS.get(
    "/models/{number}/evaluations/{evaluation}",
    response_class=Response,
    responses=schemas.sends("text/html", description="the page"),
)
async def send_evaluation(request: Request, visitor: Who, number: StoredInt, evaluation: StoredInt) -> Response:
    """Return an evaluation as the page that `sordino synth report` writes."""
    text = await run_work(request, visitor, lambda: _evaluations(request).page(visitor, number, evaluation))
    headers = {"cache-control": "no-store", "content-disposition": 'attachment; filename="evaluation.html"'}
    return Response(text, media_type="text/html", headers=headers | {"content-security-policy": "sandbox"})


@MODELS_AND_JOBS.get("/jobs", responses=schemas.answers(schemas.Jobs))
async def list_jobs(request: Request, visitor: Who) -> Response:
    """Return jobs, each with its stage and elapsed time."""
    jobs = await run_in_threadpool(_models(request).list_jobs, visitor)
    return respond({"schema": 1, "jobs": [job.to_dict() for job in jobs]})


@MODELS_AND_JOBS.get("/jobs/{number}", responses=schemas.answers(schemas.Job))
async def show_job(request: Request, visitor: Who, number: StoredInt) -> Response:
    """Return a job; when it is done, `model` is the number of its model, or `step` that of a released period."""
    return respond((await run_in_threadpool(_models(request).find_job, visitor, number)).to_dict())


# ---- The routes of series: open, release a period, show

SERIES = api_router("series")


def _series(request: Request) -> SeriesService:
    series_service: SeriesService = request.app.state.series
    return series_service


@SERIES.post(
    "/series",
    openapi_extra=body_of(SERIES_SCHEMA),
    responses=schemas.answers(schemas.OpenedSeries, status=201, waits=True),
    status_code=201,
)
async def open_series(request: Request, visitor: Who, key: RequestId = None) -> Response:
    """Open a series, charged once for all of its periods; the same name and arguments again are the same series.

    202 says that an officer has to approve first: the same call with the same Idempotency-Key opens it afterwards.
    """
    body = await read_json(request)
    opened = await run_work(request, visitor, lambda: _series(request).open(visitor, body, request=key))
    return respond(opened, 201)


@SERIES.get("/series", responses=schemas.answers(schemas.SeriesList))
async def list_series(request: Request, visitor: Who) -> Response:
    """Return the series, as `sordino series show --format json`; an analyst sees its own."""
    return respond({"schema": 1, "series": await run_in_threadpool(_series(request).list_series, visitor)})


@SERIES.get("/series/{series}", responses=schemas.answers(schemas.SeriesRows))
async def show_series(request: Request, visitor: Who, series: str) -> Response:
    """Return a series with the rows of all released periods, with intervals at 95%."""
    return respond(await run_work(request, visitor, lambda: _series(request).show(visitor, series)))


@SERIES.post(
    "/series/{series}/releases",
    openapi_extra=body_of(fields_schema("period")),
    responses=schemas.answers(schemas.Job, status=201),
    status_code=201,
)
async def release_period(request: Request, visitor: Who, series: str, key: RequestId = None) -> Response:
    """Begin to release a period, {"period": "2026-11-24"}, at no charge; the answer is its job.

    What the job released is at /v1/series/{series}/releases/{period}. The same call and Idempotency-Key are the same job.
    """
    body = await read_json(request)
    job = await run_work(request, visitor, lambda: _series(request).release(visitor, series, body, request=key))
    return respond(job.to_dict(), 201)


@SERIES.get("/series/{series}/releases/{period}", responses=schemas.answers(schemas.Release))
async def show_period(
    request: Request, visitor: Who, series: str, period: str, confidence: Confidence = 0.95
) -> Response:
    """Return the release of a period, as `sordino series release --format json`; 404 where it was not released."""
    release = await run_work(request, visitor, lambda: _series(request).find_release(visitor, series, period))
    return respond(release.to_dict(confidence=confidence))


@SERIES.get("/series/{series}/window", responses=schemas.answers(schemas.Release))
async def show_window(
    request: Request, visitor: Who, series: str, first: str, last: str, confidence: Confidence = 0.95
) -> Response:
    """Return the total of the periods from `first` to `last`, from what was released; it costs nothing."""
    window = await run_work(request, visitor, lambda: _series(request).window(visitor, series, first, last))
    return respond(window.to_dict(confidence=confidence))


# ---- The routes by which people of an organisation sign in: to the provider, and back

LOGIN_PATH = "/v1/openid/login"
RETURN_PATH = "/v1/openid/return"
_COOKIE = "sordino_openid"
_PURPOSE = "openid"
# whoever has no account may make this server talk to the provider, which may be slow
_TALKS = ShortQueue(running=6, waiting=6)
OPENID = api_router("accounts", prefix="")
_ARRIVED = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url=/"><a href="/">Continue</a>'


def _provider(request: Request) -> OpenIdProvider:
    provider: OpenIdProvider | None = request.app.state.openid
    if provider is None:
        raise DeclarationError("this server knows no OpenID provider: state one in [serve] openid")
    return provider


@OPENID.get(LOGIN_PATH, status_code=303, response_class=RedirectResponse)
async def begin_openid(request: Request) -> Response:
    """Send a browser to the provider."""
    provider = _provider(request)

    def begin() -> tuple[str, OpenIdTry]:
        with _TALKS.hold():
            return provider.begin()

    address, begun = await run_in_threadpool(begin)
    answer = RedirectResponse(address, 303, headers={"cache-control": "no-store"})
    sealed = service_of(request).account_service.sessions.seal(_PURPOSE, begun.to_text().encode().hex())
    secure = address.startswith("https://") and (service_of(request).settings.origin or "").startswith("https://")
    # lax: the provider sends the browser back from another site
    answer.set_cookie(
        _COOKIE, sealed, max_age=TRY_SECONDS, path=RETURN_PATH, httponly=True, samesite="lax", secure=secure
    )
    return answer


@OPENID.get(RETURN_PATH, response_class=HTMLResponse)
async def finish_openid(request: Request, state: str = "", code: str = "") -> Response:
    """Begin the session of whoever comes back from the provider, where an account is bound to its subject."""
    provider = _provider(request)
    service = service_of(request)
    sealed = request.cookies.get(_COOKIE)
    if sealed is None:
        raise SignInNeeded("sign in again: this browser began no sign-in here, or too long ago")
    text = bytes.fromhex(service.account_service.sessions.unseal(_PURPOSE, sealed)).decode()
    try:
        begun = OpenIdTry.from_text(text)
    except (json.JSONDecodeError, TypeError):
        raise SignInNeeded("sign in again") from None

    def finish() -> str:
        with _TALKS.hold():
            return provider.finish(begun, state=state, code=code)

    subject = await run_in_threadpool(finish)
    account = await run_in_threadpool(service.account_service.accounts.with_subject, subject)
    if account is None or account.disabled:
        raise NotAllowed(f"no account is bound to {subject}: an officer can bind one")
    cookie, _ = await run_in_threadpool(lambda: service.account_service.begin_session(account, by="openid"))
    # a page, not a redirect: what follows a redirect from another site brings no strict cookie
    answer = HTMLResponse(_ARRIVED, headers={"cache-control": "no-store"})
    set_cookie(request, answer, cookie, seconds=SESSION_HOURS * 3600)
    answer.delete_cookie(_COOKIE, path=RETURN_PATH)
    return answer


# ---- The routes of questions: tables, plan, ask, budgets, past releases. JSON is that of the command line

QUESTIONS = api_router("questions")


@QUESTIONS.get("/tables", responses=schemas.answers(schemas.Tables))
async def list_tables(request: Request, visitor: Who) -> Response:
    """Return the declared tables."""
    tables = await run_in_threadpool(service_of(request).tables, visitor)
    return respond({"schema": 1, "tables": tables})


@QUESTIONS.post("/plan", openapi_extra=body_of(asked_schema()), responses=schemas.answers(schemas.Plan | schemas.Batch))
async def plan(request: Request, visitor: Who) -> Response:
    """Return what a question would cost and how wrong its answer would be; free, as `sordino plan --format json`."""
    question = read_question_request(await read_json(request))

    def work() -> Any:
        plans = service_of(request).plan(visitor, question)
        return plans.to_dict() if hasattr(plans, "plans") else plans.to_dict(confidence=question.confidence)

    return respond(await run_work(request, visitor, work))


@QUESTIONS.post(
    "/ask",
    openapi_extra=body_of(asked_schema()),
    responses=schemas.answers(schemas.Release | list[schemas.Release], waits=True),
)
async def ask(request: Request, visitor: Who, key: RequestId = None) -> Response:
    """Return the private answer, charged once, as `sordino ask --format json`; it leaves on the public clock.

    With an Idempotency-Key the same call again returns the same answer. 202 says that an officer has to approve first.
    """
    service = service_of(request)
    started = service.public_clock.start()
    question = read_question_request(await read_json(request))

    def work() -> list[Release]:
        try:
            return service.ask(visitor, question, request=key)
        finally:
            # the thread waits too: were it free before the answer leaves, the next of the account would tell when the work ended
            service.public_clock.sleep(started)

    releases = await run_work(request, visitor, work)
    answers = [release.to_dict(confidence=question.confidence) for release in releases]
    return respond(answers[0] if len(answers) == 1 else answers)


@QUESTIONS.get("/budgets", responses=schemas.answers(schemas.Budgets))
async def list_budgets(request: Request, visitor: Who, budget: str | None = None) -> Response:
    """Return how budgets stand, as `sordino budget --format json`; of the shares an analyst sees its own."""
    budgets = await run_in_threadpool(service_of(request).budgets, visitor, budget)
    return respond({"schema": 1, "budgets": budgets})


@QUESTIONS.get("/releases", responses=schemas.answers(schemas.Charges))
async def list_releases(request: Request, visitor: Who, budget: str | None = None) -> Response:
    """Return every question that was charged, as `sordino releases --format json`; an analyst sees its own."""
    charges = await run_in_threadpool(service_of(request).charges, visitor, budget=budget)
    return respond({"schema": 1, "releases": [charge_to_dict(name, charge) for name, charge in charges]})


@QUESTIONS.get("/releases/{charge}", responses=schemas.answers(schemas.Release))
async def show_release(
    request: Request, visitor: Who, charge: str, budget: str | None = None, confidence: Confidence = 0.95
) -> Response:
    """Return a past release as it was, as `sordino show --format json`."""
    release = await run_in_threadpool(service_of(request).release, visitor, charge, budget=budget)
    return respond(release.to_dict(confidence=confidence))


@QUESTIONS.get("/releases/{charge}/explanation", responses=schemas.answers(schemas.Explanation))
async def explain_release(request: Request, visitor: Who, charge: str, budget: str | None = None) -> Response:
    """Return in plain words what a past release reveals at most, as `sordino explain --format json`."""
    service = service_of(request)
    release = await run_in_threadpool(service.release, visitor, charge, budget=budget)
    text = await run_work(request, visitor, lambda: service.explain(visitor, charge, budget=budget))
    explanation = {"schema": 1, "charge": release.charge, "cost": loss_to_numbers(release.cost), "explanation": text}
    return respond(explanation)
