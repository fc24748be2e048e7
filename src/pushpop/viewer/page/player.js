// Steps through one or more panels at the same time, by buttons, slider, keys and by itself.

const PACE = 350; // milliseconds a step while playing

class Player {
  constructor(panels = []) {
    this.step = 0;
    this.timer = null;
    this.build();
    this.setPanels(panels);
  }

  build() {
    const button = (text, label, act) => make("button",
      { type: "button", text, "aria-label": label, title: label, onclick: act });
    this.playButton = button("▶", "play", () => this.toggle());
    this.slider = make("input", { type: "range", min: "0", step: "1", "aria-label": "step" });
    this.slider.addEventListener("input", () => this.goTo(Number(this.slider.value)));
    this.count = make("output", { class: "count" });
    this.spoken = make("p", { class: "spoken", "aria-live": "polite" });
    this.bar = make("div", { class: "player", role: "group", "aria-label": "step through time" },
      button("⏮", "first step", () => this.goTo(0)),
      button("◀", "step back", () => this.goTo(this.step - 1)),
      this.playButton,
      button("▶|", "step on", () => this.goTo(this.step + 1)),
      button("⏭", "last step", () => this.goTo(this.last)),
      this.slider, this.count,
      make("span", { class: "keys", text: "← → Home End, space plays" }));
    this.screens = make("div", { class: "screens" });
    this.root = make("div", { class: "playback" }, this.bar, this.screens, this.spoken);
    this.root.addEventListener("keydown", (event) => this.key(event));
  }

  setPanels(panels) {
    this.panels = panels;
    for (const panel of panels) panel.onstep = (step) => this.goTo(step);
    this.screens.replaceChildren(...panels.map((panel) => panel.root));
    this.screens.classList.toggle("two", panels.length > 1);
    this.refresh();
  }

  // After a panel has been given another trace.
  refresh() {
    this.last = Math.max(0, ...this.panels.map((panel) => panel.trace.steps.length - 1));
    this.slider.max = String(this.last);
    this.goTo(Math.min(this.step, this.last));
  }

  goTo(step) {
    const start = performance.now();
    this.step = Math.max(0, Math.min(step, this.last));
    for (const panel of this.panels) panel.goTo(this.step);
    this.slider.value = String(this.step);
    this.count.textContent = `${this.step + 1} / ${this.last + 1}`;
    const sentence = this.panels.length ? this.panels[0].sentence() : "";
    this.slider.setAttribute("aria-valuetext", sentence);
    if (this.timer === null) this.spoken.textContent = sentence;
    this.stepped = performance.now() - start;
  }

  toggle() {
    if (this.timer !== null) {
      this.stop();
      return;
    }
    if (this.step >= this.last) this.goTo(0);
    this.playButton.textContent = "⏸";
    this.playButton.setAttribute("aria-label", "pause");
    this.timer = setInterval(() => {
      if (this.step >= this.last) this.stop();
      else this.goTo(this.step + 1);
    }, PACE);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.playButton.textContent = "▶";
    this.playButton.setAttribute("aria-label", "play");
    this.goTo(this.step);
  }

  // Returns whether the key was ours.
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return false;
    const on = event.target;
    const typing = on.matches("input:not([type=range]), textarea, select");
    const pressing = on.matches("button, summary, a") && (event.key === " " || event.key === "Enter");
    const sliding = on.matches("input[type=range]") && on !== this.slider;
    if (typing || pressing || sliding) return false;
    const jump = event.shiftKey ? 10 : 1;
    const actions = {
      ArrowLeft: () => this.goTo(this.step - jump),
      ArrowRight: () => this.goTo(this.step + jump),
      Home: () => this.goTo(0),
      End: () => this.goTo(this.last),
      " ": () => this.toggle(),
    };
    if (!actions[event.key]) return false;
    event.preventDefault();
    actions[event.key]();
    return true;
  }
}

// Keys pressed nowhere in particular go to this player.
function takeKeys(player, isShown = () => true) {
  document.addEventListener("keydown", (event) => {
    if (isShown() && !player.root.contains(event.target)) player.key(event);
  });
}
