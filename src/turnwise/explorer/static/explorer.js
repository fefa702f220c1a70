// What pages of the explorer do in the browser: keys, exports and copies.
"use strict";

const turnwise = {
  // Keys --------------------------------------------------------------------------------------------------

  move(step) {
    const items = [...document.querySelectorAll("[data-item]")].filter((item) => item.offsetParent !== null);
    if (!items.length) return;
    const place = (wanted) => items.findIndex((item) => item.matches(wanted));
    const current = place(".is-current");
    const at = current < 0 ? place("[aria-pressed=true]") : current; // a table drawn anew has no current item
    const next = items[at < 0 ? (step > 0 ? 0 : items.length - 1) : Math.min(Math.max(at + step, 0), items.length - 1)];
    for (const item of items) item.classList.toggle("is-current", item === next);
    next.focus({ preventScroll: true });
    next.scrollIntoView({ block: "nearest" });
    if (next.dataset.item === "follow") next.click();
  },

  // Show which turn is chosen, wherever it stands.
  point(turn) {
    for (const one of document.querySelectorAll("[data-turn]")) {
      const chosen = one.dataset.turn === String(turn);
      one.classList.toggle("is-current", chosen);
      if (one.matches("article")) one.setAttribute("aria-current", chosen ? "true" : "false");
    }
    const article = document.getElementById(`turn-${turn}`);
    if (article) { // within the chat alone, so that curves stay in sight
      const chat = article.closest(".chat");
      chat.scrollTop += article.getBoundingClientRect().top - chat.getBoundingClientRect().top - 8;
    }
  },

  // A key clicks what has it as its data-key.
  pressed({ event, action }) {
    if (action !== "keydown" || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target.isContentEditable) return;
    const button = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
    if (event.key === "j" || event.key === "k") turnwise.move(event.key === "j" ? 1 : -1);
    else if (event.key === "/") document.querySelector("[data-search]")?.focus();
    else if (event.key === "Enter" && event.target.matches("[data-item]:not(a):not(button)")) event.target.click();
    else if (button) button.click();
    else return;
    event.preventDefault();
  },

  // Exports -----------------------------------------------------------------------------------------------

  charts() {
    return [...document.querySelectorAll("[data-chart] svg, svg[data-chart]")].filter((one) => one.clientWidth > 0);
  },

  offer(csv) {
    const show = () => {
      const drawn = turnwise.charts().length > 0;
      for (const button of document.querySelectorAll("[data-export]")) {
        button.hidden = button.dataset.export === "csv" ? !csv : !drawn;
      }
    };
    show();
    for (const after of [300, 1000, 3000]) setTimeout(show, after); // charts are drawn a moment later
  },

  drawing() {
    const gap = 16;
    const whole = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    let width = 0;
    let top = 0;
    for (const chart of turnwise.charts()) {
      const copy = chart.cloneNode(true);
      const box = chart.getBoundingClientRect();
      copy.setAttribute("x", "0");
      copy.setAttribute("y", String(top));
      copy.setAttribute("width", String(box.width));
      copy.setAttribute("height", String(box.height));
      copy.removeAttribute("style");
      whole.append(copy);
      width = Math.max(width, box.width);
      top += box.height + gap;
    }
    const height = Math.max(top - gap, 1);
    const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
    paper.setAttribute("width", "100%");
    paper.setAttribute("height", "100%");
    paper.setAttribute("fill", document.body.classList.contains("body--dark") ? "#14171c" : "#ffffff");
    whole.prepend(paper);
    for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) {
      whole.setAttribute(name, String(value));
    }
    whole.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    return { text: new XMLSerializer().serializeToString(whole), width, height };
  },

  async save(kind, name) {
    const { text, width, height } = turnwise.drawing();
    const svg = new Blob([text], { type: "image/svg+xml" });
    if (kind === "svg") return turnwise.download(svg, `${name}.svg`);
    const image = new Image();
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
    await image.decode();
    const canvas = document.createElement("canvas");
    canvas.width = width * 2;
    canvas.height = height * 2;
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    canvas.toBlob((png) => turnwise.download(png, `${name}.png`), "image/png");
  },

  download(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  },

  // What a copy button holds ------------------------------------------------------------------------------

  async copy(button) {
    const text = button.dataset.copy;
    try {
      await navigator.clipboard.writeText(text);
    } catch (error) { // not allowed, or no clipboard on a page without TLS
      const field = Object.assign(document.createElement("textarea"), { value: text });
      document.body.append(field);
      field.select();
      document.execCommand("copy");
      field.remove();
    }
    Quasar.Notify.create({ message: "Copied", position: "top", timeout: 1200 });
  },
};

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-copy]");
  if (button) turnwise.copy(button);
});
for (const [heard, told] of [["focusin", "mouseenter"], ["focusout", "mouseleave"]]) { // words of the glossary
  document.addEventListener(heard, (event) => {
    if (event.target.matches?.(".term")) event.target.dispatchEvent(new Event(told));
  });
}
globalThis.turnwise = turnwise;
