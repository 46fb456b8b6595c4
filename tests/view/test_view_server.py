"""The page's server gives out the record, to who has the link, and nothing else."""

from __future__ import annotations

import gzip
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from urllib.request import urlopen

import pytest

import livegrad as lg
from livegrad import nn
from livegrad.view import View
from livegrad.view.files import SCRIPTS, FileDocument
from livegrad.view.record import MOST_STEPS
from livegrad.view.session import invitation
from tests.view.networks import Net, train, watched


@pytest.fixture
def page() -> Iterator[View]:
    made = lg.view(open=False)
    try:
        train(Net(), 4)
        made.stop()
        yield made
    finally:
        made.close()


def ask(
    view: View, path: str, *, token: str | None = None, method: str = "GET", **headers: str
) -> tuple[int, str]:
    """The answer to a request below the token."""
    url = urlsplit(view.url)
    token = url.path.strip("/") if token is None else token
    connection = http.client.HTTPConnection("127.0.0.1", url.port, timeout=10)
    try:
        connection.request(method, f"/{token}/{path}", headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def data(view: View, path: str) -> Any:
    status, text = ask(view, f"api/{path}")
    assert status == 200, text
    return json.loads(text)


def test_the_page_and_its_data(page: View) -> None:
    status, text = ask(page, "")
    assert status == 200
    assert "<!DOCTYPE html>" in text
    for name in SCRIPTS:
        assert ask(page, f"page/{name}")[0] == 200
    overview = data(page, "overview")
    assert [step["n"] for step in overview["steps"]] == [0, 1, 2, 3]
    step = data(page, "step?n=3")
    assert step["nodes"]["rows"]
    assert step["kernels"]
    code = data(page, f"code?step=3&kernel={step['kernels'][-1]['number']}")
    assert "define" in code["ir"]
    assert code["assembly"]
    assert data(page, "limits")["bytes"] > 0
    assert data(page, "trace?steps=2,3")["traceEvents"]


@pytest.mark.parametrize("token", ["", "wrong", "x" * 32, "%2e%2e"])
def test_without_the_token_there_is_nothing(page: View, token: str) -> None:
    for path in ("", "api/overview", "page/main.js", "control/pause"):
        assert ask(page, path, token=token)[0] == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "", "127.0.0.1.evil.example"])
def test_other_hosts_are_refused(page: View, host: str) -> None:
    assert ask(page, "", Host=host)[0] == 403


def test_forwarded_ports_are_not(page: View) -> None:
    assert ask(page, "", Host="localhost:9999")[0] == 200


@pytest.mark.parametrize(
    "path",
    [
        "page/../server.py",
        "page/%2e%2e/server.py",
        "page//etc/passwd",
        "page/index.html",
        "../../etc/passwd",
        "api/nothing",
        "api/step?n=999",
        "api/step?n=x",
        "api/step",
        "api/overview?doc=7",
        "api/code?step=3&kernel=9999",
    ],
)
def test_there_is_nothing_else(page: View, path: str) -> None:
    assert ask(page, path)[0] in (403, 404)


def test_only_the_programs_own_files_are_read(page: View) -> None:
    data(page, "step?n=3")
    mine = str(Path(__file__).with_name("networks.py"))
    assert "class Net" in data(page, f"source?file={quote(mine)}")["text"]
    for other in ("/etc/passwd", __file__, mine + "/../test_view_server.py", "networks.py"):
        assert ask(page, f"api/source?file={quote(other)}")[0] == 403
    assert ask(page, "api/source?file=")[0] == 404


def test_it_listens_on_loopback_alone(page: View) -> None:
    assert page._server._http.server_address[0] == "127.0.0.1"


def test_buttons_need_the_pages_header(page: View) -> None:
    assert ask(page, "control/pause", method="POST")[0] == 403
    assert ask(page, "control/pause")[0] == 404
    assert ask(page, "control/nothing", method="POST", **{"X-Livegrad": "1"})[0] == 404


def test_a_port_in_use() -> None:
    one = lg.view(open=False)
    try:
        port = one._server.port
        one.stop()
        with pytest.raises(RuntimeError, match=f"port {port} is in use"):
            lg.view(open=False, port=port)
        lg.ones(3).sum().item()  # which is watched by nobody
    finally:
        one.close()


def test_a_remote_shell_is_told_how_to_forward() -> None:
    text = invitation("http://127.0.0.1:7/x/", 7, True)
    assert "ssh -N -L 7:127.0.0.1:7" in text
    assert "ssh" not in invitation("http://127.0.0.1:7/x/", 7, False)


def test_pause_step_inspect_and_go_on() -> None:
    made = lg.view(open=False)
    header = {"X-Livegrad": "1"}
    seen: dict[str, Any] = {}

    def use_buttons() -> None:
        def press(what: str) -> Any:
            return json.loads(ask(made, f"control/{what}", method="POST", **header)[1])

        def last_step() -> int:  # by its number: of many steps, the page keeps the last only
            return int(data(made, "overview")["steps"][-1]["n"])

        try:
            press("pause")
            while not data(made, "overview")["paused"]:
                pass
            before = last_step()
            seen["weight"] = press("inspect?name=Net.first.weight")
            seen["absent"] = press("inspect?name=nothing")
            press("step")
            while last_step() == before:
                pass
            seen["steps"] = last_step() - before
        finally:
            press("resume")

    try:
        thread = threading.Thread(target=use_buttons)
        net = Net()
        train(net, MOST_STEPS + 1)
        thread.start()
        while thread.is_alive():
            train(net, 1)
        thread.join()
    finally:
        made.close()
    assert seen["weight"]["shape"] == [8, 6]
    assert len(seen["weight"]["first"]) == 48
    assert "no parameter" in seen["absent"]["problem"]
    assert seen["steps"] == 1


# ----------------------------------------------------------------------------------------- files


class Evil(nn.Module):
    """A module whose part has a name that must stay a name."""

    def __init__(self) -> None:
        super().__init__()
        self.add_module("</script><script>alert(1)</script>", nn.Linear(2, 2))

    def forward(self, x: lg.Tensor) -> lg.Tensor:
        (part,) = self.children()
        return part(x)


def test_names_stay_names(tmp_path: Path) -> None:
    with lg.watch() as watching:
        Evil()(lg.ones(1, 2)).sum().item()
    text = watching.save(tmp_path / "step.html").read_text()
    blocks = re.findall(r'<script type="application/json" [^>]*>(.*)</script>\n', text)
    assert len(blocks) == 1 + len(watching.steps)
    assert "alert(1)" in blocks[-1]
    assert not [block for block in blocks if "<" in block]
    assert "Content-Security-Policy" in text
    assert "<script>alert" not in watching.graph()._repr_html_()


def test_a_record_is_read_back(tmp_path: Path) -> None:
    watching = watched(steps=3)
    path = watching.save(tmp_path / "run.lgv")
    found = FileDocument(path)
    assert found.step(2)["nodes"]["rows"] == json.loads(
        json.dumps(watching.document.step(2)["nodes"]["rows"])
    )
    assert found.overview()["title"] == "run.lgv"
    made = lg.view(path, path, open=False)
    try:
        assert data(made, "overview")["documents"] == 2
        assert data(made, "step?n=2&doc=1")["kernels"]
        with pytest.raises(RuntimeError, match="shows a file"):
            made.graph()
    finally:
        made.close()


@pytest.mark.parametrize(
    "content",
    [b"", b"text", gzip.compress(b"[1]"), gzip.compress(b"{}")],
    ids=["none", "text", "list", "dict"],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "odd.lgv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="no record"):
        lg.view(path, open=False)


def test_where_to_save(tmp_path: Path) -> None:
    watching = watched(steps=2)
    with pytest.raises(ValueError, match="Expected .html"):
        watching.save(tmp_path / "step.png")
    trace = json.loads(watching.save(tmp_path / "trace.json").read_text())
    assert {event["ph"] for event in trace["traceEvents"]} == {"M", "X"}


def test_sources_that_are_gone_or_changed(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text("def f(x):\n    return x.exp()\n")
    names: dict[str, Any] = {}
    exec(compile(program.read_text(), str(program), "exec"), names)
    with lg.watch() as watching:
        names["f"](lg.ones(3)).sum().item()
    document = watching.document
    document.step(0)
    assert document.source(str(program))["text"].startswith("def f")
    os.utime(program, (2**32, 2**32))
    assert document.source(str(program))["changed"]
    program.unlink()
    assert "cannot be read" in document.source(str(program))["problem"]
    watching.save(tmp_path / "step.html")


# --------------------------------------------------------------------------------------- command


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "livegrad", "view", *arguments],
        capture_output=True, text=True, timeout=120, env=os.environ | environment, check=False,
    )  # fmt: skip


PROGRAM = """
import sys
import livegrad as lg
assert __name__ == "__main__"
x = lg.ones(3, 4)
print(sys.argv[1:], (x @ x.T).sum().item())
if "fail" in sys.argv:
    x @ x
"""


@pytest.mark.slow
def test_a_script_as_it_is(tmp_path: Path) -> None:
    script, record = tmp_path / "script.py", tmp_path / "run.lgv"
    script.write_text(PROGRAM)
    done = run("--save", str(record), str(script), "--lr", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "['--lr', '1'] 36.0\n"
    assert "matmul" in FileDocument(record).step(0)["nodes"]["texts"]
    done = run("--save", str(record), str(script), "fail")
    assert done.returncode == 1
    assert "RuntimeError" in done.stderr
    last = FileDocument(record).overview()["steps"][-1]
    assert last["error"] == "RuntimeError"


@pytest.mark.slow
def test_a_pytorch_program_is_watched_as_livegrad_run_runs_it(tmp_path: Path) -> None:
    script, record = tmp_path / "script.py", tmp_path / "run.lgv"
    script.write_text("import torch\nprint(torch.ones(3).exp().sum().item())")
    done = run("--save", str(record), str(script))
    assert done.returncode == 0, done.stderr
    assert "exp" in FileDocument(record).step(0)["nodes"]["texts"]
    assert "nothing" not in done.stderr
    script.write_text("print('nothing to see')")
    assert "computed nothing with livegrad" in run("--save", str(record), str(script)).stderr


@pytest.mark.slow
def test_what_cannot_be_shown(tmp_path: Path) -> None:
    odd = tmp_path / "odd.lgv"
    odd.write_text("nothing")
    assert "no record" in run(str(odd)).stderr
    assert "there is no file" in run(str(tmp_path / "absent.py")).stderr


@pytest.mark.slow
def test_a_script_is_shown_until_ctrl_c(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    command = [sys.executable, "-m", "livegrad", "view", "--no-browser", str(script)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            link = process.stderr.readline().split()[-1]
            assert link.startswith("http://127.0.0.1:")
            assert "ended" in process.stderr.readline()
            with urlopen(link + "api/overview", timeout=10) as answer:
                assert json.load(answer)["title"] == "script.py"
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 0
        finally:
            process.kill()


@pytest.mark.slow
def test_what_cannot_be_done_is_said_before_the_program_runs(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("print('it runs')\n")
    done = run("--save", "record.txt", str(script))
    assert done.returncode != 0
    assert "what kind of file is 'record.txt'" in done.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = run("--no-browser", "--port", str(port), str(script))
    assert done.stderr.strip().endswith("choose another, or none to get a free one")
    assert "Traceback" not in done.stderr
    assert "it runs" not in done.stdout


def test_no_browser(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("BROWSER", "/no/such/browser")
    for name in ("SSH_CONNECTION", "SSH_TTY"):
        monkeypatch.delenv(name, raising=False)

    class Closed:
        def open(self, url: str) -> bool:
            return False

    monkeypatch.setattr("webbrowser.get", lambda: Closed())
    made = lg.view()
    made.close()
    said = capsys.readouterr().err
    assert made.url in said
    assert "open the link yourself" in said
