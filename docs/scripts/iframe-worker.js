/* Search from disk: browsers start no worker for a page that was opened as a file, so there the
   search script runs in a hidden frame that is addressed as if it were a worker. The theme's
   offline plugin would otherwise load such a script from the network. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.frame = frame.contentWindow;
      this.frame.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      this.ready = new Promise((resolve) => {
        const script = this.frame.document.createElement("script");
        script.src = new URL(url, location.href).href;
        script.onload = resolve;
        this.frame.document.body.append(script);
      });
    }

    async postMessage(data) {
      await this.ready;
      this.frame.dispatchEvent(new MessageEvent("message", { data }));
    }
  };
}
