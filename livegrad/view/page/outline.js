// The outline of a step: phases, in them modules, in them functions, in them operations.
//
//   root ─ forward ─ Net ─ blocks.0 ─ forward() ─ matmul      a group is {id, title, children, nodes}
//                  └ …                                        an op is a group without children
"use strict";

(function () {
  // In groups with more children, operations of one line are one box.
  const MANY_CHILDREN = 24;
  // Groups that still have more are cut into parts: a layout of more takes long, and says little.
  const MOST_CHILDREN = 60;
  const IN_PARTS = 40;

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
      let before = "";
      for (const part of node.module ? node.module.split(".") : []) {
        if (node.phase !== "leaf") at.isLeft = true;
        at = child(at, `.${part}`, /^\d+$/.test(part) ? `${before}.${part}` : part, "module");
        at.phase = phase;
        before = part;
      }
      addOwn(at, node);
    }
    const place = (at) => ["setup", "forward", "backward", "update"].indexOf(at.phase);
    root.children.sort((a, b) => place(a) - place(b));
    root.children.forEach(groupFunctions);
    root.children.forEach(joinSingle);
    collect(root);
    root.children.forEach(foldAlike);
    root.children.forEach(cutLong);
    collect(root);
    return root;
  };

  // The operations of a module itself, in runs: what a function does before it calls another module
  // and what it does after that are two, so that arrows do not go round. What was there before
  // belongs to no function.
  function addOwn(at, node) {
    if (node.phase === "leaf") { addOp(at, node); return; }
    at.own = at.own || [];
    const last = at.own[at.own.length - 1];
    if (last && !at.isLeft && last.function === node.function) last.nodes.push(node);
    else at.own.push({ function: node.function, nodes: [node] });
    at.isLeft = false;
  }

  // Where a module has operations of several functions, those of one run are a group.
  function groupFunctions(at) {
    at.children.forEach(groupFunctions);
    const own = at.own || [];
    const functions = new Set(own.map((run) => run.function));
    own.forEach((run, number) => {
      const isApart = functions.size > 1 && run.nodes.length > 2;
      const place = isApart ? child(at, `(${run.function}${number}`, functionTitle(run.nodes[0]), "function") : at;
      place.phase = at.phase;
      run.nodes.forEach((node) => addOp(place, node));
    });
  }

  // A module that is one operation is drawn as that: "fc1 · linear".
  function joinSingle(at) {
    at.children = at.children.map((each) => {
      joinSingle(each);
      const only = each.kind === "module" && each.children.length === 1 && each.children[0];
      if (!only || only.kind !== "op" || only.node.phase === "leaf") return each;
      only.label = only.label || `${each.title} · ${only.title}`;
      only.parent = at;
      return only;
    });
  }

  // Lambdas and comprehensions have no name: what they stand in has.
  function functionTitle(node) {
    const named = node.function.split(".").filter((part) => !part.startsWith("<")).pop();
    return named ? `${named}()` : LG.base(node.file);
  }

  // What one line has recorded over and over, in a loop or a recursion, is one box until it is opened.
  function foldAlike(at) {
    at.children.forEach(foldAlike);
    if (at.children.length <= MANY_CHILDREN) return;
    const byLine = new Map();
    for (const each of at.children) {
      const key = each.kind === "op" && each.node.line ? `${each.label || each.title}\0${each.node.file}\0${each.node.line}` : each.id;
      if (!byLine.has(key)) byLine.set(key, []);
      byLine.get(key).push(each);
    }
    at.children = [...byLine.values()].map((alike) => (alike.length > 1 ? folded(at, alike) : alike[0]));
  }

  function folded(parent, alike) {
    const [first] = alike;
    const made = group(`${parent.id}/×${first.id}`, `${first.label || first.title}${LG.times(alike.length)}`, "alike", parent.phase);
    made.parent = parent;
    made.children = alike;
    made.nodes = alike.flatMap((each) => each.nodes);
    alike.forEach((each) => { each.parent = made; });
    return made;
  }

  // Groups of more than so many children get parts of fewer, in the order recorded; and these, if
  // they are too many themselves, parts of parts.
  function cutLong(at) {
    at.children.forEach(cutLong);
    if (at.children.length > MOST_CHILDREN) sortChildren(at);
    for (let level = 0; at.children.length > MOST_CHILDREN; level += 1) {
      const parts = [];
      for (let from = 0; from < at.children.length; from += IN_PARTS) {
        const some = at.children.slice(from, from + IN_PARTS);
        const part = group(`${at.id}/#${level}.${from}`, partTitle(some), "part", at.phase);
        part.children = some;
        part.parent = at;
        some.forEach((x) => { x.parent = part; });
        part.nodes = some.flatMap((x) => x.nodes);
        parts.push(part);
      }
      at.children = parts;
    }
  }

  const partTitle = (some) => `${some[0].title.split(" … ")[0]} … ${some[some.length - 1].title.split(" … ").pop()}`;

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
    // Modules and their parts: what a function does, or a line over and over, is one box at first.
    const opens = (at) => at.children.length > 0 && at.kind !== "alike" && at.kind !== "function";
    let waiting = root.children.filter((x) => opens(x) && x.phase !== "setup");
    let sight = root.children.length;
    while (waiting.length) {
      const next = [];
      for (const at of waiting) {
        const isTop = at.kind === "phase" || at.children.length === 1;
        if (!isTop && sight + at.children.length - 1 > MOST_IN_SIGHT) continue;
        sight += at.children.length - 1;
        open.add(at.id);
        next.push(...at.children.filter(opens));
      }
      waiting = next;
    }
    return open;
  };
})();
