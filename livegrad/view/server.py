"""The page's server: loopback only, behind a random token, with nothing but the record.

    /TOKEN/                     the page
    /TOKEN/page/NAME            its scripts and styles: those in `SCRIPTS` and `STYLES`
    /TOKEN/api/WHAT?…           data; `doc` says of which record
    /TOKEN/control/WHAT         pause, resume, step, inspect, live (POST)

The Host header must be a name of this machine's own, so that no page of somebody else's can ask
through a name that it made point here.
"""

from __future__ import annotations

import errno
import gzip
import hmac
import json
import math
import secrets
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from livegrad.view.document import Document, chrome_trace
from livegrad.view.files import SCRIPTS, STYLES, page_of_server, part
from livegrad.view.gate import Gate

_OURS = ("127.0.0.1", "localhost", "[::1]")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_KINDS = {"js": "text/javascript", "css": "text/css"}


class Refused(Exception):
    """A request that gets no answer but a number and a word."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class Server:
    """Serves some records until it is closed."""

    def __init__(self, documents: Sequence[Document], gate: Gate | None = None, port: int = 0):
        self.documents = list(documents)
        self.gate = gate
        self.token = secrets.token_urlsafe(24)
        handler = type("Handler", (_Handler,), {"server_of": self})
        try:
            self._http = ThreadingHTTPServer(("127.0.0.1", port), handler)
        except OSError as error:
            if error.errno in (errno.EADDRINUSE, errno.EACCES):
                why = "is in use" if error.errno == errno.EADDRINUSE else "may not be used"
                raise RuntimeError(
                    f"view: port {port} {why}; choose another, or none to get a free one"
                ) from None
            raise
        self._http.daemon_threads = True
        self.port: int = self._http.server_address[1]
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """The link to open."""
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    def close(self) -> None:
        """Ends it."""
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    server_of: ClassVar[Server]
    server_version = "livegrad"
    sys_version = ""

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing: the program's output is its own."""

    def do_GET(self) -> None:
        """Gives out the page and its data."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Takes what the page's buttons ask for."""
        self._answer(self._post)

    def _answer(self, find: Callable[[str, dict[str, str]], tuple[str, str]]) -> None:
        try:
            path, options = self._checked()
            kind, text = find(path, options)
            self._send(200, kind, text)
        except Refused as refused:
            self._send(refused.status, "text/plain", refused.text)
        except (LookupError, ValueError) as error:
            self._send(404, "text/plain", str(error))
        except PermissionError as error:
            self._send(403, "text/plain", str(error))
        except (BrokenPipeError, ConnectionResetError):
            pass

    def _checked(self) -> tuple[str, dict[str, str]]:
        """The path behind the token, and what follows the question mark."""
        host = (self.headers.get("Host") or "").rsplit(":", 1)[0].lower()
        if host not in _OURS:
            raise Refused(403, "this server answers to this machine's own name alone")
        asked = urlsplit(self.path)
        _, _, rest = asked.path.partition("/")
        token, slash, path = rest.partition("/")
        if not slash or not hmac.compare_digest(token.encode(), self.server_of.token.encode()):
            raise Refused(403, "the link has a token in it; this request has another or none")
        return path, {name: values[-1] for name, values in parse_qs(asked.query).items()}

    def _get(self, path: str, options: dict[str, str]) -> tuple[str, str]:
        if path == "":
            return "text/html", page_of_server()
        top, _, name = path.partition("/")
        if top == "page" and name in (*SCRIPTS, *STYLES):
            return _KINDS[name.rpartition(".")[2]], part(name)
        if top == "api":
            return "application/json", json.dumps(_plain(self._data(name, options)))
        raise Refused(404, "there is no such thing")

    def _data(self, what: str, options: dict[str, str]) -> Any:
        documents = self.server_of.documents
        document = documents[int(options.get("doc", "0"))]
        if what == "overview":
            return document.overview() | {"documents": len(documents)}
        if what == "step":
            return document.step(int(options["n"]))
        if what == "code":
            return document.code(int(options["step"]), int(options["kernel"]))
        if what == "source":
            return document.source(options["file"])
        if what == "limits":
            return document.limits()
        if what == "trace":
            return chrome_trace(document, [int(n) for n in options["steps"].split(",")])
        raise Refused(404, "there is no such data")

    def _post(self, path: str, options: dict[str, str]) -> tuple[str, str]:
        gate = self.server_of.gate
        # A form of another page cannot set a header of its own.
        if self.headers.get("X-Livegrad") != "1":
            raise Refused(403, "only the page may ask for this")
        if gate is None or not path.startswith("control/"):
            raise Refused(404, "nothing is running here")
        answer = gate.ask(path.removeprefix("control/"), options)
        return "application/json", json.dumps(_plain(answer))

    def _send(self, status: int, kind: str, text: str) -> None:
        body = text.encode()
        packed = len(body) > 2000 and "gzip" in (self.headers.get("Accept-Encoding") or "")
        if packed:
            body = gzip.compress(body, 3)
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        if packed:
            self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Security-Policy", _POLICY)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(body)


def _plain(data: Any) -> Any:
    """JSON has no NaN and inf: browsers would refuse the whole."""
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, dict):
        return {str(key): _plain(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_plain(value) for value in data]
    return data
