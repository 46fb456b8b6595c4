// Where the data come from: a server that is asked, or what is in this file.
"use strict";

(function () {
  async function asked(path, options) {
    const answer = await fetch(path, options);
    if (!answer.ok) throw new Error(await answer.text());
    return answer.json();
  }

  class Served {
    constructor(number) { this.number = number; }
    get(what, options = {}) {
      const query = new URLSearchParams({ doc: this.number, ...options });
      return asked(`api/${what}?${query}`);
    }
    overview() { return this.get("overview"); }
    step(n) { return this.get("step", { n }); }
    code(step, kernel) { return this.get("code", { step, kernel: kernel.number }); }
    source(file) { return this.get("source", { file }); }
    limits() { return this.get("limits"); }
    control(what, options = {}) {
      const query = new URLSearchParams(options);
      return asked(`control/${what}?${query}`, { method: "POST", headers: { "X-Livegrad": "1" } });
    }
  }

  // Blocks of text in this file; one that is not shown is not read.
  const read = (which) => JSON.parse(document.querySelector(which).textContent);

  class Stored {
    constructor(number) {
      this.number = number;
      this.bundle = read(`[data-record="${number}"]`);
    }
    async overview() { return this.bundle.overview; }
    async step(n) { return read(`[data-of="${this.number}"][data-step="${n}"]`); }
    async code(step, kernel) {
      return this.bundle.code[kernel.name]
        || { ir: "", assembly: "", note: "this file has the code of the slowest kernels alone" };
    }
    async source(file) { return this.bundle.sources[file] || { text: "", problem: "not stored" }; }
    async limits() { return this.bundle.limits; }
  }

  // The documents there are: one, or two to compare.
  LG.documents = async function () {
    const stored = document.querySelectorAll("[data-record]").length;
    if (stored) return Array.from({ length: stored }, (_, number) => new Stored(number));
    const first = new Served(0);
    const { documents } = await first.overview();
    return Array.from({ length: documents }, (_, number) => new Served(number));
  };

  // A step as objects: nodes by number, who reads whom, kernels by number.
  LG.decoded = function (raw) {
    const { columns, texts, rows } = raw.nodes;
    const text = raw.nodes.text_columns;
    const nodes = rows.map((row) => {
      const node = {};
      columns.forEach((name, i) => { node[name] = i < text ? texts[row[i]] : row[i]; });
      node.count ??= 1; // records of before
      node.readers = [];
      return node;
    });
    const byNumber = new Map(nodes.map((node) => [node.number, node]));
    for (const node of nodes) {
      node.inputs = node.inputs.filter((x) => byNumber.has(x));
      for (const x of node.inputs) byNumber.get(x).readers.push(node.number);
    }
    const kernels = new Map(raw.kernels.map((kernel) => [kernel.number, kernel]));
    return { ...raw, nodes, byNumber, kernels };
  };
})();
