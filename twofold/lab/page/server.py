"""The server of the page: a handful of questions about runs, answered as JSON, on 127.0.0.1 only.

No path is ever built from a request: runs, films and panels are chosen among those that were found.
"""

from __future__ import annotations

import json
import math
import secrets
import subprocess
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from twofold.base.errors import CheckpointError, UserError
from twofold.base.foreign_json import log_records, names, parse_json
from twofold.base.listening import listen
from twofold.base.regular import is_folder, is_there, open_regular, read_regular
from twofold.base.values import Json, Values
from twofold.lab.compare import compare, score_named, to_data
from twofold.lab.figures import curves_figure
from twofold.lab.groups import Group
from twofold.lab.page import actions
from twofold.lab.page.catalogue import (
    Catalogue,
    curve_data,
    mean_data,
    overview,
    panel_paths,
    run_data,
    run_files,
    run_id,
)
from twofold.lab.page.guard import MAX_BODY, Guard
from twofold.lab.page.sweeps import SweepData, find_sweeps, list_sweeps, sweep_data
from twofold.lab.report import film_paths, write_report
from twofold.lab.runs import RunRecord
from twofold.settings.config import neutral
from twofold.show.panels import read_panel
from twofold.show.style import to_bytes

_STATIC = Path(__file__).resolve().parent / "static"
_TYPES = {".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".svg": "image/svg+xml"}
_FILM_TYPES = {
    ".mp4": "video/mp4",
    ".webm": "video/webm",
    ".gif": "image/gif",
    ".png": "image/png",
    ".jpg": "image/jpeg",
}
_MAX_FILM = 64_000_000
_LOG_TAIL = 20_000
_MAX_IDS = 2_000
_USUAL = Path("runs")  # where `train` puts runs: the page may be opened before the first of them
Asked = dict[str, Json]  # a question as it was sent
Answering = Callable[[Request], Awaitable[Response]]


class Page:
    """What the routes share: the runs, and the processes that were resumed from here."""

    def __init__(self, place: Path) -> None:
        self.catalogue = Catalogue(place)
        self.children: list[subprocess.Popen[bytes]] = []

    def run(self, asked: Asked) -> RunRecord:
        found = self.catalogue.run(str(asked.get("run", "")))
        if found is None:
            raise UserError("no such run")
        return found

    # ---- answers: each takes what was asked and gives what is sent ----

    def runs(self, asked: Asked) -> Values:
        """The table; almost nothing if the asker has this version already."""
        self.catalogue.refresh()
        self.children = [child for child in self.children if child.poll() is None]
        if str(asked.get("version")) == str(self.catalogue.version):
            return {"version": self.catalogue.version, "same": True}
        return overview(self.catalogue)

    def curves(self, asked: Asked) -> Values:
        """Curves of runs by id; of each only the points beyond those that the asker has."""
        wanted = asked.get("runs")
        if not isinstance(wanted, dict) or len(wanted) > _MAX_IDS:
            raise UserError(f"runs must be at most {_MAX_IDS:,} ids, each with the number of points known")
        metric, hours = str(asked.get("metric", "return")), asked.get("x") == "hours"
        found = {}
        for id, have in wanted.items():
            run = self.catalogue.run(str(id))
            if run is not None and isinstance(have, int):
                data = curve_data(run, metric, hours)
                start = have if 0 <= have <= len(data["x"]) else 0  # fewer points than known: it was cut
                found[id] = {"from": start, "x": data["x"][start:], "y": data["y"][start:]}
        return {"curves": found}

    def means(self, asked: Asked) -> Values:
        """The mean of each group over its seeds, with its interval."""
        metric, known = str(asked.get("metric", "return")), self.catalogue.groups()
        return {"means": {id: mean_data(known[id], metric) for id in self._ids(asked) if id in known}}

    def one(self, asked: Asked) -> Values:
        """A run in all its parts."""
        run = self.run(asked)
        settings = [
            {"name": k, "value": v, "layer": run.origin.get(k, ""), "neutral": k in neutral()}
            for k, v in sorted(run.settings.items())
        ]
        return {
            **run_data(run),
            **run_files(run),
            "settings": settings,
            "provenance": vars(run.provenance),
            "resume": actions.resume_command(run),
            "metrics": {m: len(c.steps) for m, c in run.curves.get(run.headline, {}).items()},
            "tests": {w: {m: s.__dict__ for m, s in ms.items()} for w, ms in run.test.items()},
            "starts": _some_lines(run.folder / "starts.jsonl"),
            "log": _tail(run.folder / "log.txt"),
        }

    def evaluations(self, asked: Asked) -> Values:
        """Every evaluation of a run as it was written."""
        return {"evaluations": _some_lines(self.run(asked).folder / "evaluations.jsonl", 5_000)}

    def panel(self, asked: Asked) -> Values:
        run = self.run(asked)
        paths = [path for path in panel_paths(run.folder) if path.stem == asked.get("name")]
        if not paths:
            raise UserError("no such panel")
        return read_panel(paths[0])

    def sweeps(self, asked: Asked) -> Values:
        """All sweeps, a line each."""
        return {"sweeps": list_sweeps(self.catalogue.place)}

    def sweep(self, asked: Asked) -> SweepData:
        """A sweep in all its parts; its runs are known by their ids."""
        folders = [f for f in find_sweeps(self.catalogue.place) if run_id(f) == asked.get("sweep")]
        if not folders:
            raise UserError("no such sweep")
        data = sweep_data(folders[0])
        for trial in data["trials"]:
            trial["run"] = trial["run"] if self.catalogue.run(str(trial["run"])) else None
        return data

    def compare(self, asked: Asked) -> Values:
        """The same as `compare --json` with the runs of these groups."""
        return to_data(
            compare(
                self._places(asked),
                score=score_named(str(asked.get("score", "test"))),
                names=self._names(asked),
            )
        )

    def stop(self, asked: Asked) -> Values:
        return {"process": actions.stop(self.run(asked))}

    def resume(self, asked: Asked) -> Values:
        child = actions.resume(self.run(asked))
        self.children.append(child)
        return {"process": child.pid}

    # ---- answers that are files ----

    def film(self, asked: Asked) -> Response:
        run = self.run(asked)
        paths = [path for path in film_paths(run.folder) if path.name == asked.get("name")]
        if not paths:
            raise UserError("no such film")
        kind = _FILM_TYPES[paths[0].suffix.lower()]
        return Response(read_regular(paths[0], _MAX_FILM), media_type=kind)

    def figure(self, asked: Asked) -> Response:
        groups = self._groups(asked)
        figure = curves_figure(groups, str(asked.get("metric", "return")))
        return Response(to_bytes(figure, "svg"), media_type="image/svg+xml")

    def report(self, asked: Asked) -> Response:
        """The report of these groups as one file; it is written nowhere."""
        from tempfile import TemporaryDirectory

        with TemporaryDirectory(prefix="twofold_") as folder:
            made = write_report(self._places(asked), Path(folder), names=self._names(asked))
            return Response(read_regular(made.page), media_type="text/html")

    def _ids(self, asked: Asked) -> list[str]:
        ids = asked.get("groups")
        if not isinstance(ids, list) or not 1 <= len(ids) <= 50:
            raise UserError("groups must be a list of one to fifty ids")
        return [str(id) for id in ids]

    def _groups(self, asked: Asked) -> list[Group]:
        known = self.catalogue.groups()
        found = [known[id] for id in self._ids(asked) if id in known]
        if not found:
            raise UserError("no such group")
        return found

    def _places(self, asked: Asked) -> list[Path]:
        return [run.folder for group in self._groups(asked) for run in (*group.runs, *group.copies)]

    def _names(self, asked: Asked) -> dict[Path, str]:
        """Groups keep the names that the table gives them."""
        return {run.folder: group.name for group in self._groups(asked) for run in group.runs}


def _some_lines(path: Path, limit: int = 1_000) -> list[dict[str, Json]]:
    """The last lines of a log, none if it is absent or damaged."""
    try:
        return list(deque(log_records(path), limit))
    except UserError:
        return []


def _tail(path: Path) -> str:
    try:
        with open_regular(path) as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - _LOG_TAIL))
            return file.read().decode(errors="replace")
    except (UserError, OSError):
        return ""


# ---- HTTP ---------------------------------------------------------------------------------------------------------


def make_app(place: Path, token: str, port: int) -> Starlette:
    """The application: static files by name, questions as POST with a JSON body."""
    page = Page(place)
    questions: dict[str, Callable[[Asked], object]] = {
        "runs": page.runs,
        "curves": page.curves,
        "means": page.means,
        "one": page.one,
        "evaluations": page.evaluations,
        "panel": page.panel,
        "sweeps": page.sweeps,
        "sweep": page.sweep,
        "compare": page.compare,
        "stop": page.stop,
        "resume": page.resume,
        "film": page.film,
        "figure": page.figure,
        "report": page.report,
    }
    routes = [Route(f"/api/{name}", _answer(ask), methods=["POST"]) for name, ask in questions.items()]
    for path in sorted(_STATIC.rglob("*")):
        if path.suffix in _TYPES:
            name = path.relative_to(_STATIC).as_posix()
            routes.append(Route("/" if name == "index.html" else f"/{name}", _static(path), methods=["GET"]))
    return Starlette(routes=routes, middleware=[Middleware(Guard, token=token, port=port)])


def _static(path: Path) -> Answering:
    async def send(request: Request) -> Response:
        return Response(read_regular(path, follow=True), media_type=_TYPES[path.suffix])

    return send


def _answer(question: Callable[[Asked], object]) -> Answering:
    async def answer(request: Request) -> Response:
        try:
            question_text = (await request.body())[: MAX_BODY + 1] or b"{}"
            asked = names(parse_json(question_text, "the question"), Path("the question"))
        except CheckpointError:
            return JSONResponse({"error": "the question is not JSON"}, 400)
        try:
            found = await run_in_threadpool(question, asked)
        except UserError as error:
            return JSONResponse({"error": str(error)}, 404)
        return found if isinstance(found, Response) else Response(_told(found), media_type="application/json")

    return answer


def _told(value: object) -> bytes:
    """JSON that a browser reads, whatever folders are called and whichever numbers settings are."""
    try:
        return json.dumps(value, allow_nan=False).encode()
    except ValueError:
        return json.dumps(_finite(value)).encode()


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(one) for one in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def address(port: int, token: str) -> str:
    """What to open: the token is in the fragment, which is never sent and never logged."""
    return f"http://127.0.0.1:{port}/#token={token}"


def serve(
    place: Path, port: int = 0, token: str | None = None, announce: Callable[[str], None] = lambda _: None
) -> None:
    """Serve the page until interrupted; from another machine it is reached through ssh -L."""
    import uvicorn

    if not is_folder(place) and (place != _USUAL or is_there(place)):
        raise UserError(f"{place} is not a directory: give the folder that holds your runs")
    secret = token or secrets.token_urlsafe(24)
    with listen("127.0.0.1", port) as listening:
        chosen = listening.getsockname()[1]
        app = make_app(place, secret, chosen)
        config = uvicorn.Config(app, log_level="error", access_log=False, server_header=False, lifespan="off")
        announce(address(chosen, secret))
        uvicorn.Server(config).run(sockets=[listening])
