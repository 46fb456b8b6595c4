// The Difference panel: two steps of one record, or of two files.
"use strict";

(function () {
  let tools;
  let result;
  const chosen = { before: null, after: null };

  LG.panels.difference = {
    title: "Difference",
    make(panel) {
      tools = LG.h("div", { class: "toolbar" });
      result = LG.h("div", { class: "pad" });
      panel.append(tools, result);
    },
    show(step) {
      const there = choices();
      const last = LG.state.overviews.length > 1 ? there.length - 1 : Math.max(0, there.findIndex(([key]) => key === `0:${step.number}`));
      if (!there.some(([key]) => key === chosen.after)) chosen.after = there[last]?.[0];
      // At first: with the step before it, or with the same of the first file.
      const before = LG.state.overviews.length > 1 ? there.findLast(([key]) => key.startsWith("0:")) : there[Math.max(0, last - 1)];
      if (!there.some(([key]) => key === chosen.before)) chosen.before = before?.[0];
      drawTools(there);
      draw();
    },
  };

  // "document:step" of all that can be compared.
  function choices() {
    return LG.state.overviews.flatMap((overview, d) => overview.steps.filter((s) => s.graph).map((s) => [`${d}:${s.n}`, LG.state.overviews.length > 1 ? `${overview.title}, step ${s.n}` : `step ${s.n}`]));
  }

  function drawTools(there) {
    const pick = (title, which) => LG.h("label", {}, title, LG.h("select", { onchange: (event) => { chosen[which] = event.target.value; draw(); } },
      there.map(([key, text]) => LG.h("option", { value: key, selected: key === chosen[which] }, text))));
    LG.empty(tools, pick("From", "before"), pick("to", "after"));
  }

  async function load(key) {
    const [d, n] = key.split(":").map(Number);
    return LG.loadStep(d, n);
  }

  // Lines move when a file is edited, so they do not count.
  const keyOf = (node) => [node.phase, node.module, node.op, LG.base(node.file), node.function, node.name].join("\0");

  LG.showDifference = function (before, after) {
    [chosen.before, chosen.after] = [`0:${before}`, `0:${after}`];
    LG.go("difference");
    LG.panels.difference.show(LG.state.step);
  };

  // Pairs of nodes that are the same operation: in order, by what they are.
  LG.compare = function (before, after) {
    const waiting = new Map();
    const ops = (step) => step.nodes.filter((node) => node.phase !== "leaf");
    for (const node of ops(before)) {
      const key = keyOf(node);
      if (!waiting.has(key)) waiting.set(key, []);
      waiting.get(key).push(node);
    }
    const found = { added: [], removed: [], changed: [], same: [] };
    for (const node of ops(after)) {
      const list = waiting.get(keyOf(node));
      const old = list && list.shift();
      if (!old) found.added.push(node);
      else if (old.dtype === node.dtype && LG.shape(old.shape) === LG.shape(node.shape)) found.same.push([old, node]);
      else found.changed.push([old, node]);
    }
    for (const list of waiting.values()) found.removed.push(...list);
    return found;
  };

  async function draw() {
    if (!chosen.before || !chosen.after) { LG.empty(result, LG.nothing("There is only one step to look at so far.")); return; }
    const [before, after] = await Promise.all([load(chosen.before), load(chosen.after)]);
    const found = LG.compare(before, after);
    const names = (step) => new Set([...step.kernels.values()].map((k) => k.name).filter(Boolean));
    const [old, now] = [names(before), names(after)];
    const fresh = [...after.kernels.values()].filter((k) => k.name && !old.has(k.name));
    const gone = [...before.kernels.values()].filter((k) => k.name && !now.has(k.name));
    const count = (title, number, kind) => LG.h("div", { class: `count ${number ? kind : ""}` }, LG.h("b", {}, String(number)), title);
    LG.empty(result,
      LG.h("div", { class: "counts" }, count("operations added", found.added.length, "added"), count("removed", found.removed.length, "removed"), count("other shapes", found.changed.length, "changed"),
        count("new kernels", fresh.length, "changed"), count("kernels gone", gone.length, "removed"),
        LG.h("div", { class: "count" }, LG.h("b", {}, `${LG.time(before.seconds)} → ${LG.time(after.seconds)}`), "whole step")),
      found.added.length + found.removed.length + found.changed.length === 0 ? LG.nothing("The same operations, with the same shapes.") : null,
      nodeList("Added", found.added, "added"), nodeList("Removed", found.removed, "removed"),
      found.changed.length ? [LG.h("h3", {}, "Other shapes or dtypes"), LG.table([["operation", (r) => r[1].name || r[1].op], ["module", (r) => r[1].module], ["line", (r) => LG.where(r[1])], ["was", (r) => `${LG.shape(r[0].shape)} ${r[0].dtype}`], ["is", (r) => `${LG.shape(r[1].shape)} ${r[1].dtype}`]], found.changed.slice(0, 200))] : null,
      fresh.length ? [LG.h("h3", {}, "Kernels that are new"), LG.table([["kernel", (k) => `${k.kind} ${LG.shape(k.shape)}`], ["operations", (k) => k.ops.join(" ")], ["why", (k) => after.flushes?.[k.flush]?.why || whyNew(found)], ["time", (k) => LG.time(k.seconds), "right"]], fresh.slice(0, 60))] : null,
      slower(found));
  }

  function whyNew(found) {
    if (found.added.length || found.removed.length) return "operations were added or removed, so others are fused";
    if (found.changed.length) return "shapes or dtypes changed";
    return "fused in another way, or run by another tier";
  }

  const nodeList = (title, nodes, kind) => nodes.length ? [LG.h("h3", {}, title), LG.h("div", { class: kind }, LG.table(
    [["operation", (n) => n.name || n.op], ["value", (n) => `${LG.shape(n.shape)} ${n.dtype}`], ["module", (n) => n.module], ["line", (n) => LG.where(n)], ["phase", (n) => n.phase]], nodes.slice(0, 300)))] : null;

  function slower(found) {
    const pairs = [...found.same, ...found.changed].map(([a, b]) => [a, b, b.seconds - a.seconds]).filter((p) => p[2] !== 0).sort((a, b) => Math.abs(b[2]) - Math.abs(a[2])).slice(0, 12);
    return pairs.length ? [LG.h("h3", {}, "Slower and faster"), LG.table([["operation", (p) => p[1].name || p[1].op], ["module", (p) => p[1].module || LG.where(p[1])], ["was", (p) => LG.time(p[0].seconds), "right"], ["is", (p) => LG.time(p[1].seconds), "right"],
      ["", (p) => LG.h("span", { class: p[2] > 0 ? "worse" : "better" }, `${p[2] > 0 ? "+" : "−"}${LG.time(Math.abs(p[2]))}`), "right"]], pairs)] : null;
  }
})();
