// What is shown, in the page's address, so that it can be sent to somebody and found again.

const LONGEST_ADDRESS = 6000; // characters; longer inputs are left out

// {page, model, other, input, step} as the part of the address after "#"; a step counts from 1.
function writeAddress({ page, model, other, input, step }) {
  if (page === "playground") return "#playground";
  const parts = new URLSearchParams({ model });
  if (other) parts.set("with", other);
  if (input !== undefined && input.length <= LONGEST_ADDRESS) parts.set("input", input);
  if (step !== undefined) parts.set("step", String(step));
  return `#${parts}`;
}

function readAddress(hash) {
  if (hash === "#playground") return { page: "playground" };
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const step = Number(parts.get("step"));
  return {
    page: "models", model: parts.get("model"), other: parts.get("with") || "",
    input: parts.get("input"), step: Number.isInteger(step) && step > 0 ? step : undefined,
  };
}

// Another model or input is a page of its own to go back to; another step is the same page.
class History {
  constructor() {
    this.timer = null;
    this.waiting = null;
  }

  go(hash, isNew) {
    this.forget();
    if (hash === location.hash) return;
    if (isNew) history.pushState(null, "", hash);
    else history.replaceState(null, "", hash);
  }

  // Browsers refuse to change the address many times a second.
  soon(hash) {
    this.waiting = hash;
    this.timer ??= setTimeout(() => this.go(this.waiting, false), 250);
  }

  forget() {
    clearTimeout(this.timer);
    this.timer = null;
  }
}
