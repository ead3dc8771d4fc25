"""The recommender over HTTP: /recommend, /feedback, /health, a page to try it, and an OpenAPI description."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar, get_args

import torch
import uvicorn
from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from twofold.base.errors import UserError
from twofold.base.listening import listen
from twofold.base.regular import read_text
from twofold.base.values import Values
from twofold.recsys.menu import By
from twofold.recsys.recommend import Recommender
from twofold.recsys.service import Answer, Ask, Busy, Feedback, Health, Noted, Refused, Service

MOST_BYTES = 1_000_000  # of a request
PAGE = Path(__file__).resolve().parent / "page.html"
LOCAL = ("127.0.0.1", "localhost", "[::1]")
ANY = "*"
Asked = TypeVar("Asked", bound=BaseModel)


def app_of(service: Service, hosts: tuple[str, ...] = LOCAL) -> Starlette:
    """The application; requests for other hosts than these are refused, since a page elsewhere may not ask for us."""

    async def recommend(request: Request) -> Response:
        return _json(await service.recommend(await _asked(request, Ask)))

    async def recommend_by_query(request: Request) -> Response:
        return _json(await service.recommend(_of_query(request)))

    async def feedback(request: Request) -> Response:
        return _json(service.feedback(await _asked(request, Feedback)))

    async def health(request: Request) -> Response:
        return _json(service.health())

    async def users(request: Request) -> Response:
        return JSONResponse(list(service.recommender.labels.users[:1000]))

    async def history(request: Request) -> Response:
        return JSONResponse(rated_titles(service, request.path_params["user"]))

    async def openapi(request: Request) -> Response:
        return JSONResponse(description())

    async def page(request: Request) -> Response:
        return HTMLResponse(read_text(PAGE))

    routes = [
        Route("/recommend", recommend, methods=["POST"]),
        Route("/recommend", recommend_by_query, methods=["GET"]),
        Route("/feedback", feedback, methods=["POST"]),
        Route("/health", health),
        Route("/users", users),
        Route("/users/{user}", history),
        Route("/openapi.json", openapi),
        Route("/", page),
    ]
    return Starlette(
        routes=routes,
        middleware=[Middleware(Guard, hosts=hosts)],
        exception_handlers={HTTPException: _refuse_http, Busy: _refuse(503), UserError: _refuse(422)},
    )


class Guard:
    """Refuses what another web page makes a browser send: to a name that is not ours, or a change from elsewhere."""

    def __init__(self, app: ASGIApp, *, hosts: tuple[str, ...]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope["method"], Headers(scope=scope)) if scope["type"] == "http" else None
        await (refusal or self.app)(scope, receive, send)

    def _refusal(self, method: str, headers: Headers) -> Response | None:
        host = headers.get("host", "").lower()
        name = host if host.endswith("]") else host.rpartition(":")[0] or host
        if ANY not in self.hosts and name not in self.hosts:
            return JSONResponse({"error": "this server answers to its own name only"}, 400)
        # A form or a script of any page may post plain text here without asking first.
        origin = headers.get("origin", f"http://{host}").lower().partition("://")[2]
        same = headers.get("sec-fetch-site", "same-origin" if origin == host else "") == "same-origin"
        if method in ("GET", "HEAD") or same:
            return None
        return JSONResponse({"error": "requests of other pages are refused"}, 403)


def rated_titles(service: Service, user: str) -> list[str]:
    """What a user rated in the data, in words."""
    labels = service.recommender.labels
    number = labels.user_numbers.get(user, -1)
    return [labels.title(item) for item in labels.rated(number).tolist()[:200]]


def _json(answer: BaseModel) -> Response:
    return Response(answer.model_dump_json(), media_type="application/json")


async def _asked(request: Request, kind: type[Asked]) -> Asked:
    """The body of a request as what it must be; too long, no JSON and wrong values each have their own answer."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise HTTPException(413, f"a request may have {MOST_BYTES} bytes")
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise HTTPException(
            400 if first["type"] == "json_invalid" else 422, f"{where}: {first['msg']}"
        ) from None


def _of_query(request: Request) -> Ask:
    """A question in the address: ?user=17&k=5."""
    given = dict(request.query_params)
    if unknown := given.keys() - {"user", "k", "by"}:
        raise HTTPException(422, f"unknown: {', '.join(sorted(unknown))}; a history goes by POST")
    try:
        asked = {"user": given.get("user"), "k": int(given.get("k", 10)), "by": given.get("by")}
        return Ask.model_validate(asked)
    except ValidationError as error:
        first = error.errors()[0]
        raise HTTPException(422, f"{first['loc'][0]}: {first['msg']}") from None
    except ValueError:
        raise HTTPException(422, "k: must be a whole number") from None


def _refuse(status: int) -> Callable[[Request, Exception], Awaitable[Response]]:
    async def answer(request: Request, error: Exception) -> Response:
        return JSONResponse({"error": str(error)}, status)

    return answer


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # what the handler is registered for
    return JSONResponse({"error": error.detail}, error.status_code)


def description() -> Values:
    """The service in OpenAPI's terms, made from the same models that check requests."""
    kinds: list[type[BaseModel]] = [Ask, Answer, Feedback, Noted, Health, Refused]
    ways = [(kind, "validation") for kind in kinds]
    _, schemas = models_json_schema(ways, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]
    query = [
        {"name": "user", "in": "query", "schema": {"type": "string"}},
        {"name": "k", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 1000}},
        {"name": "by", "in": "query", "schema": {"enum": list(get_args(By))}},
    ]
    paths = {
        "/recommend": {
            "post": _operation("items for a user and a history", Answer, Ask),
            "get": _operation("items for a user", Answer) | {"parameters": query},
        },
        "/feedback": {"post": _operation("tell what a user was shown or has rated", Noted, Feedback)},
        "/health": {"get": _operation("what is served", Health)},
    }
    about = {"title": "twofold recommender", "version": "1"}
    return {"openapi": "3.1.0", "info": about, "paths": paths, "components": {"schemas": schemas["$defs"]}}


def _operation(summary: str, answer: type[BaseModel], ask: type[BaseModel] | None = None) -> Values:
    responses = {"200": _content(answer, "the answer")}
    found: Values = {"summary": summary, "responses": responses}
    if ask is not None:
        found["requestBody"] = _content(ask, "the question") | {"required": True}
        refused = {"400": "not JSON", "413": "too long", "422": "a wrong value", "503": "too many questions"}
        responses |= {status: _content(Refused, why) for status, why in refused.items()}
    return found


def _content(kind: type[BaseModel], about: str) -> Values:
    schema = {"$ref": f"#/components/schemas/{kind.__name__}"}
    return {"description": about, "content": {"application/json": {"schema": schema}}}


def serve(
    policy: Recommender, host: str, port: int, announce: Callable[[str], None], by: By = "policy"
) -> None:
    """Answer requests until stopped; `announce` is told the address once it listens."""
    torch.set_num_threads(1)
    with listen(host, port) as listening:
        address, chosen = listening.getsockname()[:2]
        shown = f"[{address}]" if ":" in address else address
        hosts = LOCAL if shown in LOCAL else (ANY,)
        announce(f"http://{shown}:{chosen}/")
        config = uvicorn.Config(app_of(Service(policy, by), hosts), log_level="warning", access_log=False)
        uvicorn.Server(config).run(sockets=[listening])
