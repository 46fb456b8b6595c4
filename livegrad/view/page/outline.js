// The outline of a step: phases, in them modules, in them functions, in them operations.
//
//   root ─ forward ─ Net ─ blocks.0 ─ forward() ─ matmul      a group is {id, title, children, nodes}
//                  └ …                                        an op is a group without children
"use strict";

(function () {
  // Groups with more children are cut into parts: a layout of more takes long, and says little.
  const MOST_CHILDREN = 60;

  function group(id, title, kind, phase) {
    return { id, title, kind, phase, children: [], nodes: [], parent: null, byName: new Map() };
  }

  function child(parent, name, title, kind) {
    let found = parent.byName.get(name);
    if (!found) {
      found = group(`${parent.id}/${name}`, title, kind, parent.phase);
      found.parent = parent;
      parent.byName.set(name, found);
      parent.children.push(found);
    }
    return found;
  }

  function addOp(parent, node) {
    const op = group(`n${node.number}`, node.name || node.op, "op", node.phase);
    op.node = node;
    op.nodes = [node];
    op.parent = parent;
    parent.children.push(op);
  }

  // Parameters and inputs belong to the phase of those who read them first.
  function phaseOf(step, node) {
    if (node.phase !== "leaf") return node.phase;
    const reader = step.byNumber.get(node.readers[0]);
    return reader ? reader.phase : "forward";
  }

  LG.outline = function (step, options) {
    const root = group("root", "", "root", "");
    const phases = options.phases;
    for (const node of step.nodes) {
      const phase = phaseOf(step, node);
      if (!phases.includes(phase)) continue;
      if (node.phase === "leaf" && (node.op === "parameter" || node.op === "state") && !options.parameters) continue;
      const top = child(root, phase, phase, "phase");
      top.phase = phase;
      let at = top;
      for (const part of node.module ? node.module.split(".") : []) {
        at = child(at, `.${part}`, part, "module");
        at.phase = phase;
      }
      (at.own = at.own || []).push(node);
    }
    root.children.forEach(groupFunctions);
    collect(root);
    root.children.forEach(cutLong);
    collect(root);
    return root;
  };

  // The operations of a module itself: in groups by function if there are several functions.
  function groupFunctions(at) {
    at.children.forEach(groupFunctions);
    const own = at.own || [];
    const functions = new Set(own.filter((n) => n.phase !== "leaf").map((n) => n.function));
    for (const node of own) {
      const isApart = functions.size > 1 && node.phase !== "leaf" && own.length > 6;
      const place = isApart ? child(at, `(${node.function}`, functionTitle(node), "function") : at;
      place.phase = at.phase;
      addOp(place, node);
    }
  }

  const functionTitle = (node) =>
    node.function === "<module>" ? LG.base(node.file) : `${node.function.split(".").pop()}()`;

  // Groups of more than so many children get parts of as many, in the order recorded.
  function cutLong(at) {
    at.children.forEach(cutLong);
    if (at.children.length <= MOST_CHILDREN) return;
    sortChildren(at);
    const size = Math.ceil(at.children.length / Math.min(MOST_CHILDREN, Math.ceil(at.children.length / 40)));
    const parts = [];
    for (let from = 0; from < at.children.length; from += size) {
      const some = at.children.slice(from, from + size);
      const part = group(`${at.id}/#${from}`, `${some[0].title} … ${some[some.length - 1].title}`, "part", at.phase);
      part.children = some;
      part.parent = at;
      some.forEach((x) => { x.parent = part; });
      parts.push(part);
    }
    at.children = parts;
    if (parts.length > MOST_CHILDREN) cutLong(at);
  }

  const first = (at) => (at.nodes.length ? Math.abs(at.nodes[0].number) : 0);
  function sortChildren(at) {
    at.children.sort((a, b) => first(a) - first(b));
  }

  function collect(at) {
    if (!at.children.length) return at.nodes;
    const nodes = [];
    for (const each of at.children) for (const node of collect(each)) nodes.push(node);
    at.nodes = nodes;
    return at.nodes;
  }

  // What is open at first: from the top down, as long as not too many boxes are in sight.
  const MOST_IN_SIGHT = 36;

  LG.firstOpen = function (root) {
    const open = new Set(["root"]);
    let waiting = root.children.filter((x) => x.children.length);
    let sight = root.children.length;
    while (waiting.length) {
      const next = [];
      for (const at of waiting) {
        const isTop = at.kind === "phase" || at.children.length === 1;
        if (!isTop && sight + at.children.length - 1 > MOST_IN_SIGHT) continue;
        sight += at.children.length - 1;
        open.add(at.id);
        next.push(...at.children.filter((x) => x.children.length));
      }
      waiting = next;
    }
    return open;
  };
})();
