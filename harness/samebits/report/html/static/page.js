"use strict";
// What every section's script uses: data, the page's address, navigation between documents, copying.
const samebits = (() => {
  const starters = new Map();
  const listeners = [];
  const started = new Set();

  /** Register what starts a section of a command, when it is first shown. */
  function section(command, start) {
    starters.set(command, start);
  }

  /** The JSON value that a section embeds under a name. */
  function data(root, name) {
    const script = root.querySelector(`script[data-name="data:${CSS.escape(name)}"]`);
    return script === null ? null : JSON.parse(script.textContent);
  }

  /** Records from columns (see check_section.py): objects whose fields are read on demand. */
  function rows(columns) {
    const prototype = {};
    for (const [name, column] of Object.entries(columns.fields)) {
      const { values, index } = column;
      const get = index === undefined
        ? () => values[0]
        : function () { return values[index[this.number]]; };
      Object.defineProperty(prototype, name, { get, enumerable: true });
    }
    return Array.from({ length: columns.count }, (_, number) => Object.assign(Object.create(prototype), { number }));
  }

  /** An element; text is always text, never markup. */
  function element(name, attributes = {}, ...children) {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (value === null || value === undefined || value === false) continue;
      if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
      else made.setAttribute(key, value === true ? "" : value);
    }
    made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return made;
  }

  const SIGNS = { proved: "◆", bitwise: "=", rounding: "≈", refused: "⊘", different: "≠", unstable: "~", error: "!", skipped: "–" };

  /** The parts of a sentence: what stands in backticks is code, all of it is text. */
  function prose(text) {
    return text.split(/`([^`]+)`/).map((part, number) => (number % 2 === 1 ? element("code", {}, part) : part));
  }

  /** A verdict as sign, word and colour. */
  function verdict(name, count, fails = false) {
    return element("span", { class: `badge v-${name}${fails ? " fails" : ""}` },
      element("span", { class: "sign", "aria-hidden": "true" }, SIGNS[name] ?? "?"), ` ${name}`,
      count === undefined ? "" : element("b", {}, ` ${count}`));
  }

  /** A command with its copy button. */
  function replay(command, label = "run") {
    return element("div", { class: "replay" }, element("span", { class: "replay-label" }, label),
      element("code", { tabindex: "0" }, command),
      element("button", { type: "button", class: "copy", "aria-label": "Copy the command" }, "Copy"));
  }

  /** Facts as a list of names and values; empty ones are left out. */
  function facts(pairs) {
    const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
    return element("dl", { class: "facts" }, ...shown.map(([name, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, ...(value instanceof Node ? [value] : prose(String(value)))))));
  }

  function parameters() {
    return new URLSearchParams(location.hash.slice(1));
  }

  function write(changed) {
    const text = changed.toString();
    if (text === location.hash.slice(1)) return;
    history.replaceState(null, "", text === "" ? location.pathname + location.search : `#${text}`);
    listeners.forEach((listener) => listener());
  }

  /** The part of the page's address that belongs to a section: names and values, kept across a reload. */
  function address(root) {
    const key = (name) => `${root.id}.${name}`;
    return {
      get: (name) => parameters().get(key(name)) ?? "",
      all: (name) => (parameters().get(key(name)) ?? "").split("|").filter((value) => value !== ""),
      set(values) {
        const changed = parameters();
        for (const [name, value] of Object.entries(values)) {
          const text = Array.isArray(value) ? value.join("|") : value;
          if (text === "" || text === null) changed.delete(key(name));
          else changed.set(key(name), text);
        }
        write(changed);
      },
      onChange: (listener) => listeners.push(listener),
    };
  }

  /** Say something to a screen reader. */
  function announce(text) {
    document.querySelector(".announce").textContent = text;
  }

  async function copy(button) {
    const text = button.parentElement.querySelector("code").textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch { // no permission, as from a file in some browsers
      const area = element("textarea", { class: "copying" }, text);
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "Copied";
    announce("copied");
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  }

  function startSection(root) {
    if (started.has(root)) return;
    started.add(root);
    starters.get(root.dataset.command)?.(root);
    if (typeof samebits.drawCharts === "function") samebits.drawCharts(root);
  }

  function showSection() {
    const all = [...document.querySelectorAll("section.document")];
    const asked = parameters().get("section");
    const shown = all.find((root) => root.id === asked) ?? all[0];
    for (const root of all) root.hidden = root !== shown;
    for (const link of document.querySelectorAll("nav [data-section]")) {
      if (link.dataset.section === shown.id) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    startSection(shown);
  }

  function start() {
    document.addEventListener("click", (event) => {
      const button = event.target.closest("button.copy");
      if (button !== null) copy(button);
      const link = event.target.closest("nav [data-section]");
      if (link !== null) {
        event.preventDefault(); // the filters of all sections stay in the address
        const changed = parameters();
        changed.set("section", link.dataset.section);
        write(changed);
        link.closest("details")?.removeAttribute("open");
        scrollTo(0, 0);
      }
    });
    listeners.push(showSection);
    addEventListener("hashchange", () => listeners.forEach((listener) => listener()));
    addEventListener("beforeprint", () => document.querySelectorAll("section.document").forEach(startSection));
    showSection();
  }

  return { SIGNS, section, data, rows, element, verdict, prose, replay, facts, address, announce, start };
})();
