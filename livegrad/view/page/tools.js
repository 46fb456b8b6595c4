// Small helpers that every panel uses. Text goes into the page as text: nothing is ever parsed as
// HTML, so a module named "<script>" is a name and no more.
"use strict";

const LG = { panels: {}, state: {} };

// An element: h("a", {href: "#", onclick: f}, "text", child, [more, children]).
LG.h = function (tag, attributes, ...children) {
  return LG.fill(document.createElement(tag), attributes, children);
};

// The same for pictures.
LG.s = function (tag, attributes, ...children) {
  return LG.fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
};

LG.fill = function (element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "class") element.setAttribute("class", value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((x) => x !== null && x !== undefined && x !== false));
  return element;
};

LG.empty = function (element, ...children) {
  element.replaceChildren(...children.flat(3).filter((x) => x !== null && x !== undefined));
  return element;
};

// ---- numbers for people

LG.time = function (seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds === 0) return "0";
  if (seconds < 1e-6) return `${(seconds * 1e9).toFixed(0)} ns`;
  if (seconds < 1e-3) return `${LG.three(seconds * 1e6)} µs`;
  if (seconds < 1) return `${LG.three(seconds * 1e3)} ms`;
  return `${LG.three(seconds)} s`;
};

LG.three = function (x) {
  const digits = Math.abs(x) >= 100 ? 0 : Math.abs(x) >= 10 ? 1 : 2;
  return x.toFixed(digits);
};

LG.units = function (x, unit, base = 1000) {
  if (x === null || x === undefined) return "–";
  const names = ["", "k", "M", "G", "T", "P"];
  let place = 0;
  while (Math.abs(x) >= base && place < names.length - 1) {
    x /= base;
    place += 1;
  }
  return `${place ? LG.three(x) : Math.round(x)} ${names[place]}${unit}`.trim();
};

LG.bytes = (x) => LG.units(x, "B", 1024);
LG.flops = (x) => LG.units(x, "FLOP");
LG.share = (x) => (x === null || x === undefined ? "–" : `${(100 * x).toFixed(x < 0.1 ? 1 : 0)} %`);
LG.number = function (x) {
  if (x === null || x === undefined) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  return size >= 1e5 || size < 1e-3 ? x.toExponential(2) : String(Number(x.toPrecision(4)));
};
LG.shape = (shape) => (shape.length ? shape.join("×") : "scalar");
LG.base = (file) => file.slice(file.lastIndexOf("/") + 1);
LG.where = (node) => (node.line ? `${LG.base(node.file)}:${node.line}` : "");

// Of very large graphs, a node stands for many that are alike.
LG.times = (count) => (count > 1 ? ` ×${count.toLocaleString("en")}` : "");
LG.countOf = (nodes) => LG.sum(nodes, (node) => node.count);

LG.sum = (list, of) => list.reduce((total, x) => total + (of(x) || 0), 0);

// A histogram as small bars.
LG.bars = function (counts, width = 96, height = 22) {
  const top = Math.max(1, ...counts);
  const step = width / counts.length;
  return LG.s(
    "svg", { width, height, class: "bars", "aria-hidden": "true" },
    counts.map((count, i) => LG.s("rect", {
      x: i * step, width: Math.max(0.5, step - 0.7), y: height - (height * count) / top,
      height: (height * count) / top,
    })),
  );
};

// A table: columns are [title, function of a row giving text or element, class].
LG.table = function (columns, rows, onclick) {
  const head = columns.map(([title, , kind]) => LG.h("th", { class: kind }, title));
  const body = rows.map((row) => LG.h(
    "tr",
    onclick
      ? { onclick: () => onclick(row), tabindex: 0, class: "pick",
          onkeydown: (event) => event.key === "Enter" && onclick(row) }
      : {},
    columns.map(([, cell, kind]) => LG.h("td", { class: kind }, cell(row))),
  ));
  return LG.h("table", {}, LG.h("thead", {}, LG.h("tr", {}, head)), LG.h("tbody", {}, body));
};

// How wide a chart is drawn: one unit is one pixel, so that its text can be read on any screen.
LG.widthOf = (element) => Math.max(280, element.clientWidth);

LG.nothing = (text) => LG.h("p", { class: "nothing" }, text);

// Gives a text to the browser as a file.
LG.download = function (name, text) {
  const link = LG.h("a", { download: name, href: URL.createObjectURL(new Blob([text])) });
  document.body.append(link);
  link.click();
  setTimeout(() => { URL.revokeObjectURL(link.href); link.remove(); }, 1000);
};
