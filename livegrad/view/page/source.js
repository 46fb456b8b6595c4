// The Source panel: the program's own files, with what each line cost; links to the graph and back.
"use strict";

(function () {
  let box;
  let picker;
  let side;
  let step = null;
  let file = null;
  let line = 0;
  let seen = null; // the file that was drawn last

  LG.panels.source = {
    title: "Source",
    make(panel) {
      picker = LG.h("select", { "aria-label": "file", onchange: () => { file = picker.value; line = 0; draw(); } });
      box = LG.h("div", { class: "code", tabindex: 0 });
      side = LG.h("aside", { id: "line-ops" });
      panel.append(LG.h("div", { class: "toolbar" }, LG.h("label", {}, "File", picker)), LG.h("div", { class: "split" }, box, side));
    },
    show(next) {
      step = next;
      const files = byCost(step);
      if (!files.includes(file)) file = files[0] || null;
      LG.empty(picker, files.map((name) => LG.h("option", { value: name, selected: name === file }, LG.base(name))));
      draw();
    },
  };

  function byCost(of) {
    const cost = new Map();
    for (const node of of.nodes) if (node.file) cost.set(node.file, (cost.get(node.file) || 0) + node.seconds + 1e-12);
    return [...cost.keys()].sort((a, b) => cost.get(b) - cost.get(a));
  }

  LG.showLine = function (of, at) {
    file = of;
    line = at;
    LG.go("source");
    LG.panels.source.show(LG.state.step);
  };

  function opsByLine() {
    const found = new Map();
    for (const node of step.nodes) {
      if (node.file !== file || node.phase === "leaf") continue;
      if (!found.has(node.line)) found.set(node.line, []);
      found.get(node.line).push(node);
    }
    return found;
  }

  async function draw() {
    if (!file) { LG.empty(box, LG.nothing("No line of a program was recorded in this step.")); LG.empty(side); return; }
    const shown = file;
    let source;
    try { source = await LG.state.document.source(file); } catch (error) { source = { text: "", problem: error.message }; }
    if (shown !== file) return;
    const ops = opsByLine();
    const most = Math.max(1e-12, ...[...ops.values()].map((nodes) => LG.sum(nodes, (n) => n.seconds)));
    const lines = source.text ? source.text.split("\n") : [];
    LG.empty(box,
      source.problem ? LG.h("p", { class: "warning" }, `${file}: ${source.problem}`) : null,
      source.changed ? LG.h("p", { class: "warning" }, "This file was changed after the program started: lines may have moved.") : null,
      lines.map((text, i) => codeLine(i + 1, text, ops.get(i + 1) || [], most)));
    // A file that comes into sight begins where something happens.
    const slowest = [...box.querySelectorAll(".has-ops")].find((row) => row.querySelector("i").style.width === "100%");
    const place = box.querySelector(".chosen") || (file !== seen && (box.querySelector(".failed") || slowest));
    if (place) place.scrollIntoView({ block: "center" });
    seen = file;
    drawSide(ops);
  }

  function codeLine(number, text, nodes, most) {
    const took = LG.sum(nodes, (node) => node.seconds);
    const failed = LG.state.step.error && LG.state.step.error.file === file && LG.state.step.error.line === number;
    return LG.h("div", {
      class: `code-line ${nodes.length ? "has-ops" : ""} ${number === line ? "chosen" : ""} ${failed ? "failed" : ""}`,
      onclick: nodes.length ? () => { line = number; draw(); } : null,
    },
    LG.h("span", { class: "cost" }, nodes.length ? LG.h("i", { style: `width:${(100 * took) / most}%` }) : null, took ? LG.time(took) : ""),
    LG.h("span", { class: "no" }, String(number)),
    LG.h("pre", {}, highlighted(text)));
  }

  const WORDS = new Set(("and as assert async await break class continue def del elif else except finally for from global if import in is lambda nonlocal not or pass raise return try while with yield None True False").split(" "));

  // Python, coloured as far as one line tells.
  function highlighted(text) {
    const parts = text.match(/#.*$|[rbfu]?"(?:[^"\\]|\\.)*"?|[rbfu]?'(?:[^'\\]|\\.)*'?|\b[A-Za-z_]\w*\b|\b\d[\d_.eE]*\b|\s+|./g) || [" "];
    return parts.map((part) => {
      const kind = part.startsWith("#") ? "comment" : /^[rbfu]?["']/.test(part) ? "text" : WORDS.has(part) ? "word" : /^\d/.test(part) ? "number" : null;
      return kind ? LG.h("span", { class: kind }, part) : part;
    });
  }

  function drawSide(ops) {
    const nodes = ops.get(line) || [];
    if (!nodes.length) {
      const slow = [...ops.entries()].map(([number, list]) => [number, LG.sum(list, (n) => n.seconds), list.length]).sort((a, b) => b[1] - a[1]).slice(0, 12);
      LG.empty(side, LG.h("h2", {}, "Lines by time"), slow.map(([number, took, count]) => LG.h("button", { class: "line", onclick: () => { line = number; draw(); } },
        LG.h("span", {}, `line ${number}`, LG.h("small", {}, ` ${count} op${count === 1 ? "" : "s"}`)), LG.h("b", {}, LG.time(took)))),
      LG.h("p", { class: "hint" }, "Click a line that has a time to see its operations."));
      return;
    }
    LG.empty(side, LG.h("h2", {}, `Line ${line}`), nodes.slice(0, 60).map((node) => LG.h("button", { class: "line", onclick: () => LG.showNode(node.number) },
      LG.h("span", {}, LG.h("i", { style: `background:var(--${node.phase})` }), node.op, LG.h("small", {}, ` ${LG.shape(node.shape)} ${node.module}`)), LG.h("b", {}, node.seconds ? LG.time(node.seconds) : ""))),
    nodes.length > 60 ? LG.h("p", { class: "hint" }, `and ${nodes.length - 60} more`) : null);
  }
})();
