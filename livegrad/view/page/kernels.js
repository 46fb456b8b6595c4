// The Kernels panel: what was fused and why not more, its code, and time against the machine's limits.
"use strict";

(function () {
  let list;
  let side;
  let chart;
  let step = null;
  let chosen = null;

  LG.panels.kernels = {
    title: "Kernels",
    make(panel) {
      list = LG.h("div", { class: "scroll" });
      chart = LG.h("div", { class: "chart" });
      side = LG.h("aside", { id: "kernel" });
      panel.append(LG.h("div", { class: "split wide" }, LG.h("div", { class: "column" }, chart, list), side));
    },
    show(next) {
      step = next;
      if (!step.kernels.has(chosen)) chosen = slowest()[0]?.number ?? null;
      draw();
    },
  };

  const slowest = () => [...step.kernels.values()].sort((a, b) => (b.seconds || 0) - (a.seconds || 0));

  LG.showKernel = function (number) {
    chosen = number;
    LG.go("kernels");
    LG.panels.kernels.show(LG.state.step);
  };

  async function draw() {
    const all = slowest();
    if (!all.length) { LG.empty(list, LG.nothing("No kernel of this step is known.")); LG.empty(chart); LG.empty(side); return; }
    const total = LG.sum(all, (kernel) => kernel.seconds) || 1;
    const columns = [
      ["", (k) => String(k.number), "right dim"],
      ["kernel", (k) => LG.h("span", { class: "nowrap" }, LG.h("b", {}, k.kind), LG.h("small", {}, ` ${LG.shape(k.shape)}${LG.times(k.count)}`))],
      ["operations", (k) => LG.h("span", { class: "ops" }, counted(k.ops))],
      ["time", (k) => LG.time(k.seconds), "right"],
      ["share", (k) => LG.h("span", { class: "meter" }, LG.h("i", { style: `width:${(100 * (k.seconds || 0)) / total}%` })), ""],
      ["bytes", (k) => LG.bytes(k.nbytes), "right"],
      ["FLOPs", (k) => (k.flops ? LG.units(k.flops, "") : "–"), "right"],
      ["tier", (k) => k.tier, "dim"],
    ];
    const table = LG.table(columns, all.slice(0, 300), (kernel) => { chosen = kernel.number; draw(); });
    [...table.querySelectorAll("tbody tr")].forEach((row, i) => row.classList.toggle("chosen", all[i].number === chosen));
    LG.empty(list, table);
    drawKernel(step.kernels.get(chosen));
    const limits = LG.state.limits || (LG.state.limits = await LG.state.document.limits().catch(() => null));
    if (limits && all.some((kernel) => kernel.tier !== "piece")) drawRoofline(all, limits);
    else LG.empty(chart);
  }

  // "add ×3 relu": an op as often as it comes.
  function counted(ops) {
    const counts = new Map();
    for (const op of ops) counts.set(op, (counts.get(op) || 0) + 1);
    return [...counts].map(([op, n]) => (n > 1 ? `${op} ×${n}` : op)).join("  ");
  }

  // How many threads shared it, and for which part of the time they had something to do.
  const threads = (kernel) => (kernel.threads > 1 ? `${kernel.threads}, busy ${LG.share(kernel.busy)}` : "one");

  function drawKernel(kernel) {
    if (!kernel) { LG.empty(side); return; }
    const readers = slowest().filter((k) => k.reads.some(([source]) => source === kernel.number));
    const reason = (number, why) => {
      const other = step.kernels.get(number);
      return LG.h("div", { class: "reason" }, LG.h("button", { class: "chip", onclick: () => { chosen = number; draw(); } }, `${number}. ${other.kind}`, LG.h("small", {}, ` ${counted(other.ops).slice(0, 40)}`)), LG.h("p", {}, why));
    };
    const code = LG.h("div", {});
    LG.empty(side,
      LG.h("h2", {}, `Kernel ${kernel.number}`, LG.h("small", {}, ` ${kernel.kind} ${LG.shape(kernel.shape)}`)),
      LG.h("dl", {}, pair("time", LG.time(kernel.seconds)), pair("moves", LG.bytes(kernel.nbytes)), pair("computes", kernel.flops ? LG.flops(kernel.flops) : "–"),
        pair("runs at", rate(kernel)), pair("threads", threads(kernel)), pair("tier", kernel.tier), pair("plan", String(kernel.plan)), pair("code", kernel.name || "NumPy")),
      step.flushes?.[kernel.flush]?.why ? LG.h("p", { class: "hint" }, `Planned in this step: ${step.flushes[kernel.flush].why}.`) : null,
      LG.h("h3", {}, "Computes"),
      kernel.nodes.map((number) => {
        const node = step.byNumber.get(number);
        return node && LG.h("button", { class: "chip", onclick: () => LG.showNode(number) }, LG.h("i", { style: `background:var(--${node.phase})` }), node.op, LG.h("small", {}, ` ${LG.where(node)}`));
      }),
      kernel.tier === "piece" ? LG.h("p", { class: "hint" }, "This structure is new, so it was run op by op, and its kernels were not timed one by one: their times are shares by work. Once it has come often enough it is planned as a whole, fused and timed.") : null,
      kernel.reads.length ? [LG.h("h3", {}, "Not in one with what it reads"), kernel.reads.map(([number, why]) => reason(number, why))] : null,
      readers.length ? [LG.h("h3", {}, "Not in one with what reads it"), readers.map((k) => reason(k.number, k.reads.find(([source]) => source === kernel.number)[1]))] : null,
      LG.h("h3", {}, "Code"), LG.h("button", { onclick: () => showCode(kernel, code, "ir") }, "LLVM IR"), " ", LG.h("button", { onclick: () => showCode(kernel, code, "assembly") }, "Assembly"), code);
  }

  const pair = (name, value) => LG.h("div", { class: "row" }, LG.h("dt", {}, name), LG.h("dd", {}, value));
  const rate = (kernel) => (kernel.seconds ? `${LG.units(kernel.nbytes / kernel.seconds, "B/s")}, ${LG.units(kernel.flops / kernel.seconds, "FLOP/s")}` : "–");

  async function showCode(kernel, place, what) {
    LG.empty(place, LG.nothing("…"));
    let found;
    try { found = await LG.state.document.code(step.number, kernel); } catch (error) { found = { note: error.message }; }
    const text = found[what];
    LG.empty(place, text ? LG.h("pre", { class: "listing" }, text.slice(0, 200000)) : LG.nothing(found.note || "there is none"));
  }

  // Time against the limits of memory and arithmetic, both axes by powers of ten.
  function drawRoofline(kernels, limits) {
    const [left, bottom, width] = [58, 34, LG.widthOf(chart)];
    const height = Math.max(200, Math.min(320, 0.32 * width));
    const points = kernels.filter((k) => k.seconds && k.nbytes && k.flops && k.tier !== "piece").map((k) => ({ k, x: k.flops / k.nbytes, y: k.flops / k.seconds }));
    const [x0, x1] = [-2, 3];
    // A kernel that was quicker than what was measured shows that the machine can do more.
    limits = { bytes: limits.bytes, flops: points.reduce((most, p) => Math.max(most, p.y), limits.flops) };
    const top = Math.log10(limits.flops) + 0.3;
    const low = Math.min(top - 4, ...points.map((p) => Math.log10(p.y) - 0.2));
    const px = (x) => left + ((Math.log10(Math.max(x, 0.01)) - x0) / (x1 - x0)) * (width - left - 12);
    const py = (y) => 10 + ((top - Math.log10(Math.max(y, 1))) / (top - low)) * (height - bottom - 10);
    const ridge = limits.flops / limits.bytes;
    const roof = `M${px(0.01)} ${py(0.01 * limits.bytes)}L${px(ridge)} ${py(limits.flops)}L${px(1000)} ${py(limits.flops)}`;
    const ticks = [0.01, 0.1, 1, 10, 100, 1000].map((x) => LG.s("g", { class: "tick" }, LG.s("line", { x1: px(x), x2: px(x), y1: 10, y2: height - bottom }), LG.s("text", { x: px(x), y: height - bottom + 13, "text-anchor": "middle" }, x === 0.01 ? "≤ 0.01" : String(x))));
    const levels = [];
    for (let power = Math.ceil(low); power <= top; power += 1) levels.push(LG.s("g", { class: "tick" }, LG.s("line", { x1: left, x2: width - 12, y1: py(10 ** power), y2: py(10 ** power) }), LG.s("text", { x: left - 6, y: py(10 ** power) + 3, "text-anchor": "end" }, LG.units(10 ** power, "").replace(/\.0+/, ""))));
    LG.empty(chart, LG.h("h3", {}, "Roofline", LG.h("small", {}, ` memory ${LG.units(limits.bytes, "B/s")}, arithmetic ${LG.units(limits.flops, "FLOP/s")}, measured on the machine that ran it. Each circle is a kernel, the larger the longer it took; above the slope: read from caches`)),
      LG.s("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot" }, ticks, levels, LG.s("path", { d: roof, class: "roof" }),
        LG.s("text", { x: width - 14, y: height - 4, "text-anchor": "end", class: "axis" }, "FLOP per byte that is moved"),
        LG.s("text", { x: left + 6, y: 18, class: "axis" }, "FLOP/s"),
        points.map(({ k, x, y }) => LG.s("circle", { cx: px(x), cy: py(y), r: 3 + 7 * Math.sqrt(k.seconds / (kernels[0].seconds || 1)), class: k.number === chosen ? "point chosen" : "point", onclick: () => { chosen = k.number; draw(); } },
          LG.s("title", {}, `${k.number}. ${k.kind} ${LG.shape(k.shape)}\n${LG.time(k.seconds)}, ${LG.number(x)} FLOP/B, ${LG.units(y, "FLOP/s")}`)))));
  }
})();
