// What colours mean: a metric of nodes, and how its values become a colour.
"use strict";

(function () {
  const stat = (name) => (node) => (node.stats ? node.stats[name] : null);
  const kernelOf = (step, node) => step.kernels.get(node.kernels[0]);

  // name: [title, value of a node, how it is told]
  LG.metrics = {
    phase: ["kind", null, null],
    seconds: ["time", (node) => node.seconds, LG.time],
    nbytes: ["bytes", (node) => node.nbytes, LG.bytes],
    flops: ["FLOPs", (node) => node.flops, LG.flops],
    intensity: [
      "arithmetic intensity",
      (node) => (node.nbytes ? node.flops / node.nbytes : null),
      (x) => `${LG.number(x)} FLOP/B`,
    ],
    kernel: ["kernel", null, null],
    tier: ["tier", null, null],
    gradient: ["gradient norm", (node) => node.gradient, LG.number],
    zeros: ["share of zeros", stat("zeros"), LG.share],
    nan: ["share of NaN", stat("nan"), LG.share],
    inf: ["share of inf", stat("inf"), LG.share],
  };

  const TIERS = { plan: 0, piece: 1, NumPy: 2 };
  const BY_SUM = new Set(["seconds", "nbytes", "flops"]);
  LG.isSummed = (metric) => BY_SUM.has(metric);

  // The value of a metric for some nodes together: a sum, or the largest.
  LG.metricOf = function (metric, nodes) {
    const value = LG.metrics[metric][1];
    if (!value) return null;
    const values = nodes.map(value).filter((x) => x !== null && x !== undefined);
    if (!values.length) return null;
    return values.reduce(BY_SUM.has(metric) ? (a, b) => a + b : (a, b) => Math.max(a, b));
  };

  // The place of a value between nothing and most: 0 to 1, by its root, so that small ones show.
  LG.level = (value, most) => (most > 0 && value > 0 ? Math.sqrt(Math.min(1, value / most)) : 0);

  LG.heat = (level) => `color-mix(in oklab, var(--cold), var(--hot) ${(100 * level).toFixed(1)}%)`;

  const turn = (number) => `oklch(var(--shade-l) var(--shade-c) ${(number * 137.5) % 360})`;

  // The fill of a box that stands for some nodes.
  LG.shade = function (step, metric, nodes, most, phase) {
    if (nodes.some((node) => node.failed)) return "var(--bad)";
    if (metric === "phase") return `var(--${phase})`;
    if (metric === "kernel") {
      const numbers = new Set(nodes.flatMap((node) => node.kernels));
      return numbers.size === 1 ? turn([...numbers][0]) : "var(--box)";
    }
    if (metric === "tier") {
      const tiers = new Set(nodes.map((n) => kernelOf(step, n)).filter(Boolean).map((k) => k.tier));
      return tiers.size === 1 ? turn(TIERS[[...tiers][0]] + 1) : "var(--box)";
    }
    const value = LG.metricOf(metric, nodes);
    if (value === null) return "var(--box)";
    const isShare = ["zeros", "nan", "inf"].includes(metric);
    return LG.heat(LG.level(value, isShare ? 1 : most));
  };
})();
