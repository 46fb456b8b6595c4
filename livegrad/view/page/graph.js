// The Graph panel: the picture, what is selected, and the keys that move through it.
"use strict";

(function () {
  const view = { open: null, metric: "phase", mode: "both", parameters: false, selected: null,
    zoom: { x: 20, y: 20, k: 1 }, boxes: new Map(), chains: new Map(), root: null, step: null };
  LG.graphView = view;
  let svg;
  let details;
  let legend;

  const MODES = { both: ["setup", "forward", "backward", "update"], forward: ["forward"], backward: ["backward"], overlaid: ["forward", "update"] };

  LG.panels.graph = {
    title: "Graph",
    make(panel) {
      svg = LG.s("svg", { id: "canvas", tabindex: 0, role: "img", "aria-label": "graph of the step" });
      details = LG.h("aside", { id: "details" });
      legend = LG.h("div", { id: "legend" });
      panel.append(toolbar(), LG.h("div", { class: "split" }, LG.h("div", { class: "canvas-box" }, svg, legend), details));
      listen();
    },
    show(step) {
      const isNew = view.raw !== step;
      arrange(step);
      redraw();
      if (isNew && !view.fitted) { fit(0.6); view.fitted = true; showFailed(); }
      showDetails();
    },
  };

  // The outline of a step, as the tools above ask for it.
  function arrange(step) {
    const isNew = view.raw !== step;
    const asked = `${view.mode} ${view.parameters}`;
    if (!isNew && view.asked === asked && view.open) return;
    view.raw = step;
    view.asked = asked;
    view.step = view.mode === "overlaid" ? overlaid(step) : step;
    view.root = LG.outline(view.step, { phases: MODES[view.mode], parameters: view.parameters });
    if (!view.open || isNew && !keeps(view.root)) view.open = LG.firstOpen(view.root);
    if (view.selected && !step.byNumber.has(view.selected)) view.selected = null;
  }

  // The call that failed is in the middle at first; what it met is told beside it.
  function showFailed() {
    const failed = view.step.nodes.find((node) => node.failed);
    if (failed) reveal(failed.number);
  }

  // Another step of the same program keeps what is open.
  const keeps = (root) => root.children.every((phase) => view.open.has(phase.id));

  // Forward nodes with the cost of their gradients added.
  function overlaid(step) {
    const nodes = step.nodes.map((node) => ({ ...node }));
    const byNumber = new Map(nodes.map((node) => [node.number, node]));
    for (const node of nodes) {
      const forward = node.of && byNumber.get(node.of);
      if (!forward) continue;
      forward.seconds += node.seconds;
      forward.flops += node.flops;
      forward.kernels = [...new Set([...forward.kernels, ...node.kernels])];
    }
    return { ...step, nodes, byNumber };
  }

  // ---- tools above the picture

  function select(title, options, value, change) {
    return LG.h("label", {}, title, LG.h("select", { onchange: (event) => change(event.target.value) },
      options.map(([name, text]) => LG.h("option", { value: name, selected: name === value }, text))));
  }

  function toolbar() {
    return LG.h("div", { class: "toolbar" },
      select("Show", [["both", "forward and backward"], ["overlaid", "overlaid"], ["forward", "forward"], ["backward", "backward"]], view.mode,
        (mode) => { view.mode = mode; view.fitted = false; view.open = null; LG.panels.graph.show(view.raw); fit(0.6); }),
      select("Colour by", Object.entries(LG.metrics).map(([name, [title]]) => [name, title]), view.metric,
        (metric) => { view.metric = metric; redraw(); }),
      LG.h("label", { class: "check" }, LG.h("input", { type: "checkbox", onchange: (event) => {
        view.parameters = event.target.checked;
        LG.panels.graph.show(view.raw);
      } }), "parameters"),
      LG.h("span", { class: "spring" }),
      button("Expand", "Open one level more (e)", expandMore),
      button("Collapse", "Close all (c)", collapseAll),
      button("Fit", "All in sight (0)", () => fit()),
      button("SVG", "Save this picture", savePicture));
  }

  const button = (text, title, onclick) => LG.h("button", { title, onclick }, text);

  // ---- the picture

  function redraw() {
    view.most = greatest();
    view.chains = LG.layout(view.step, view.root, view.open);
    view.labelled = view.chains.size < 4000 && countVisible() < 220;
    LG.empty(svg, LG.draw(view.root, view));
    applyZoom();
    markSelected();
    showLegend();
  }
  LG.redrawGraph = redraw;

  function countVisible() {
    const seen = new Set();
    for (const chain of view.chains.values()) seen.add(chain[chain.length - 1]);
    return seen.size;
  }

  // The largest value among the boxes that are in sight.
  function greatest() {
    if (!LG.metrics[view.metric][1]) return 0;
    const values = [];
    (function walk(at) {
      if (at.children.length && view.open.has(at.id) || at.kind === "root") at.children.forEach(walk);
      else values.push(LG.metricOf(view.metric, at.nodes) || 0);
    })(view.root);
    return values.reduce((a, b) => Math.max(a, b), 0);
  }

  function showLegend() {
    const [title, value, tell] = LG.metrics[view.metric];
    if (view.metric === "phase") {
      LG.empty(legend, ["forward", "backward", "update", "setup", "leaf"].map((name) =>
        LG.h("span", { class: "key" }, LG.h("i", { style: `background:var(--${name})` }), name === "leaf" ? "value" : name)));
    } else if (value) {
      const most = ["zeros", "nan", "inf"].includes(view.metric) ? 1 : view.most;
      LG.empty(legend, LG.h("span", { class: "key" }, `${title}: 0`, LG.h("b", { class: "ramp" }), most ? tell(most) : "nothing known"));
    } else {
      LG.empty(legend, LG.h("span", { class: "key" }, `one colour for each ${title}; grey: several, or none`));
    }
  }

  function applyZoom() {
    const world = svg.querySelector(".world");
    if (world) world.setAttribute("transform", `translate(${view.zoom.x} ${view.zoom.y}) scale(${view.zoom.k})`);
  }

  // All in sight; at first only as far as it can be read.
  function fit(least) {
    const { clientWidth: width, clientHeight: height } = svg;
    if (!width || !view.root) return;
    const whole = Math.max(0.05, Math.min(1.15, (width - 40) / view.root.width, (height - 60) / view.root.height));
    const k = typeof least === "number" && whole < 0.8 * least ? least : whole;
    // Of what is too large, the beginning of the forward pass.
    const first = view.root.children.find((phase) => phase.phase === "forward") || { x: 0, y: 0 };
    const from = (size, whole, at, margin) => (size < whole * k + 2 * margin ? margin - at * k : (size - whole * k) / 2);
    view.zoom = { k, x: from(width, view.root.width, first.x, 20), y: from(height, view.root.height, first.y, 16) };
    applyZoom();
  }
  LG.fitGraph = fit;

  function zoomAt(x, y, factor) {
    const k = Math.max(0.03, Math.min(4, view.zoom.k * factor));
    const by = k / view.zoom.k;
    view.zoom = { k, x: x - (x - view.zoom.x) * by, y: y - (y - view.zoom.y) * by };
    applyZoom();
  }

  function centre(at) {
    const place = LG.placeOf(at);
    const { clientWidth: width, clientHeight: height } = svg;
    const k = Math.max(view.zoom.k, 0.75);
    view.zoom = { k, x: width / 2 - (place.x + place.width / 2) * k, y: height / 2 - (place.y + Math.min(place.height, 300) / 2) * k };
    applyZoom();
  }

  function savePicture() {
    const style = getComputedStyle(document.documentElement);
    const text = new XMLSerializer().serializeToString(svg)
      .replace(/var\((--[a-z-]+)\)/g, (_, name) => style.getPropertyValue(name).trim());
    LG.download("graph.svg", text);
  }

  // ---- opening

  const byId = new Map();
  function find(id) {
    if (byId.get("root") !== view.root) {
      byId.clear();
      byId.set("root", view.root);
      (function walk(at) { at.children.forEach((x) => { byId.set(x.id, x); walk(x); }); })(view.root);
    }
    return byId.get(id);
  }

  function toggle(at) {
    if (!at || !at.children.length) return;
    const before = LG.placeOf(at);
    if (view.open.has(at.id)) view.open.delete(at.id);
    else view.open.add(at.id);
    redraw();
    // What was clicked stays where it was.
    const after = LG.placeOf(at);
    view.zoom.x += (before.x - after.x) * view.zoom.k;
    view.zoom.y += (before.y - after.y) * view.zoom.k;
    applyZoom();
  }

  function expandMore() {
    const more = [];
    (function walk(at) {
      if (at.kind === "root" || view.open.has(at.id)) at.children.forEach(walk);
      else if (at.children.length) more.push(at);
    })(view.root);
    for (const at of more.slice(0, 40)) view.open.add(at.id);
    redraw();
    fit(0.4);
  }

  function collapseAll() {
    view.open = LG.firstOpen(view.root);
    redraw();
    fit(0.6);
  }

  // ---- what is selected

  // Shows a node: opens what it is in, and puts it in the middle.
  LG.showNode = function (number) {
    const node = LG.state.step.byNumber.get(number);
    if (!node) return;
    if (!MODES[view.mode].includes(node.phase) && node.phase !== "leaf") view.mode = "both";
    if (node.phase === "leaf") view.parameters = true;
    LG.go("graph");
    arrange(LG.state.step);
    if (!find(`n${number}`)) return;
    view.selected = number;
    reveal(number);
    showDetails();
    svg.focus({ preventScroll: true });
  };

  function reveal(number) {
    const at = find(`n${number}`);
    for (let up = at.parent; up; up = up.parent) view.open.add(up.id);
    redraw();
    centre(at);
  }

  function pick(number) {
    view.selected = number;
    markSelected();
    showDetails();
  }

  function markSelected() {
    for (const box of view.boxes.values()) box.classList.remove("selected", "near");
    svg.querySelectorAll(".edge.near").forEach((edge) => edge.classList.remove("near"));
    const chain = view.chains.get(view.selected);
    if (!chain) return;
    const last = chain[chain.length - 1];
    view.boxes.get(last.id)?.classList.add("selected");
    const node = view.step.byNumber.get(view.selected);
    for (const number of [...node.inputs, ...node.readers]) {
      const other = view.chains.get(number);
      if (other) view.boxes.get(other[other.length - 1].id)?.classList.add("near");
    }
    svg.querySelectorAll(".edge").forEach((edge) => {
      if (edge.dataset.from === last.id || edge.dataset.to === last.id) edge.classList.add("near");
    });
  }

  const nodeLink = (number) => {
    const node = view.raw.byNumber.get(number);
    return node && LG.h("button", { class: "chip", onclick: () => LG.showNode(number), title: LG.where(node) },
      LG.h("i", { style: `background:var(--${node.phase})` }), node.name || node.op, LG.h("small", {}, ` ${LG.shape(node.shape)}`));
  };

  function row(name, value) {
    return value === null || value === "" || value === undefined ? null
      : LG.h("div", { class: "row" }, LG.h("dt", {}, name), LG.h("dd", {}, value));
  }

  function showDetails() {
    const node = view.raw && view.raw.byNumber.get(view.selected);
    if (!node) {
      LG.empty(details, summary());
      return;
    }
    LG.empty(details,
      LG.h("h2", {}, LG.h("i", { style: `background:var(--${node.failed ? "bad" : node.phase})` }), node.name || node.op),
      LG.h("dl", {},
        row("value", `${LG.shape(node.shape)}  ${node.dtype}`),
        row("phase", node.phase),
        row("how often", node.count > 1 ? node.count.toLocaleString("en") : null),
        row("arguments", node.attrs),
        row("line", node.line ? LG.h("button", { class: "link", onclick: () => LG.showLine(node.file, node.line) }, LG.where(node)) : null),
        row("function", node.function),
        row("module", node.module),
        row("time", node.seconds ? LG.time(node.seconds) : null),
        row("bytes", LG.bytes(node.nbytes)),
        row("FLOPs", node.flops ? LG.flops(node.flops) : null),
        row("intensity", node.flops && node.nbytes ? `${LG.number(node.flops / node.nbytes)} FLOP/B` : null),
        row("gradient norm", node.gradient ? LG.number(node.gradient) : null)),
      node.kernels.length ? [LG.h("h3", {}, "Kernels"), node.kernels.map(kernelChip)] : null,
      node.stats ? statistics(node.stats) : null,
      chips("Reads", node.inputs),
      chips("Read by", node.readers),
      node.of ? chips("Gradient of", [node.of]) : view.raw.byNumber.has(-node.number) ? chips("Its gradient", [-node.number]) : null);
  }

  function kernelChip(number) {
    const kernel = view.raw.kernels.get(number);
    return LG.h("button", { class: "chip", onclick: () => LG.showKernel(number) }, `${number}. ${kernel.kind}`,
      LG.h("small", {}, ` ${LG.shape(kernel.shape)} ${LG.time(kernel.seconds)}`));
  }

  const chips = (title, numbers) => numbers.length
    ? [LG.h("h3", {}, title), numbers.slice(0, 24).map(nodeLink), numbers.length > 24 ? LG.h("small", {}, ` and ${numbers.length - 24} more`) : null] : null;

  function statistics(stats) {
    return [LG.h("h3", {}, "Values"), stats.bins ? LG.bars(stats.bins, 220, 44) : null,
      LG.h("dl", {}, row("range", stats.min === undefined ? null : `${LG.number(stats.min)} … ${LG.number(stats.max)}`),
        row("mean", LG.number(stats.mean)), row("deviation", LG.number(stats.std)), row("zeros", LG.share(stats.zeros)),
        row("NaN", stats.nan ? LG.share(stats.nan) : null), row("inf", stats.inf ? LG.share(stats.inf) : null))];
  }

  // With nothing selected: what is slow and what is large.
  function summary() {
    const step = view.raw;
    if (!step) return [];
    const ops = step.nodes.filter((node) => node.phase !== "leaf");
    const top = (key) => ops.filter((node) => node.phase !== "setup").sort((a, b) => b[key] - a[key]).slice(0, 6).filter((node) => node[key] > 0);
    const line = (key, tell) => top(key).map((node) => LG.h("button", { class: "line", onclick: () => LG.showNode(node.number) },
      LG.h("span", {}, LG.h("i", { style: `background:var(--${node.phase})` }), node.op, LG.h("small", {}, ` ${node.module || LG.where(node)}`)), LG.h("b", {}, tell(node[key]))));
    const list = (title, lines) => (lines.length ? [LG.h("h3", {}, title), lines] : null);
    return [
      LG.h("h2", {}, `Step ${step.number}`),
      step.error ? failure(step.error) : null,
      LG.h("dl", {}, row("took", LG.time(step.seconds)), row("operations", LG.countOf(ops).toLocaleString("en")), row("kernels", LG.countOf([...step.kernels.values()]).toLocaleString("en")),
        row("drawn as", LG.countOf(ops) > ops.length ? `${ops.length} boxes: those of one line are one` : null),
        row("values", LG.bytes(LG.sum(ops, (n) => n.nbytes))), row("work", LG.flops(LG.sum(ops, (n) => n.flops))),
        row("not drawn", step.left_out ? `${step.left_out} ${step.left_out === 1 ? "node" : "nodes"}, not recorded in full` : null)),
      list("Slowest", line("seconds", LG.time)),
      list("Largest", line("nbytes", LG.bytes)),
      LG.h("p", { class: "hint" }, "Click an operation for its line, kernel, time and values. Double-click a group, or press Enter, to open it.")];
  }

  function failure(error) {
    return LG.h("div", { class: "failure" }, LG.h("b", {}, error.type), LG.h("div", { class: "said" }, error.text.split("\n").map((line) => LG.h("div", { class: line.startsWith("  ") ? "drawn" : "" }, line))),
      Object.keys(error.shapes).length ? LG.h("table", {}, Object.entries(error.shapes).map(([name, shape]) => LG.h("tr", {}, LG.h("td", {}, name), LG.h("td", {}, shape)))) : null,
      error.line ? LG.h("button", { class: "link", onclick: () => LG.showLine(error.file, error.line) }, `${LG.base(error.file)}:${error.line}`) : null);
  }

  // ---- mouse and keys

  function boxAt(event) {
    const box = event.target.closest && event.target.closest(".box");
    return box && find(box.dataset.id);
  }

  function clicked(event) {
    const at = boxAt(event);
    if (!at) { pick(null); return; }
    if (event.target.classList.contains("toggle") || (at.children.length && event.detail === 2)) { toggle(at); return; }
    if (at.kind === "op") pick(at.node.number);
    else if (!view.open.has(at.id)) toggle(at);
  }

  function listen() {
    let dragged = null;
    const fingers = new Map();
    svg.addEventListener("wheel", (event) => {
      event.preventDefault();
      const box = svg.getBoundingClientRect();
      zoomAt(event.clientX - box.left, event.clientY - box.top, Math.exp(-event.deltaY * 0.0016));
    }, { passive: false });
    svg.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, event);
      dragged = { x: event.clientX, y: event.clientY, moved: false };
    });
    svg.addEventListener("pointermove", (event) => {
      if (!dragged || !fingers.has(event.pointerId)) return;
      const [dx, dy] = [event.clientX - dragged.x, event.clientY - dragged.y];
      if (!dragged.moved && Math.hypot(dx, dy) < 5) return;
      if (!dragged.moved) svg.setPointerCapture(event.pointerId);
      if (fingers.size === 2) pinch(fingers, event);
      else { view.zoom.x += dx; view.zoom.y += dy; applyZoom(); }
      dragged = { x: event.clientX, y: event.clientY, moved: true };
      fingers.set(event.pointerId, event);
    });
    const end = (event) => {
      fingers.delete(event.pointerId);
      if (dragged && dragged.moved) dragged.ended = Date.now();
    };
    svg.addEventListener("pointerup", end);
    svg.addEventListener("pointercancel", end);
    svg.addEventListener("click", (event) => {
      if (dragged && dragged.moved && Date.now() - dragged.ended < 60) return;
      clicked(event);
    });
    svg.addEventListener("keydown", pressed);
  }

  function pinch(fingers, event) {
    const [a, b] = [...fingers.values()];
    const other = a.pointerId === event.pointerId ? b : a;
    const before = Math.hypot(fingers.get(event.pointerId).clientX - other.clientX, fingers.get(event.pointerId).clientY - other.clientY);
    const now = Math.hypot(event.clientX - other.clientX, event.clientY - other.clientY);
    const box = svg.getBoundingClientRect();
    if (before > 0) zoomAt((event.clientX + other.clientX) / 2 - box.left, (event.clientY + other.clientY) / 2 - box.top, now / before);
  }

  function move(forward) {
    const node = view.step.byNumber.get(view.selected);
    if (!node) {
      const first = view.step.nodes.find((x) => x.phase !== "leaf");
      if (first) LG.showNode(first.number);
      return;
    }
    const next = (forward ? node.readers : node.inputs).filter((x) => view.step.byNumber.has(x));
    const ops = next.filter((x) => view.step.byNumber.get(x).phase !== "leaf");
    if ((ops[0] ?? next[0]) !== undefined) LG.showNode(ops[0] ?? next[0]);
  }

  function beside(by) {
    const order = view.step.nodes.filter((x) => x.phase !== "leaf").map((x) => x.number);
    const place = order.indexOf(view.selected);
    const next = order[Math.max(0, Math.min(order.length - 1, place + by))];
    if (next !== undefined) LG.showNode(next);
  }

  function pressed(event) {
    const keys = {
      ArrowDown: () => move(true), ArrowUp: () => move(false), ArrowRight: () => beside(1), ArrowLeft: () => beside(-1),
      Enter: () => {
        const chain = view.chains.get(view.selected);
        const last = chain && chain[chain.length - 1];
        if (last && last.kind === "op") toggle(last.parent); else toggle(last);
      },
      Escape: () => pick(null), "+": () => zoomAt(svg.clientWidth / 2, svg.clientHeight / 2, 1.25),
      "-": () => zoomAt(svg.clientWidth / 2, svg.clientHeight / 2, 0.8), 0: () => fit(), e: expandMore, c: collapseAll,
    };
    if (keys[event.key] && !event.ctrlKey && !event.metaKey) { event.preventDefault(); event.stopPropagation(); keys[event.key](); }
  }
})();
