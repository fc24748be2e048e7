// Steps through one or more panels at the same time, by buttons, slider, keys and by itself.

const PACE = 350; // milliseconds a step while playing
const ICONS = {
  first: "M4 4h2v12H4zM16 4v12L7 10z", back: "M15 4v12L5 10z", play: "M5 3v14l12-7z",
  pause: "M5 4h4v12H5zM11 4h4v12h-4z", next: "M5 4l10 6-10 6z", last: "M14 4h2v12h-2zM4 4l9 6-9 6z",
};

function icon(name) {
  const space = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(space, "svg");
  const path = document.createElementNS(space, "path");
  path.setAttribute("d", ICONS[name]);
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("aria-hidden", "true");
  svg.append(path);
  return svg;
}

class Player {
  constructor(panels = []) {
    this.step = 0;
    this.timer = null;
    this.onstep = () => {};
    this.build();
    this.setPanels(panels);
  }

  build() {
    const button = (name, label, act, kind = "") => make("button",
      { type: "button", class: kind, "aria-label": label, title: label, onclick: act }, icon(name));
    this.playButton = button("play", "play", () => this.toggle());
    this.slider = make("input", { type: "range", min: "0", step: "1", "aria-label": "step" });
    this.slider.addEventListener("input", () => this.goTo(Number(this.slider.value)));
    this.count = make("output", { class: "count" });
    this.spoken = make("p", { class: "spoken", "aria-live": "polite" });
    this.bar = make("div", { class: "player", role: "group", "aria-label": "step through time" },
      button("first", "first step", () => this.goTo(0), "jump"),
      button("back", "step back", () => this.goTo(this.step - 1)),
      this.playButton,
      button("next", "step on", () => this.goTo(this.step + 1)),
      button("last", "last step", () => this.goTo(this.last), "jump"),
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
    this.onstep();
    this.stepped = performance.now() - start;
  }

  toggle() {
    if (this.timer !== null) {
      this.stop();
      return;
    }
    if (this.step >= this.last) this.goTo(0);
    this.showPlay("pause");
    this.timer = setInterval(() => {
      if (this.step >= this.last) this.stop();
      else this.goTo(this.step + 1);
    }, PACE);
  }

  stop() {
    clearInterval(this.timer);
    this.timer = null;
    this.showPlay("play");
    this.goTo(this.step);
  }

  showPlay(name) {
    this.playButton.replaceChildren(icon(name));
    this.playButton.setAttribute("aria-label", name);
    this.playButton.title = name;
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
