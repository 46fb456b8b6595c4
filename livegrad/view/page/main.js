// What holds the panels together: steps, tabs, search, keys, and news from a program that runs.
"use strict";

(function () {
  const state = LG.state;
  const $ = (id) => document.getElementById(id);
  const ORDER = ["graph", "source", "kernels", "time", "memory", "difference", "training"];
  const made = new Map();
  let current = "graph";

  LG.complain = function (error) {
    const notice = $("notice");
    notice.hidden = false;
    LG.empty(notice, error.message || String(error), LG.h("button", { class: "icon", onclick: () => { notice.hidden = true; }, "aria-label": "close" }, "×"));
  };

  // ---- panels

  LG.go = function (name) {
    current = name;
    for (const other of ORDER) {
      const chosen = other === name;
      $(`tab-${other}`).setAttribute("aria-selected", String(chosen));
      if (made.has(other)) made.get(other).hidden = !chosen;
    }
    if (!made.has(name)) {
      const panel = LG.h("section", { id: `panel-${name}`, class: "panel", role: "tabpanel", "aria-labelledby": `tab-${name}` });
      made.set(name, panel);
      $("panels").append(panel);
      LG.panels[name].make(panel);
    }
  };

  function show(name) {
    LG.go(name);
    if (state.step) LG.panels[name].show(state.step);
    else if (name === "training") LG.panels.training.show();
  }

  function makeTabs() {
    LG.empty($("tabs"), ORDER.map((name, i) => LG.h("button", { id: `tab-${name}`, role: "tab", "aria-selected": "false", title: `${LG.panels[name].title} (${i + 1})`, onclick: () => show(name) }, LG.panels[name].title)));
  }

  // ---- steps

  const steps = new Map();
  LG.loadStep = async function (document, number) {
    // What was a step by itself may become part of the first one of training.
    const line = state.overviews[document].steps.find((step) => step.n === number);
    const key = `${document}:${number}:${line?.us}`;
    if (!steps.has(key)) {
      const step = LG.decoded(await state.documents[document].step(number));
      addGradients(step, state.overviews[document].training.looks);
      steps.set(key, step);
      if (steps.size > 40) steps.delete(steps.keys().next().value);
    }
    return steps.get(key);
  };

  // The norm of the gradient of each module's parameters, for its nodes to be coloured by.
  function addGradients(step, looks) {
    const at = [...looks].reverse().find(([number]) => number <= step.number) || looks[0];
    if (!at) return;
    const norms = new Map();
    for (const [name, { gradient }] of Object.entries(at[1])) {
      const module = name.slice(0, name.lastIndexOf("."));
      if (gradient && gradient.norm) norms.set(module, Math.max(norms.get(module) || 0, gradient.norm));
    }
    for (const node of step.nodes) node.gradient = norms.get(node.module) ?? null;
  }

  LG.goToStep = async function (number) {
    try {
      state.step = await LG.loadStep(0, number);
      state.number = number;
      drawSteps();
      show(current);
    } catch (error) { LG.complain(error); }
  };

  function drawSteps() {
    const there = state.overview.steps.filter((step) => step.graph).map((step) => step.n);
    const place = there.indexOf(state.number);
    const move = (by) => { const next = there[Math.max(0, Math.min(there.length - 1, place + by))]; if (next !== undefined) { state.follow = false; LG.goToStep(next); } };
    LG.empty($("steps"),
      LG.h("button", { class: "icon", onclick: () => move(-1), title: "Step before ([)", "aria-label": "step before" }, "‹"),
      LG.h("select", { "aria-label": "step", onchange: (event) => { state.follow = false; LG.goToStep(Number(event.target.value)); } }, there.slice(-300).map((n) => LG.h("option", { value: n, selected: n === state.number }, `step ${n}`))),
      LG.h("button", { class: "icon", onclick: () => move(1), title: "Step after (])", "aria-label": "step after" }, "›"),
      state.overview.live ? LG.h("label", { class: "check", title: "Show each new step" }, LG.h("input", { type: "checkbox", checked: state.follow, onchange: (event) => { state.follow = event.target.checked; } }), "latest") : null);
    state.move = move;
  }

  // ---- news

  LG.refresh = async function () {
    state.overviews = await Promise.all(state.documents.map((document) => document.overview()));
    state.overview = state.overviews[0];
    $("title").textContent = state.overview.title;
    document.title = `${state.overview.title} · livegrad view`;
    const failed = state.overview.steps.some((step) => step.error);
    $("state").textContent = state.overview.live ? (state.overview.paused ? "paused" : "live") : failed ? "failed" : "";
    $("state").className = `badge ${$("state").textContent}`;
    const there = state.overview.steps.filter((step) => step.graph);
    const last = there[there.length - 1];
    const isGone = state.step && !there.some((step) => step.n === state.number);
    if (last && (!state.step || isGone || (state.follow && last.n !== state.number))) await LG.goToStep(last.n);
    else drawSteps();
    if (current === "training") LG.panels.training.show();
    if (current === "time" && state.step) LG.panels.time.show(state.step);
    if (!last && !state.step) LG.empty($("notice"), "Nothing has been computed yet: this page shows it when it is.");
    $("notice").hidden = Boolean(last) || Boolean(state.step);
  };

  async function keepUp() {
    while (state.overview.live) {
      await new Promise((resolve) => setTimeout(resolve, document.hidden ? 4000 : 1000));
      try { await LG.refresh(); } catch (error) {
        $("state").textContent = "ended";
        $("state").className = "badge";
        return;
      }
    }
  }

  // ---- search

  function search(text) {
    const box = $("found");
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length || !state.step) { box.hidden = true; return; }
    const fits = (node) => {
      const said = `${node.op} ${node.name} ${node.module} ${LG.where(node)} ${node.function} ${LG.shape(node.shape)} ${node.dtype} ${node.phase}`.toLowerCase();
      return words.every((word) => said.includes(word));
    };
    const found = state.step.nodes.filter(fits);
    box.hidden = false;
    LG.empty(box, found.slice(0, 40).map((node) => LG.h("button", { role: "option", onclick: () => { box.hidden = true; LG.showNode(node.number); } },
      LG.h("i", { style: `background:var(--${node.phase})` }), LG.h("b", {}, node.name || node.op), LG.h("small", {}, ` ${LG.shape(node.shape)}  ${node.module}  ${LG.where(node)}`))),
    LG.h("p", { class: "hint" }, found.length > 40 ? `${found.length} found; the first 40 are shown` : `${found.length} found`));
  }

  function listen() {
    const input = $("search");
    input.addEventListener("input", () => search(input.value));
    input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === "ArrowDown") { event.preventDefault(); const first = $("found").querySelector("button"); if (first) { if (event.key === "Enter") first.click(); else first.focus(); } }
      if (event.key === "Escape") { $("found").hidden = true; input.blur(); }
    });
    $("found").addEventListener("keydown", (event) => {
      if (event.key === "ArrowDown") { event.preventDefault(); event.target.nextElementSibling?.focus(); }
      if (event.key === "ArrowUp") { event.preventDefault(); (event.target.previousElementSibling || input).focus(); }
      if (event.key === "Escape") { $("found").hidden = true; input.focus(); }
    });
    document.addEventListener("click", (event) => { if (!event.target.closest("#search-box")) $("found").hidden = true; });
    $("theme").addEventListener("click", turnTheme);
    $("help").addEventListener("click", showKeys);
    document.addEventListener("keydown", pressed);
    window.addEventListener("resize", () => { if (current === "graph") LG.fitGraph(0.6); else show(current); });
  }

  // ---- light and dark

  function turnTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    try { localStorage.setItem("livegrad-theme", root.dataset.theme); } catch { /* not kept, then */ }
  }

  function lastTheme() {
    try { const kept = localStorage.getItem("livegrad-theme"); if (kept === "dark" || kept === "light") document.documentElement.dataset.theme = kept; } catch { /* none */ }
  }

  // ---- keys

  const KEYS = [["/", "search"], ["1 – 7", "panels"], ["[  ]", "step before, after"], ["↑ ↓", "to what a node reads, to who reads it"], ["← →", "node before, after"], ["Enter", "open or close the group"], ["+  −  0", "zoom, all in sight"], ["e  c", "expand, collapse"], ["Esc", "select nothing"], ["t", "light or dark"], ["?", "these keys"]];

  function showKeys() {
    LG.empty($("keys"), LG.h("h2", {}, "Keys"), LG.h("table", {}, KEYS.map(([key, what]) => LG.h("tr", {}, LG.h("td", {}, LG.h("kbd", {}, key)), LG.h("td", {}, what)))), LG.h("button", { onclick: () => $("keys").close() }, "Close"));
    $("keys").showModal();
  }

  function pressed(event) {
    if (event.target.closest("input, select, textarea, dialog") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "/") { event.preventDefault(); $("search").focus(); $("search").select(); }
    else if (/^[1-7]$/.test(event.key)) show(ORDER[Number(event.key) - 1]);
    else if (event.key === "[") state.move?.(-1);
    else if (event.key === "]") state.move?.(1);
    else if (event.key === "t") turnTheme();
    else if (event.key === "?") showKeys();
    else if (current === "graph" && (event.key.startsWith("Arrow") || "0ec+-".includes(event.key) || event.key === "Escape" || event.key === "Enter")) {
      if (event.target.closest("button") && event.key === "Enter") return;
      document.getElementById("canvas")?.dispatchEvent(new KeyboardEvent("keydown", { key: event.key }));
    }
  }

  async function start() {
    lastTheme();
    makeTabs();
    listen();
    LG.go("graph");
    state.follow = true;
    state.documents = await LG.documents();
    state.document = state.documents[0];
    await LG.refresh();
    document.body.dataset.ready = "true";
    if (state.documents.length > 1) show("difference");
    keepUp();
  }

  start().catch(LG.complain);
})();
