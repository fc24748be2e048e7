// The page of models: a form that asks the server for traces, and what it answers.

const FIRST_CHOICE = "reverse-stack";

class Workbench {
  constructor() {
    this.player = new Player();
    this.history = new History();
    this.generated = null; // the pair that was generated last, as long as it is not edited
    this.asked = 0;
    this.build();
    this.player.onstep = () => this.stepped();
  }

  build() {
    this.model = make("select", { id: "model" });
    this.other = make("select", { id: "other" }, make("option", { value: "", text: "nothing" }));
    this.task = make("select", { id: "task" });
    this.length = make("input", { id: "length", type: "number", min: "1", max: "500", value: "12" });
    this.seed = make("input", { id: "seed", type: "number", min: "0", value: "0" });
    this.prefix = make("input", { id: "prefix", spellcheck: "false", autocapitalize: "off" });
    this.temperature = make("input", { id: "temperature", type: "number", min: "0.1", max: "100",
      step: "0.1", value: "1" });
    this.input = make("textarea", { id: "input", rows: "1", spellcheck: "false",
      autocapitalize: "off", autocomplete: "off", "aria-describedby": "hint" });
    this.inputLabel = make("span");
    this.about = make("p", { class: "faint about-task", id: "hint" });
    this.error = make("p", { id: "error", class: "error", role: "alert", hidden: "" });
    this.result = make("div", { class: "results" });
    const field = (label, input, kind = "") =>
      make("label", { class: `field ${kind}` }, make("span", { text: label }), input);
    this.ofTask = [field("Task", this.task), field("Length", this.length, "short")];
    this.ofLines = [field("Prefix", this.prefix), field("Temperature", this.temperature, "short")];
    this.generateButton = make("button", { type: "button", id: "generate", onclick: () => {
      if (this.generates() && this.line === this.input.value) this.seed.value = Number(this.seed.value) + 1;
      this.generate();
    } });
    this.drawing = make("div", { class: "line drawn" }, ...this.ofTask, ...this.ofLines,
      field("Seed", this.seed, "short"), this.generateButton);
    this.more = make("div", { class: "more", id: "more" },
      make("div", { class: "line" }, field("Compare with", this.other)), this.drawing, this.about);
    this.moreButton = make("button", { type: "button", id: "options", text: "Options",
      "aria-controls": "more", "aria-expanded": "false", onclick: () => {
        const open = this.more.classList.toggle("open");
        this.moreButton.setAttribute("aria-expanded", String(open));
      } });
    this.form = make("form", { class: "workbench" },
      make("div", { class: "line first" }, field("Model", this.model, "wide"), this.moreButton, this.more),
      make("div", { class: "line" },
        make("label", { class: "field long" }, this.inputLabel, this.input),
        make("button", { type: "submit", id: "run", class: "main", text: "Trace" })),
      this.error);
    this.downloads = new Downloads((kind) => this.download(kind));
    this.listen();
    this.foot = make("div", { class: "foot" }, this.downloads.root);
    this.root = make("div", {}, this.form, this.result, this.player.root, this.foot);
    this.clear();
  }

  listen() {
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.run();
    });
    this.input.addEventListener("input", () => { this.generated = null; });
    this.input.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey) {
        event.preventDefault();
        this.run();
      }
    });
    this.model.addEventListener("change", () => this.choose());
    this.other.addEventListener("change", () => this.run());
  }

  async start() {
    const listed = await this.ask("api/models");
    if (!listed) return;
    this.models = listed.models;
    this.summaries = new Map(listed.tasks.map(({ name, summary }) => [name, summary]));
    this.ondocs(listed.docs);
    for (const { name, memory } of this.models) {
      const told = memory === "none" ? "no memory" : memory;
      const text = name.includes(memory) ? name : `${name} (${told})`;
      this.model.append(make("option", { value: name, text }));
      this.other.append(make("option", { value: name, text }));
    }
    this.length.max = String(listed.longest);
    if (!this.models.length) {
      this.say("This server has no models: start it with pushpop serve MODEL. " +
        "The playground works without one.");
      this.form.querySelectorAll("button, select, input, textarea")
        .forEach((control) => { control.disabled = true; });
      return;
    }
    await this.visit(readAddress(location.hash));
  }

  known(name) {
    return (this.models || []).some((model) => model.name === name);
  }

  // Show what an address says; what it leaves out is chosen here.
  async visit({ model, other, input, step }) {
    if (!this.models || !this.models.length) return;
    const first = this.known(FIRST_CHOICE) ? FIRST_CHOICE : this.models[0].name;
    this.model.value = this.known(model) ? model : first;
    this.other.value = this.known(other) ? other : "";
    this.describe();
    if (model && !this.known(model)) {
      this.fail(`This server has no model ${model}.`);
    } else if (input === null || input === undefined) await this.choose(step, false);
    else {
      this.input.value = input;
      this.generated = null;
      await this.run(step, false);
    }
  }

  chosen() {
    return this.models.find(({ name }) => name === this.model.value);
  }

  generates() {
    return this.chosen().form === "lm";
  }

  // What the chosen model reads, and what it can be given.
  describe() {
    const { task, tasks, symbols, separator, example } = this.chosen();
    const text = separator ? "symbols separated by spaces" : "every character is a symbol";
    const lines = this.generates();
    this.inputLabel.textContent = `${lines ? "Line" : "Input"}, ${text}`;
    this.about.textContent = (task ? `Its task, ${task}: ${this.summaries.get(task)} ` : "") +
      (lines ? "A language model: it reads a line, and says at each symbol what is likely to come. " : "") +
      `It knows ${plural(symbols, "symbol", "symbols")}, such as ${example}.`;
    this.task.replaceChildren(...tasks.map((name) => make("option", { value: name, text: name })));
    if (task) this.task.value = task;
    this.drawing.hidden = !tasks.length && !lines;
    this.ofTask.forEach((one) => { one.hidden = lines; });
    this.ofLines.forEach((one) => { one.hidden = !lines; });
    this.generateButton.textContent = lines ? "Generate a line" : "Draw an input";
  }

  // Another model: an input of its own task, or else what stands there, or else some symbols.
  async choose(step, isNew = true) {
    this.describe();
    const { task, example } = this.chosen();
    if (task || this.generates()) await this.generate(step, isNew);
    else {
      this.generated = null;
      this.input.value ||= example;
      await this.run(step, isNew);
    }
  }

  async generate(step, isNew = true) {
    const seed = Number(this.seed.value);
    if (this.generates()) {
      const wanted = { model: this.model.value, prefix: this.prefix.value, seed,
        temperature: Number(this.temperature.value) };
      const drawn = await this.ask("api/lines", wanted);
      if (!drawn) return;
      this.generated = null;
      this.input.value = this.line = drawn.line;
    } else {
      const task = this.task.value;
      const pair = await this.ask("api/generate", { task, length: Number(this.length.value), seed });
      if (!pair) return;
      this.input.value = pair.source.join(" ");
      this.generated = { ...pair, task };
    }
    await this.run(step, isNew);
  }

  // What is asked of the server for a model.
  request(model) {
    const { task } = this.models.find(({ name }) => name === model);
    // A model of another task is not wrong to give another answer.
    const target = this.generated && task === this.generated.task ? this.generated.target : null;
    return { model, input: this.input.value, target };
  }

  async run(step, isNew = true) {
    const mine = (this.asked += 1);
    const names = [...new Set([this.model.value, this.other.value].filter(Boolean))];
    const requests = names.map((name) => this.request(name));
    const found = [];
    for (const request of requests) {
      const trace = await this.ask("api/trace", request);
      if (mine !== this.asked) return; // the visitor has asked for something else meanwhile
      if (!trace) return;
      found.push(trace);
    }
    this.say("");
    this.place = { page: "models", model: this.model.value, other: this.other.value,
      input: this.input.value };
    this.shown = requests;
    this.showResults(found);
    const writing = Math.max(0, found[0].steps.findIndex((one) => one.output));
    this.player.goTo(step === undefined ? writing : step - 1);
    if (!this.root.hidden) this.history.go(this.address(), isNew);
  }

  showResults(found) {
    this.result.replaceChildren(...found.map((trace) => make("p", { class: "result" },
      make("span", { class: "who", text: (found.length > 1 ? `${trace.model} ` : "") +
        (trace.source.length || trace.steps[0].output === null ? "writes " : "reads ") }),
      make("output", { text: trace.output.join(trace.separators[1]) || "nothing" }))));
    this.player.root.hidden = this.foot.hidden = false;
    this.downloads.label.textContent = found.length > 1 ? `Download ${found[0].model}` : "Download";
    const old = this.player.panels;
    const memories = found.flatMap(memoriesOf);
    if (old.length === memories.length) {
      old.forEach((panel, which) => panel.show(memories[which]));
      this.player.refresh();
    } else this.player.setPanels(memories.map((trace) => new Panel(trace)));
    this.player.panels.forEach((panel) => panel.resize());
  }

  address() {
    return writeAddress({ ...this.place, step: this.player.step + 1 });
  }

  stepped() {
    if (this.shown && !this.root.hidden) this.history.soon(this.address());
  }

  // The trace of the first model as a file.
  async download(kind) {
    const [request] = this.shown;
    const answer = await this.fetch("api/export", { ...request, kind });
    return answer && { name: `${request.model}.${kind}`, blob: await answer.blob() };
  }

  async ask(address, body) {
    const answer = await this.fetch(address, body);
    if (answer) return answer.json();
    this.root.classList.toggle("stale", Boolean(this.shown)); // the picture is of what was asked before
    return null;
  }

  // The server's answer, or null after something went wrong, which is then told.
  async fetch(address, body) {
    this.form.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(address, body && {
        method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
      });
      if (answer.ok) return answer;
      this.say((await answer.json()).error || `the server answered ${answer.status}`);
    } catch {
      this.say("The server does not answer: is pushpop serve still running?");
    } finally {
      this.form.removeAttribute("aria-busy");
    }
    return null;
  }

  fail(text) {
    this.clear();
    this.say(text);
  }

  // Nothing is left of an answer that is not one to what is asked now.
  clear() {
    this.shown = null;
    this.result.replaceChildren();
    this.player.root.hidden = this.foot.hidden = true;
  }

  say(text) {
    this.error.textContent = text;
    this.error.hidden = !text;
    if (!text) this.root.classList.remove("stale");
  }
}
