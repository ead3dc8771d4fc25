"""A page served from a thread of the tests, and questions to it."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOKEN = "the-token-of-the-tests"


@dataclass
class Served:
    """Where the page is."""

    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/#token={TOKEN}"

    def ask(self, name: str, question: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and answer of a question."""
        status, content, _ = self.raw("POST", f"/api/{name}", json.dumps(question or {}).encode(), **headers)
        try:
            return status, json.loads(content)
        except ValueError:
            return status, content

    def raw(
        self, method: str, path: str, body: bytes | None = None, **headers: str
    ) -> tuple[int, bytes, dict[str, str]]:
        """Status, content and headers; a header given as None is left out."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        given = {"host": f"127.0.0.1:{self.port}", "x-twofold-token": TOKEN}
        given |= {name.replace("_", "-"): value for name, value in headers.items()}
        connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
        for name, value in given.items():
            if value:
                connection.putheader(name, value)
        if body is not None:
            connection.putheader("content-length", str(len(body)))
        connection.endheaders(body)
        answer = connection.getresponse()
        found = answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()}
        connection.close()
        return found


@contextmanager
def served(place: Path) -> Iterator[Served]:
    """The page of a folder, until the block ends."""
    import uvicorn

    from twofold.base.listening import listen
    from twofold.lab.page.server import make_app

    with listen("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        config = uvicorn.Config(
            make_app(place, TOKEN, port), log_level="error", access_log=False, lifespan="off"
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield Served(port)
        finally:
            server.should_exit = True
            thread.join()
