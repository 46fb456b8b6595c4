"""The page in a real browser: it opens, expands, searches, links both ways, and asks nobody else.

It needs Playwright and Chromium: `pip install playwright`, `apt-get install chromium`.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import livegrad as lg
from livegrad import nn
from livegrad.view import Graph, GraphNode, StepRecord, Watch
from livegrad.view.files import FileDocument, page_with, save
from tests.debug.test_live import BROKEN, NEW_ACTIVATION, Program

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None:
    pytest.skip("chromium is not installed", allow_module_level=True)

pytestmark = pytest.mark.slow


class Page:
    """A page that notes what it complains of, and whom it asks."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.problems: list[str] = []
        self.asked: list[str] = []
        page.on("console", lambda m: self.problems.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("dialog", lambda dialog: (self.problems.append("a dialog"), dialog.dismiss()))

    def open(self, url: str) -> Any:
        self.page.goto(url)
        self.page.wait_for_selector("body[data-ready]")
        return self.page

    def tab(self, name: str) -> Any:
        self.page.click(f"#tab-{name}")
        return self.page.locator(f"#panel-{name}")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    made = Page(context.new_page())
    yield made
    context.close()
    assert made.problems == []
    assert [url for url in made.asked if not url.startswith(("file://", "http://127.0.0.1:"))] == [
        url for url in made.asked if url.startswith(("data:", "blob:"))
    ]


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 8)
        self.add_module("<img src=x onerror=alert(1)>", nn.Linear(8, 8))
        self.last = nn.Linear(8, 3)
        self.deep = False

    def forward(self, x: lg.Tensor) -> lg.Tensor:
        x = self.first(x).relu()
        x = getattr(self, "<img src=x onerror=alert(1)>")(x)
        if self.deep:
            x = x.tanh()
        return self.last(x)


def train(net: nn.Module, optimizer: Any, steps: int) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        loss = net(lg.randn(16, 6)).square().mean()
        loss.backward()
        optimizer.step()
        loss.item()


@pytest.fixture(scope="module")
def watching() -> Watch:
    net = Net()
    optimizer = lg.optim.SGD(net.parameters(), lr=0.1)
    with lg.watch(values=True) as found:
        train(net, optimizer, 3)
        net.deep = True
        train(net, optimizer, 2)
    return found


@pytest.fixture(scope="module")
def saved(watching: Watch, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = watching.save(tmp_path_factory.mktemp("view") / "step.html")
    return path.as_uri()


def test_it_opens_from_disk_and_draws_the_graph(page: Page, saved: str) -> None:
    opened = page.open(saved)
    titles = opened.locator("#canvas .box > .title").all_text_contents()
    assert {"forward", "backward", "update"} <= {t.lower() for t in titles}
    assert "relu" in titles
    assert opened.locator("#canvas .edge").count() > 5


def test_names_are_text(page: Page, saved: str) -> None:
    opened = page.open(saved)
    assert opened.locator("img").count() == 0
    assert "<img src=x" in opened.locator("#canvas").inner_html().replace("&lt;", "<")


def test_groups_open_and_close_in_place(page: Page, saved: str) -> None:
    opened = page.open(saved)
    group = opened.locator("#canvas .box.module.open").first
    before = opened.locator("#canvas .box").count()
    group.locator("> .toggle").click()
    assert opened.locator("#canvas .box").count() < before
    opened.click("text=Collapse")
    assert opened.locator("#canvas .box").count() == before


def test_search_and_links_both_ways(page: Page, saved: str) -> None:
    opened = page.open(saved)
    opened.keyboard.press("/")
    opened.keyboard.type("relu forward")
    opened.keyboard.press("Enter")
    details = opened.locator("#details")
    assert details.locator("h2").inner_text() == "relu"
    assert "16×8" in details.inner_text()
    assert "Values" in details.inner_text()
    details.locator("button.link").click()
    chosen = opened.locator(".code-line.chosen")
    assert "relu()" in chosen.inner_text()
    opened.locator("#line-ops .line", has_text="relu").first.click()
    assert opened.locator("#details h2").inner_text().startswith("relu")
    assert opened.locator("#canvas .box.selected").count() == 1
    opened.locator("#details .chip", has_text="loops").or_(
        opened.locator("#details .chip", has_text="product")
    ).first.click()
    assert "Kernel" in opened.locator("#kernel h2").inner_text()


def test_keys_move_along_the_graph(page: Page, saved: str) -> None:
    opened = page.open(saved)
    opened.keyboard.press("/")
    opened.keyboard.type("relu forward")
    opened.keyboard.press("Enter")
    opened.keyboard.press("ArrowDown")
    assert opened.locator("#details h2").inner_text() == "linear"
    opened.keyboard.press("ArrowUp")
    assert opened.locator("#details h2").inner_text() == "relu"
    opened.keyboard.press("Escape")
    assert "Step" in opened.locator("#details h2").inner_text()
    for number, name in enumerate(["graph", "source", "kernels", "time"], 1):
        opened.keyboard.press(str(number))
        assert opened.locator(f"#panel-{name}").is_visible()


def test_colours(page: Page, saved: str) -> None:
    opened = page.open(saved)
    select = opened.locator("#panel-graph select").nth(1)
    for metric in select.locator("option").all():
        select.select_option(metric.get_attribute("value"))
        assert opened.locator("#legend").inner_text()


def test_every_panel_has_something_to_say(page: Page, saved: str) -> None:
    page.open(saved)
    assert "matmul" in page.tab("kernels").inner_text()
    page.page.click("text=LLVM IR")
    page.page.wait_for_selector(".listing")
    assert "define" in page.page.locator(".listing").inner_text()
    assert page.tab("time").locator(".span").count() > 3
    assert "Peak" in page.tab("memory").inner_text() or "piece" in page.tab("memory").inner_text()
    training = page.tab("training")
    assert "Net.first.weight" in training.inner_text()
    assert training.locator("figure").count() == 2


def test_a_difference(page: Page, saved: str) -> None:
    page.open(saved)
    panel = page.tab("difference")
    panel.locator("select").nth(0).select_option("0:2")
    panel.locator("select").nth(1).select_option("0:4")
    page.page.wait_for_selector(".count.added")
    added = panel.locator(".added table tbody tr").all_inner_texts()
    assert [row.split("\t")[0] for row in added] == ["tanh", "tanh backward"]


def test_two_files(page: Page, watching: Watch, tmp_path: Path) -> None:
    one = watching.save(tmp_path / "one.lgv")
    made = lg.view(one, one, open=False)
    try:
        page.open(made.url)
        assert page.page.locator("#panel-difference").is_visible()
        page.page.wait_for_selector(".counts")
    finally:
        made.close()


def test_a_program_that_runs(page: Page) -> None:
    made = lg.view(open=False)
    try:
        net = Net()
        optimizer = lg.optim.SGD(net.parameters(), lr=0.1)
        train(net, optimizer, 2)
        opened = page.open(made.url)
        assert opened.locator("#state").inner_text() == "live"
        train(net, optimizer, 3)
        opened.get_by_label("step", exact=True).locator('option[value="4"]').wait_for(
            state="attached", timeout=8000
        )
        page.tab("training").get_by_text("Pause").click()
        made.stop()
        opened.get_by_text("ended").wait_for(timeout=8000)
        assert opened.locator("#state").inner_text() == ""
    finally:
        made.close()


def test_code_is_edited_while_it_runs(page: Page, tmp_path: Path) -> None:
    program = Program(tmp_path, "edited_on_the_page")
    made = lg.view(open=False)
    try:
        program.steps(3)
        opened = page.open(made.url)
        panel = page.tab("training")
        panel.locator("#live-code").click()
        program.steps(1)  # between two steps, it is switched on
        panel.get_by_text("takes over edits of edited_on_the_page.py").wait_for(timeout=8000)
        program.write(NEW_ACTIVATION)
        program.steps(3)
        panel.get_by_text("taken over at step").wait_for(timeout=8000)
        program.write(BROKEN)
        program.steps(2)
        panel.get_by_text("the old code goes on").wait_for(timeout=8000)
        assert "SyntaxError" in panel.locator(".failed pre").inner_text()
        panel.get_by_text("How the graph changed").click()
        shown = opened.locator("#panel-difference")
        shown.locator(".added").get_by_text("tanh", exact=True).wait_for(timeout=8000)
        assert shown.locator(".removed").get_by_text("relu", exact=True).count() == 1
    finally:
        made.close()
        del sys.modules["edited_on_the_page"]


def test_an_error_is_drawn(page: Page, tmp_path: Path) -> None:
    watching = lg.watch()
    with pytest.raises(RuntimeError), watching:
        Net()(lg.randn(2, 7))
    opened = page.open(watching.save(tmp_path / "failed.html").as_uri())
    assert "x" in opened.locator(".failure table").inner_text()
    assert "2, 7" in opened.locator(".failure").inner_text()


def test_the_call_that_failed_is_in_sight(page: Page, tmp_path: Path) -> None:
    deep = nn.Sequential(*[nn.Sequential(nn.Linear(6, 6), nn.ReLU()) for _ in range(12)])
    deep.append(nn.Linear(7, 6))
    watching = lg.watch()
    with pytest.raises(RuntimeError), watching:
        deep(lg.randn(2, 6))
    opened = page.open(watching.save(tmp_path / "deep.html").as_uri())
    failed = opened.locator("#canvas .box", has_text="RuntimeError").last.bounding_box()
    canvas = opened.locator("#canvas").bounding_box()
    assert failed
    assert canvas
    assert canvas["y"] < failed["y"] < canvas["y"] + canvas["height"]
    assert opened.locator("#details .failure").is_visible()


def titles(opened: Any, within: str) -> list[str]:
    return list(opened.locator(f"#canvas .box.{within} > .title").all_text_contents())


def test_clipping_is_beside_the_model_and_not_in_front_of_it(page: Page, tmp_path: Path) -> None:
    net = nn.Sequential(*[nn.Linear(4, 4) for _ in range(20)])
    optimizer = lg.optim.SGD(net.parameters(), lr=0.1)
    with lg.watch() as watching:
        net(lg.randn(2, 4)).square().mean().backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
    opened = page.open(watching.save(tmp_path / "clipped.html").as_uri())
    assert "Sequential" in titles(opened, "forward")
    assert {"norm ×41", "mul ×40", "SGD · sgd"} <= set(titles(opened, "update"))


def test_a_recursion_is_folded_by_its_lines(page: Page, tmp_path: Path) -> None:
    class Tree(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.leaf, self.both = nn.Linear(3, 4), nn.Linear(8, 4)

        def forward(self, depth: int) -> lg.Tensor:
            if not depth:
                return self.leaf(lg.ones(3)).tanh()
            return self.both(lg.cat([self(depth - 1), self(depth - 1)])).relu()

    with lg.watch() as watching:
        Tree()(5).sum().item()
    opened = page.open(watching.save(tmp_path / "tree.html").as_uri())
    assert {"relu ×31", "tanh ×32", "cat ×31"} <= set(titles(opened, "forward"))
    opened.locator("#canvas .box", has_text="relu ×31").last.locator("> .toggle").click()
    assert titles(opened, "op").count("relu") == 31


@pytest.mark.parametrize("size", [(380, 700), (1600, 1000)])
def test_sizes_and_themes(page: Page, saved: str, size: tuple[int, int]) -> None:
    page.page.set_viewport_size({"width": size[0], "height": size[1]})
    opened = page.open(saved)
    for name in ("graph", "source", "kernels", "time", "memory", "difference", "training"):
        page.tab(name)
        wide = opened.evaluate("document.documentElement.scrollWidth")
        assert wide <= size[0], name
    opened.click("#theme")
    assert opened.evaluate("document.documentElement.dataset.theme") in ("dark", "light")


def large_page(path: Path, count: int, *, modules: bool) -> str:
    """A page with a graph of so many nodes, in modules or all in one function."""
    nodes = {}
    for number in range(1, count + 1):
        block = f"Model.blocks.{number // 100}.part{number // 10 % 10}" if modules else ""
        inputs = (number - 1,) if number > 1 else ()
        if number > 40:
            inputs += (number - 37,)
        nodes[number] = GraphNode(
            number, "add", "forward", (4, 4), "float32", inputs, module=block, nbytes=64
        )
    watching = Watch()
    step = StepRecord(0, 0, 1_000_000)
    step.failed = Graph(nodes)
    watching.recorder._over.append(step)
    return save(watching.document, path).as_uri()


MOST_BOXES = 300


@pytest.mark.parametrize("modules", [True, False])
def test_ten_thousand_nodes(page: Page, tmp_path: Path, modules: bool) -> None:
    url = large_page(tmp_path / "large.html", 10_000, modules=modules)
    opened = page.open(url)
    assert 3 < opened.locator("#canvas .box").count() < MOST_BOXES
    opened.evaluate("() => LG.showNode(5000)")
    assert opened.locator("#canvas .box.selected").count() == 1
    # What is drawn is what is open, however large the graph: that is what makes it quick.
    assert opened.locator("#canvas .box").count() < MOST_BOXES


def test_a_page_of_two_records(watching: Watch, tmp_path: Path) -> None:
    path = watching.save(tmp_path / "run.lgv")
    data = FileDocument(path)._data
    text = page_with([data, data])
    assert text.count('application/json" data-record=') == 2
    assert text.count('application/json" data-of="1" data-step=') == len(data["steps"])
