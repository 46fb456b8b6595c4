// The picture of an outline: boxes in boxes, laid out only as far as they are open.
//
// Each open group is laid out by itself, by dagre, with its children as boxes; its size is then that
// of a box in the layout around it. So opening one group costs a layout of its children and of the
// groups around it, however large the graph is.
"use strict";

(function () {
  const OP = { height: 42, least: 104, most: 230 };
  const HEAD = 26;
  const PAD = 12;

  // As wide as the page's font draws it, in bold.
  const pen = document.createElement("canvas").getContext("2d");
  const widths = new Map();
  function textWidth(text, size) {
    const key = `${size} ${text}`;
    if (!widths.has(key)) {
      if (widths.size > 20000) widths.clear();
      pen.font = `600 ${size}px ${getComputedStyle(document.body).fontFamily}`;
      widths.set(key, pen.measureText(text).width);
    }
    return widths.get(key);
  }

  function titleOf(at) {
    if (at.kind !== "op") return at.title;
    const name = at.label || (at.node.name ? at.node.name.split(".").slice(-1)[0] : at.node.op);
    return name + LG.times(at.node.count);
  }

  function detailOf(at) {
    if (at.kind === "op") {
      const { node } = at;
      if (node.failed) return node.attrs;
      return `${LG.shape(node.shape)} ${LG.shortType(node.dtype)}`;
    }
    const count = LG.countOf(at.nodes.filter((node) => node.phase !== "leaf"));
    const took = LG.sum(at.nodes, (node) => node.seconds);
    return `${count.toLocaleString("en")} op${count === 1 ? "" : "s"}${took ? ` · ${LG.time(took)}` : ""}`;
  }

  LG.shortType = (dtype) => dtype.replace("float", "f").replace("uint", "u").replace(/^int/, "i").replace("complex", "c").replace("bfloat", "bf");

  // ---- edges, at the level where two boxes have a group in common

  function representatives(open, root) {
    // For each node: the chain of boxes from the root's child down to what is visible.
    const chains = new Map();
    (function walk(at, chain) {
      const here = at === root ? chain : [...chain, at];
      if (at.children.length && open.has(at.id)) at.children.forEach((x) => walk(x, here));
      else for (const node of at.nodes) chains.set(node.number, here);
    })(root, []);
    return chains;
  }

  function edgesByGroup(step, root, chains) {
    const found = new Map(); // group id -> Map("a>b" -> edge)
    for (const [number, chain] of chains) {
      const node = step.byNumber.get(number);
      for (const input of node.inputs) {
        const other = chains.get(input);
        if (!other) continue;
        let depth = 0;
        while (depth < chain.length && depth < other.length && chain[depth] === other[depth]) depth += 1;
        if (depth >= chain.length || depth >= other.length) continue;
        const parent = depth ? chain[depth - 1] : root;
        const key = `${other[depth].id}>${chain[depth].id}`;
        if (!found.has(parent.id)) found.set(parent.id, new Map());
        const edges = found.get(parent.id);
        const edge = edges.get(key) || { from: other[depth], to: chain[depth], nodes: [] };
        edge.nodes.push(step.byNumber.get(input));
        edges.set(key, edge);
      }
    }
    return found;
  }

  // ---- layout

  function sized(at, open, edges) {
    if (at.children.length && open.has(at.id)) return laidOut(at, open, edges);
    const left = at.children.length ? 40 : 22;
    const wide = Math.max(textWidth(titleOf(at), 13), textWidth(detailOf(at), 11)) + left;
    at.width = Math.min(OP.most, Math.max(OP.least, wide));
    at.height = OP.height;
    at.placed = null;
    return at;
  }

  function laidOut(at, open, edges) {
    at.children.forEach((x) => sized(x, open, edges));
    const graph = new dagre.graphlib.Graph();
    const many = at.children.length > 30;
    graph.setGraph({
      rankdir: at.phase === "backward" ? "BT" : "TB",
      nodesep: 18, ranksep: 30, edgesep: 10, ranker: many ? "longest-path" : "network-simplex",
    });
    graph.setDefaultEdgeLabel(() => ({}));
    for (const each of at.children) graph.setNode(each.id, { width: each.width, height: each.height });
    const own = [...(edges.get(at.id) || new Map()).values()];
    for (const edge of own) graph.setEdge(edge.from.id, edge.to.id, {});
    dagre.layout(graph);
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (const each of at.children) {
      const place = graph.node(each.id);
      each.x = place.x - each.width / 2;
      each.y = place.y - each.height / 2;
      left = Math.min(left, each.x); top = Math.min(top, each.y);
      right = Math.max(right, each.x + each.width); bottom = Math.max(bottom, each.y + each.height);
    }
    for (const edge of own) {
      edge.points = graph.edge(edge.from.id, edge.to.id).points;
      for (const p of edge.points) { left = Math.min(left, p.x); right = Math.max(right, p.x); }
    }
    const [dx, dy] = [PAD - left, PAD + HEAD - top];
    for (const each of at.children) { each.x += dx; each.y += dy; }
    for (const edge of own) edge.points = edge.points.map((p) => ({ x: p.x + dx, y: p.y + dy }));
    at.placed = own;
    at.width = Math.max(right - left + 2 * PAD, textWidth(at.title, 13) + 60);
    at.height = bottom - top + 2 * PAD + HEAD;
    return at;
  }

  // Phases stand side by side: forward goes down, backward beside it up again.
  function besideEachOther(root, edges) {
    let x = 0;
    let height = 0;
    for (const each of root.children) { each.x = x; each.y = 0; x += each.width + 70; height = Math.max(height, each.height); }
    for (const each of root.children) each.y = (height - each.height) / 2;
    root.width = Math.max(10, x - 70);
    root.height = height;
    root.placed = [...(edges.get("root") || new Map()).values()].filter((edge) => {
      const leftToRight = edge.from.x < edge.to.x;
      const y = Math.max(edge.from.y, edge.to.y) + Math.min(edge.from.height, edge.to.height) - 18;
      edge.points = leftToRight
        ? [{ x: edge.from.x + edge.from.width, y }, { x: edge.to.x, y }]
        : [{ x: edge.from.x, y: y - 10 }, { x: edge.to.x + edge.to.width, y: y - 10 }];
      return Math.abs(root.children.indexOf(edge.from) - root.children.indexOf(edge.to)) === 1;
    });
  }

  LG.layout = function (step, root, open) {
    const chains = representatives(open, root);
    const edges = edgesByGroup(step, root, chains);
    root.children.forEach((x) => sized(x, open, edges));
    besideEachOther(root, edges);
    return chains;
  };

  // ---- drawing

  function curve(points) {
    const [first, ...rest] = points;
    let path = `M${first.x.toFixed(1)} ${first.y.toFixed(1)}`;
    if (rest.length === 1) return `${path}L${rest[0].x.toFixed(1)} ${rest[0].y.toFixed(1)}`;
    for (let i = 0; i < rest.length - 1; i += 1) {
      const [a, b] = [rest[i], rest[i + 1]];
      const end = i === rest.length - 2 ? b : { x: (a.x + b.x) / 2, y: (a.y + b.y) / 2 };
      path += `Q${a.x.toFixed(1)} ${a.y.toFixed(1)} ${end.x.toFixed(1)} ${end.y.toFixed(1)}`;
    }
    return path;
  }

  function edgeLabel(edge) {
    const first = edge.nodes[0];
    const more = new Set(edge.nodes.map((x) => x.number)).size - 1;
    return `${LG.shape(first.shape)} ${LG.shortType(first.dtype)}${more ? ` +${more}` : ""}`;
  }

  function drawEdges(at, labelled) {
    return at.placed.map((edge) => {
      const label = edgeLabel(edge);
      const middle = edge.points[Math.floor(edge.points.length / 2)];
      return LG.s("g", { class: `edge ${at.phase}`, "data-from": edge.from.id, "data-to": edge.to.id },
        LG.s("path", { d: curve(edge.points), "marker-end": "url(#arrow)" }),
        LG.s("title", {}, label),
        labelled && edge.points.length > 2
          ? LG.s("text", { x: middle.x + 5, y: middle.y + 3 }, label) : null);
    });
  }

  function clipped(text, width, size) {
    if (textWidth(text, size) <= width) return text;
    let most = text.length - 1;
    while (most > 2 && textWidth(`${text.slice(0, most)}…`, size) > width) most -= 1;
    return `${text.slice(0, most)}…`;
  }

  function drawBox(at, view) {
    const isOpen = at.placed !== null;
    const isGroup = at.children.length > 0;
    const fill = isOpen ? "var(--open)" : LG.shade(view.step, view.metric, at.nodes, view.most, leafy(at) ? "leaf" : at.phase);
    const value = view.metric === "phase" || isOpen ? null : LG.metricOf(view.metric, at.nodes);
    const told = value === null ? "" : LG.metrics[view.metric][2](value);
    const box = LG.s("g", {
      class: `box ${at.kind} ${at.phase} ${isOpen ? "open" : ""} ${leafy(at) ? "leaf" : ""}`,
      transform: `translate(${at.x.toFixed(1)} ${at.y.toFixed(1)})`, "data-id": at.id,
    },
    LG.s("rect", { width: at.width, height: at.height, rx: isGroup ? 10 : leafy(at) ? 21 : 7, style: `fill:${fill}` }),
    isGroup && !isOpen ? LG.s("rect", { class: "stack", x: 4, y: at.height, width: at.width - 8, height: 3, rx: 1.5 }) : null,
    LG.s("text", { class: "title", x: isGroup ? 28 : 10, y: 18 }, clipped(titleOf(at), at.width - (isGroup ? 34 : 14), 13)),
    isGroup ? LG.s("text", { class: "toggle", x: 11, y: 18 }, isOpen ? "−" : "+") : null,
    isOpen
      ? LG.s("text", { class: "detail", x: at.width - 10, y: 18, "text-anchor": "end" },
        textWidth(titleOf(at), 13) + textWidth(detailOf(at), 11) + 60 < at.width ? detailOf(at) : "")
      : LG.s("text", { class: "detail", x: isGroup ? 28 : 10, y: 34 },
        clipped(told || detailOf(at), at.width - (isGroup ? 34 : 14), 11)),
    LG.s("title", {}, tooltip(at)));
    if (isOpen) {
      box.append(...drawEdges(at, view.labelled), ...at.children.map((x) => drawBox(x, view)));
    }
    view.boxes.set(at.id, box);
    return box;
  }

  const leafy = (at) => at.kind === "op" && at.node.phase === "leaf";

  function tooltip(at) {
    if (at.kind !== "op") return `${at.title}\n${detailOf(at)}`;
    const { node } = at;
    return [node.name || node.op, `${LG.shape(node.shape)} ${node.dtype}`, LG.where(node), node.module, node.attrs]
      .filter(Boolean).join("\n");
  }

  LG.draw = function (root, view) {
    view.boxes = new Map();
    const marker = LG.s("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto-start-reverse" },
      LG.s("path", { d: "M0 0.8L7 4L0 7.2z" }));
    return [LG.s("defs", {}, marker), LG.s("g", { class: "world" }, drawEdges(root, false), root.children.map((x) => drawBox(x, view)))];
  };

  // Where a box is in the whole picture.
  LG.placeOf = function (at) {
    let [x, y] = [0, 0];
    for (let up = at; up && up.kind !== "root"; up = up.parent) { x += up.x || 0; y += up.y || 0; }
    return { x, y, width: at.width, height: at.height };
  };
})();
