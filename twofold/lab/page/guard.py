"""Who may ask: a browser on this machine that was given the token, and nobody else.

Host must be exactly this server (a name that was bound to 127.0.0.1 by somebody else is refused), so must Origin where
there is one, and everything below /api needs the token in a header, which no other page can set.
"""

from __future__ import annotations

import hmac

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_HEADERS = {
    "content-security-policy": "default-src 'self'; img-src 'self' data: blob:; media-src blob:; object-src 'none'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
MAX_BODY = 100_000


class Guard:
    """ASGI middleware: refuses before anything is done, and sends every answer with strict headers."""

    def __init__(self, app: ASGIApp, *, token: str, port: int) -> None:
        self.app, self.token = app, token
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")}
        self.origins = {f"http://{host}" for host in self.hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no websockets here; the lifespan is not used
        refusal = self._refusal(scope)
        if refusal:
            await PlainTextResponse(refusal, 403, headers=_HEADERS)(scope, receive, send)
            return
        await self.app(scope, receive, _with_headers(send))

    def _refusal(self, scope: Scope) -> str | None:
        """Why this request is refused, or None."""
        headers: dict[str, list[str]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        if len(headers.get("host", [])) != 1 or headers["host"][0].lower() not in self.hosts:
            return "this server answers to its own name only"
        if any(origin.lower() not in self.origins for origin in headers.get("origin", [])):
            return "requests of other pages are refused"
        if headers.get("sec-fetch-site", ["none"])[0] not in ("none", "same-origin"):
            return "requests of other pages are refused"
        if not scope["path"].startswith("/api/"):
            return None
        given = headers.get("x-twofold-token", [""])[0]
        if not hmac.compare_digest(given.encode(), self.token.encode()):
            return "the token is missing or wrong: open the address that `twofold page` printed"
        length = headers.get("content-length", ["0"])[0]
        too_long = not length.isdigit() or int(length) > MAX_BODY or "transfer-encoding" in headers
        return "the request is too long" if too_long else None


def _with_headers(send: Send) -> Send:
    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = {name.encode(): value.encode() for name, value in _HEADERS.items()}
            kept = [(n, v) for n, v in message.get("headers", []) if n.lower() not in own]
            message = {**message, "headers": [*kept, *own.items()]}
        await send(message)

    return sending
