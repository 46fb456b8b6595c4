// The Memory panel: what is in memory from which kernel to which, and what the peak is made of.
"use strict";

(function () {
  let chart;
  let tables;
  let step = null;

  LG.panels.memory = {
    title: "Memory",
    make(panel) {
      chart = LG.h("div", { class: "chart" });
      tables = LG.h("div", { class: "columns" });
      panel.append(LG.h("div", { class: "pad" }, chart, tables));
    },
    show(next) {
      step = next;
      draw();
    },
  };

  function lives() {
    return step.lives.map(([number, op, nbytes, first, last, what]) => ({ number, op, nbytes, first, last, what, node: step.byNumber.get(number) }));
  }

  // Bytes in memory while each kernel runs, for each kind of value.
  function profile(all, count) {
    const kinds = ["leaf", "result", "value"];
    const sums = Object.fromEntries(kinds.map((kind) => [kind, new Float64Array(count + 1)]));
    for (const life of all) {
      sums[life.what][life.first] += life.nbytes;
      sums[life.what][Math.min(count, life.last + 1)] -= life.nbytes;
    }
    for (const kind of kinds) for (let i = 1; i <= count; i += 1) sums[kind][i] += sums[kind][i - 1];
    return { kinds, sums };
  }

  function draw() {
    const all = lives();
    const count = step.kernels.size;
    if (!all.length || !count) {
      LG.empty(chart, LG.nothing("Nothing is known of what this step had in memory: no kernel of it was recorded."));
      LG.empty(tables);
      return;
    }
    const { kinds, sums } = profile(all, count);
    const total = Array.from({ length: count }, (_, i) => LG.sum(kinds, (kind) => sums[kind][i]));
    const peak = total.reduce((best, value, i) => (value > total[best] ? i : best), 0);
    drawChart(kinds, sums, total, peak, count);
    drawTables(all, peak);
  }

  const NAMES = { leaf: "parameters, state and inputs", result: "results that the program keeps", value: "values between kernels" };

  function drawChart(kinds, sums, total, peak, count) {
    const width = LG.widthOf(chart);
    const height = Math.max(140, Math.min(280, 0.21 * width));
    const most = Math.max(1, total[peak]);
    const wide = width / count;
    const below = new Float64Array(count);
    const areas = kinds.map((kind) => {
      const tops = Array.from(below, (b, i) => b + sums[kind][i]);
      const y = (value) => (height - (height - 12) * (value / most)).toFixed(1);
      const line = tops.map((value, i) => `${(i * wide).toFixed(1)} ${y(value)}L${((i + 1) * wide).toFixed(1)} ${y(value)}`).join("L");
      const back = Array.from(below, (value, i) => `${((i + 1) * wide).toFixed(1)} ${y(value)}L${(i * wide).toFixed(1)} ${y(value)}`).reverse().join("L");
      tops.forEach((value, i) => { below[i] = value; });
      return LG.s("path", { d: `M${line}L${back}Z`, class: `area ${kind}` });
    });
    const kernels = [...step.kernels.values()];
    // One place to point at for as many kernels as a pixel or two have room for.
    const together = Math.ceil(count / 600);
    const hits = [];
    for (let i = 0; i < count; i += together) {
      hits.push(LG.s("rect", { x: i * wide, width: together * wide, y: 0, height, class: "hit", onclick: () => LG.showKernel(i) },
        LG.s("title", {}, `kernel ${i}: ${kernels[i].ops.slice(0, 5).join(" ")}\n${LG.bytes(total[i])}`)));
    }
    LG.empty(chart, LG.h("h3", {}, `Peak ${LG.bytes(total[peak])}`, LG.h("small", {}, ` while kernel ${peak} runs (${kernels[peak].ops.slice(0, 4).join(" ")})`)),
      LG.s("svg", { viewBox: `0 0 ${width} ${height}`, class: "plot", preserveAspectRatio: "none" }, areas, LG.s("line", { x1: (peak + 0.5) * wide, x2: (peak + 0.5) * wide, y1: 0, y2: height, class: "peak" }), hits),
      LG.h("p", { class: "hint" }, kinds.map((kind) => [LG.h("i", { class: `swatch ${kind}` }), `${NAMES[kind]}: ${LG.bytes(sums[kind][peak])} at the peak   `])),
      (step.flushes || []).some((flush) => flush.tier !== "plan") ? LG.h("p", { class: "hint" }, "What was run piece by piece counts in blocks of the arena, which are up to a quarter larger than what is in them.") : null);
  }

  // Values between kernels lie in the arena of their plan, where they take turns.
  function arenas(all) {
    const kernels = [...step.kernels.values()];
    const rows = (step.flushes || []).map((flush, i) => {
      const mine = new Set(kernels.filter((k) => k.flush === i).map((k) => k.number));
      const values = all.filter((life) => life.what === "value" && mine.has(life.first));
      return { ...flush, i, values: LG.sum(values, (life) => life.nbytes), plan: kernels.find((k) => k.flush === i)?.plan };
    }).filter((row) => row.arena || row.results);
    return rows.length ? LG.h("section", {}, LG.h("h3", {}, "Arenas", LG.h("small", {}, " scratch memory that the kernels of a flush share")),
      LG.table([["flush", (r) => LG.h("span", { class: "ops nowrap" }, r.reason)], ["plan", (r) => String(r.plan ?? "–"), "right"], ["arena", (r) => LG.bytes(r.arena), "right"], ["of values", (r) => LG.bytes(r.values), "right"], ["results", (r) => LG.bytes(r.results), "right"]], rows)) : null;
  }

  function grouped(all, key) {
    const found = new Map();
    for (const life of all) found.set(key(life), (found.get(key(life)) || 0) + life.nbytes);
    return [...found].sort((a, b) => b[1] - a[1]).slice(0, 14);
  }

  function drawTables(all, peak) {
    const there = all.filter((life) => life.first <= peak && peak <= life.last);
    const place = (title, key) => LG.h("section", {}, LG.h("h3", {}, title), LG.table([["", (r) => r[0] || "–"], ["at the peak", (r) => LG.bytes(r[1]), "right"]], grouped(there, key)));
    const freed = there.filter((life) => life.what === "value").sort((a, b) => b.nbytes - a.nbytes).slice(0, 12);
    LG.empty(tables, arenas(all),
      LG.h("section", {}, LG.h("h3", {}, "What would free most", LG.h("small", {}, " between kernels, at the peak")),
        freed.length ? LG.table([["value", (l) => (l.node && l.node.op !== l.op ? `${l.op} of ${l.node.op}` : l.op)], ["line", (l) => LG.h("span", { class: "nowrap" }, l.node ? LG.where(l.node) : "")], ["bytes", (l) => LG.bytes(l.nbytes), "right"], ["waits", (l) => `${l.last - l.first} kernels`, "right"]], freed, (l) => l.node && LG.showNode(l.node.number))
          : LG.nothing("Nothing waits in memory between kernels there."),
        LG.h("p", { class: "hint" }, "Values that wait long for their gradient are what utils.checkpoint saves.")),
      place("By module", (life) => (life.node ? life.node.module || life.node.phase : NAMES[life.what])),
      place("By line", (life) => (life.node ? LG.where(life.node) : "before this step")));
  }
})();
