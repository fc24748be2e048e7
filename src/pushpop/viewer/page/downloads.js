// The trace as a file, made by the server.

const KINDS = [["png", "PNG", "a picture"], ["svg", "SVG", "a picture that stays sharp"],
  ["gif", "GIF", "the memory at work, animated"], ["html", "HTML", "a page to step through, all in one file"],
  ["json", "JSON", "the numbers"]];

class Downloads {
  // `fetchFile(kind)` gives {name, blob}, or null when something went wrong and was told.
  constructor(fetchFile) {
    this.label = make("span", { class: "faint", text: "Download" });
    this.root = make("div", { class: "downloads", role: "group", "aria-label": "download" }, this.label);
    for (const [kind, text, title] of KINDS) {
      const button = make("button", { type: "button", class: "small", text, title });
      button.dataset.kind = kind;
      button.addEventListener("click", async () => {
        button.disabled = true;
        try {
          const file = await fetchFile(kind);
          if (file) save(file);
        } finally {
          button.disabled = false;
        }
      });
      this.root.append(button);
    }
  }
}

function save({ name, blob }) {
  const address = URL.createObjectURL(blob);
  make("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
