// The Training panel: curves, weights and gradients per layer, and the buttons that hold the program.
"use strict";

(function () {
  let buttons;
  let curves;
  let layers;
  let inspected;
  let edits;

  LG.panels.training = {
    title: "Training",
    make(panel) {
      buttons = LG.h("div", { class: "toolbar" });
      curves = LG.h("div", { class: "curves" });
      layers = LG.h("div", { class: "scroll" });
      inspected = LG.h("div", {});
      edits = LG.h("div", { class: "edits" });
      panel.append(buttons, LG.h("div", { class: "pad" }, edits, curves, inspected, layers));
    },
    show() { drawButtons(); drawEdits(); drawCurves(); drawLayers(); },
  };

  // The switch for code that may change while it runs, and what came of it.
  function codeSwitch() {
    const { on, files } = LG.state.overview.code || {};
    const turn = (event) => LG.state.document.control("live", { on: event.target.checked ? 1 : 0 })
      .then(async (answer) => { await LG.refresh(); if (answer.problem) LG.complain(new Error(answer.problem)); }).catch(LG.complain);
    return LG.h("label", { class: "check", title: "When a file of the model is saved, its new code is taken over between two steps; weights stay" },
      LG.h("input", { type: "checkbox", id: "live-code", checked: on, onchange: turn }), on ? `takes over edits of ${files.join(", ")}` : "take over edits of the code");
  }

  function drawEdits() {
    const { changes } = LG.state.overview.code || { changes: [] };
    LG.empty(edits, [...changes].reverse().slice(0, 20).map((edit) => LG.h("div", { class: `card ${edit.error ? "failed" : ""}` },
      LG.h("b", {}, LG.base(edit.file)), LG.h("small", { class: edit.error ? "worse" : "" }, edit.error ? ` failed at step ${edit.after}; the old code goes on` : ` taken over at step ${edit.after}: ${edit.replaced.join(", ") || "nothing that runs"}`),
      edit.appeared.length ? LG.h("p", {}, `new parameters: ${edit.appeared.join(", ")}`) : null,
      edit.vanished.length ? LG.h("p", {}, `parameters that are gone: ${edit.vanished.join(", ")}`) : null,
      edit.renamed?.length ? LG.h("p", {}, `renamed, and as they were: ${edit.renamed.join(", ")}`) : null,
      edit.error ? LG.h("pre", {}, edit.error) : null,
      !edit.error && compared(edit) ? LG.h("button", { onclick: () => LG.showDifference(edit.before, edit.after) }, "How the graph changed") : null)));
  }

  const compared = ({ before, after }) => [before, after].every((n) => LG.state.overview.steps.some((step) => step.n === n && step.graph));

  function drawButtons() {
    const { live, paused, steps } = LG.state.overview;
    // Drawn, because not every font has these signs.
    const icon = { resume: "M3 1l9 5.5L3 12z", pause: "M3 1h3v11H3zM8 1h3v11H8z", step: "M1 1l7 5.5L1 12zM9 1h3v11H9z" };
    const control = (text, what, title) => LG.h("button", { title, class: "with-icon", onclick: () => LG.state.document.control(what).then(LG.refresh).catch(LG.complain) }, LG.s("svg", { viewBox: "0 0 13 13", "aria-hidden": "true" }, LG.s("path", { d: icon[what] })), text);
    const rates = LG.state.overview.training.rates;
    LG.empty(buttons,
      live ? [paused ? control("Go on", "resume", "Lets the program run") : control("Pause", "pause", "Holds the program after this step"), control("One step", "step", "Lets one step run")] : null,
      live ? codeSwitch() : null,
      LG.h("span", { class: "hint" }, `${steps.length} steps${rates.length ? ` · learning rate ${LG.number(rates[rates.length - 1][1])}` : ""}${live ? (paused ? " · paused" : " · running") : " · ended"}`));
  }

  function drawCurves() {
    const entries = Object.entries(LG.state.overview.curves);
    const ratios = ratioCurves();
    LG.empty(curves, entries.map(([name, points]) => chart(name, [[name, points]])), ratios.length ? chart("update against weight", ratios, true) : null,
      entries.length ? null : LG.nothing("No number was read yet: what loss.item() gives is drawn here, and what log(name, value) is given."));
  }

  // log10 of update/weight, for each weight.
  function ratioCurves() {
    const found = new Map();
    for (const [step, look] of LG.state.overview.training.looks) {
      for (const [name, { ratio }] of Object.entries(look)) {
        if (!ratio) continue;
        if (!found.has(name)) found.set(name, []);
        found.get(name).push([step, Math.log10(ratio)]);
      }
    }
    return [...found].slice(0, 24);
  }

  function chart(title, lines, isLog) {
    const [width, height, left] = [430, 170, 46];
    const points = lines.flatMap(([, list]) => list).filter(([, y]) => y !== null);
    if (!points.length) return null;
    const xs = points.map((p) => p[0]);
    const ys = points.map((p) => p[1]).sort((a, b) => a - b);
    const [x0, x1] = [xs.reduce((a, b) => Math.min(a, b)), xs.reduce((a, b) => Math.max(a, b))];
    let [y0, y1] = [ys[0], ys[ys.length - 1]];
    if (y0 === y1) { y0 -= Math.abs(y0) * 0.1 + 0.1; y1 += Math.abs(y1) * 0.1 + 0.1; }
    const px = (x) => left + ((x - x0) / Math.max(1, x1 - x0)) * (width - left - 8);
    const py = (y) => 8 + ((y1 - y) / (y1 - y0)) * (height - 30);
    const path = (list) => list.filter(([, y]) => y !== null).map(([x, y], i) => `${i ? "L" : "M"}${px(x).toFixed(1)} ${py(y).toFixed(1)}`).join("");
    const tick = (y) => LG.number(isLog ? Number((10 ** y).toPrecision(2)) : y);
    const latest = lines.length === 1 ? LG.number(lines[0][1][lines[0][1].length - 1][1]) : "";
    return LG.h("figure", {}, LG.h("figcaption", {}, title, LG.h("b", {}, ` ${latest}`)),
      LG.s("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot" },
        [y0, (y0 + y1) / 2, y1].map((y) => LG.s("g", { class: "tick" }, LG.s("line", { x1: left, x2: width - 8, y1: py(y), y2: py(y) }), LG.s("text", { x: left - 5, y: py(y) + 3, "text-anchor": "end" }, tick(y)))),
        LG.s("text", { x: left, y: height - 4, class: "axis" }, `step ${x0}`), LG.s("text", { x: width - 8, y: height - 4, class: "axis", "text-anchor": "end" }, String(x1)),
        lines.length === 1 ? lines.map(([, list]) => LG.s("path", { d: smooth(list, path), class: "smooth" })) : null,
        lines.map(([name, list], i) => LG.s("path", { d: path(list), class: `curve ${lines.length === 1 ? "raw" : ""}`, style: lines.length > 1 ? `stroke:oklch(var(--shade-l) 0.13 ${(i * 47) % 360})` : null }, LG.s("title", {}, name)))));
  }

  // A running mean over what was before, for the eye.
  function smooth(list, path) {
    if (list.length < 30) return "";
    const keep = 1 - 1 / Math.max(5, list.length / 30);
    let [sum, weight] = [0, 0];
    return path(list.map(([x, y]) => {
      if (y === null) return [x, null];
      [sum, weight] = [keep * sum + y, keep * weight + 1];
      return [x, sum / weight];
    }));
  }

  function drawLayers() {
    const looks = LG.state.overview.training.looks;
    if (!looks.length) { LG.empty(layers, LG.nothing("Weights and gradients are shown once an optimiser has taken a step.")); return; }
    const [number, look] = looks[looks.length - 1];
    const rows = Object.entries(look);
    const stat = (part, name) => ([, x]) => (x[part] ? LG.number(x[part][name]) : "–");
    LG.empty(layers, LG.h("h3", {}, "Layers", LG.h("small", {}, ` at step ${number}`)), LG.table([
      ["parameter", ([name]) => name], ["shape", ([, x]) => LG.shape(x.weight.shape), "dim"],
      ["weights", ([, x]) => LG.bars(x.weight.bins || [0])], ["deviation", stat("weight", "std"), "right"],
      ["gradients", ([, x]) => (x.gradient && x.gradient.bins ? LG.bars(x.gradient.bins) : "–"), "gradient"], ["norm", stat("gradient", "norm"), "right"],
      ["update / weight", ([, x]) => LG.h("span", { class: x.ratio > 0.1 || (x.ratio !== null && x.ratio < 1e-6) ? "worse" : "" }, LG.number(x.ratio)), "right"],
      ["dead units", ([, x]) => (x.dead === null || x.dead === undefined ? "–" : LG.h("span", { class: x.dead > 0.3 ? "worse" : "" }, LG.share(x.dead))), "right"],
      ["NaN, inf", ([, x]) => bad(x), "right"]], rows, LG.state.overview.live ? ([name]) => inspect(name) : null));
  }

  function bad(x) {
    const worst = Math.max(x.weight.nan, x.weight.inf, x.gradient ? x.gradient.nan : 0, x.gradient ? x.gradient.inf : 0);
    return LG.h("span", { class: worst ? "worse" : "" }, worst ? LG.share(worst) : "none");
  }

  async function inspect(name) {
    const found = await LG.state.document.control("inspect", { name }).catch((error) => ({ problem: error.message }));
    LG.empty(inspected, LG.h("div", { class: "card" }, LG.h("b", {}, name), found.problem ? LG.nothing(found.problem)
      : [LG.h("small", {}, ` ${LG.shape(found.shape)} ${found.dtype}, now`), found.stats.bins ? LG.bars(found.stats.bins, 260, 50) : null, LG.h("pre", {}, found.first.map((x) => (typeof x === "number" ? LG.number(x) : String(x))).join("  "))]));
  }
})();
