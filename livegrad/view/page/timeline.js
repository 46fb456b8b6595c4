// The Time panel: all steps as bars, and one step as lanes of what happened when.
"use strict";

(function () {
  const LANES = [["python", "Python"], ["data", "data"], ["flush", "flushes"], ["plan", "planning"], ["compile", "compiling"], ["kernel", "kernels"]];
  const LEFT = 78; // where lanes begin
  let bars;
  let lanes;
  let table;
  let step = null;
  let range = null;

  LG.panels.time = {
    title: "Time",
    make(panel) {
      bars = LG.h("div", { class: "chart" });
      lanes = LG.h("div", { class: "chart" });
      table = LG.h("div", { class: "scroll" });
      panel.append(LG.h("div", { class: "toolbar" }, LG.h("span", { class: "hint" }, "Wheel: zoom. Drag: move."), LG.h("span", { class: "spring" }),
        LG.h("button", { onclick: saveTrace, title: "For chrome://tracing, Perfetto and their like" }, "Chrome trace")), LG.h("div", { class: "pad" }, bars, lanes, table));
    },
    show(next) {
      if (step !== next) range = null;
      step = next;
      drawSteps();
      drawLanes();
      drawTable();
    },
  };

  function drawSteps() {
    const { steps } = LG.state.overview;
    const last = steps.slice(-240);
    const [width, height] = [LG.widthOf(bars), 110];
    const sorted = last.map((s) => s.us).sort((a, b) => a - b);
    const most = Math.max(1, Math.min(sorted[sorted.length - 1] || 1, 6 * (sorted[sorted.length >> 1] || 1)));
    const wide = width / Math.max(1, last.length);
    const cut = sorted[sorted.length - 1] > most ? ", longer ones are cut" : "";
    LG.empty(bars, LG.h("h3", {}, "Steps", LG.h("small", {}, ` ${last[0]?.n ?? 0} to ${last[last.length - 1]?.n ?? 0}; median ${LG.time((sorted[sorted.length >> 1] || 0) / 1e6)}; the height is ${LG.time(most / 1e6)}${cut}`)),
      LG.s("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", preserveAspectRatio: "none" },
        last.map((s, i) => LG.s("g", { class: `step ${s.n === step.number ? "chosen" : ""} ${s.graph ? "" : "bare"}`, onclick: () => s.graph && LG.goToStep(s.n) },
          LG.s("rect", { x: i * wide, width: Math.max(1, wide - 1), y: height - height * Math.min(1, s.us / most), height: height * Math.min(1, s.us / most), class: "python" }),
          LG.s("rect", { x: i * wide, width: Math.max(1, wide - 1), y: height - height * Math.min(1, s.kernels_us / most), height: height * Math.min(1, s.kernels_us / most), class: "kernel" }),
          s.compiles ? LG.s("circle", { cx: i * wide + wide / 2, cy: 5, r: 3, class: "compiled" }) : null,
          LG.s("title", {}, `step ${s.n}: ${LG.time(s.us / 1e6)}, flushes ${LG.time(s.kernels_us / 1e6)}, ${s.nodes} nodes, ${s.compiles} compiled, ${s.tiers.join(" and ")}`)))),
      LG.h("p", { class: "hint" }, LG.h("i", { class: "swatch python" }), "Python and recording  ", LG.h("i", { class: "swatch kernel" }), "flushes  ", LG.h("i", { class: "swatch compiled" }), "kernels were compiled  ", last.some((s) => !s.graph) ? "pale: only the time was taken  " : "", "Click a step to see it."));
  }

  function drawLanes() {
    const events = step.timeline;
    if (!events.length) { LG.empty(lanes, LG.nothing("Nothing of this step was timed.")); return; }
    const from = events.reduce((least, e) => Math.min(least, e[2]), Infinity);
    const to = events.reduce((most, e) => Math.max(most, e[2] + e[3]), -Infinity);
    range = range || [from, to];
    const shown = lanesOf(events);
    const [width, left, each] = [LG.widthOf(lanes), LEFT, 28];
    const x = (at) => left + ((at - range[0]) / (range[1] - range[0])) * (width - left);
    const boxes = [];
    const taken = new Set(); // places where something too narrow to tell apart was drawn
    for (const [lane, what, start, took, detail, kernel] of events) {
      const [a, b] = [Math.max(left, x(start)), Math.min(width, x(start + took))];
      if (b < left || a > width) continue;
      if (b - a < 0.6) {
        const spot = `${lane} ${Math.round(a)}`;
        if (taken.has(spot)) continue;
        taken.add(spot);
      }
      const y = shown.findIndex(([name]) => name === lane) * each;
      boxes.push(LG.s("g", { class: `span ${lane.split(" ")[0]}`, onclick: kernel >= 0 ? () => LG.showKernel(kernel) : null },
        LG.s("rect", { x: a, y: y + 2, width: Math.max(0.6, b - a - 0.4), height: each - 5, rx: 2 }),
        b - a > 46 ? LG.s("text", { x: a + 6, y: y + 18 }, what.slice(0, Math.floor((b - a) / 7.4))) : null,
        LG.s("title", {}, `${what}\n${LG.time(took / 1e6)}${detail ? `\n${detail}` : ""}`)));
    }
    const svg = LG.s("svg", { viewBox: `0 0 ${width} ${shown.length * each + 18}`, class: "plot lanes" },
      shown.map(([, title], i) => LG.s("text", { x: 0, y: i * each + 18, class: "axis" }, title)), boxes,
      (width > 600 ? [0, 0.25, 0.5, 0.75, 1] : [0, 0.5, 1]).map((part) => LG.s("text", { x: left + part * (width - left), y: shown.length * each + 14, class: "axis", "text-anchor": part === 1 ? "end" : part ? "middle" : "start" }, LG.time(((range[1] - range[0]) * part + range[0] - from) / 1e6))));
    svg.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event, svg, from, to); }, { passive: false });
    drag(svg, from, to);
    LG.empty(lanes, LG.h("h3", {}, `Step ${step.number}`, LG.h("small", {}, ` ${LG.time((to - from) / 1e6)}`)), svg);
  }

  // Kernels, and below them what each thread did of those that were shared out.
  function lanesOf(events) {
    const present = new Set(events.map((e) => e[0]));
    const threads = [...present].filter((lane) => lane.startsWith("thread ")).sort((a, b) => a.slice(7) - b.slice(7));
    return [...LANES.filter(([lane]) => present.has(lane)), ...threads.map((lane) => [lane, lane])];
  }

  function zoom(event, svg, from, to) {
    const box = svg.getBoundingClientRect();
    const part = Math.max(0, (event.clientX - box.left - LEFT) / (box.width - LEFT));
    const at = range[0] + part * (range[1] - range[0]);
    const by = Math.exp(event.deltaY * 0.0016);
    range = [Math.max(from, at - (at - range[0]) * by), Math.min(to, at + (range[1] - at) * by)];
    drawLanes();
  }

  function drag(svg, from, to) {
    let last = null;
    svg.addEventListener("pointerdown", (event) => { last = event.clientX; });
    svg.addEventListener("pointerup", () => { last = null; });
    svg.addEventListener("pointermove", (event) => {
      if (last === null || Math.abs(event.clientX - last) < 6) return;
      const by = ((last - event.clientX) / (svg.getBoundingClientRect().width - LEFT)) * (range[1] - range[0]);
      const move = Math.max(from - range[0], Math.min(to - range[1], by));
      range = [range[0] + move, range[1] + move];
      drawLanes();
    });
  }

  function drawTable() {
    const totals = new Map();
    for (const [lane, , , took] of step.timeline) totals.set(lane, (totals.get(lane) || 0) + took);
    const whole = step.seconds * 1e6 || 1;
    const inFlush = (totals.get("kernel") || 0) + (totals.get("plan") || 0) + (totals.get("compile") || 0);
    const loading = totals.get("data") || 0;
    const rows = [["Python and recording", Math.max(0, (totals.get("python") || 0) - loading)], ...(loading ? [["waiting for data", loading]] : []), ["planning", totals.get("plan") || 0], ["compiling, or loading kernels", totals.get("compile") || 0],
      ["kernels", totals.get("kernel") || 0], ["the rest of flushes: finding plans, memory", Math.max(0, (totals.get("flush") || 0) - inFlush)]];
    LG.empty(table, LG.table([["where the time went", (r) => r[0]], ["time", (r) => LG.time(r[1] / 1e6), "right"], ["share", (r) => LG.share(r[1] / whole), "right"],
      ["", (r) => LG.h("span", { class: "meter" }, LG.h("i", { style: `width:${Math.min(100, (100 * r[1]) / whole)}%` }))]], rows));
  }

  function saveTrace() {
    const shown = lanesOf(step.timeline);
    const names = shown.map(([lane]) => lane);
    const events = step.timeline.map(([lane, name, ts, dur, detail]) => ({ ph: "X", pid: 1, tid: names.indexOf(lane) + 1, cat: lane, name, ts, dur, args: { detail } }));
    const threads = shown.map(([, title], i) => ({ ph: "M", pid: 1, tid: i + 1, name: "thread_name", args: { name: title } }));
    LG.download(`step-${step.number}.trace.json`, JSON.stringify({ traceEvents: [...threads, ...events], displayTimeUnit: "ms" }));
  }
})();
