"use strict";
// The overview of a check: filters that the address holds, the matrix, and the list of results in portions.
samebits.section("check", (root) => {
  const { element, verdict } = samebits;
  const PORTION = 60;
  const address = samebits.address(root);
  const model = samebits.checkRows(root);
  const context = {
    pairs: new Map(samebits.data(root, "pairs").map((head) => [head.pair, head])), environment: samebits.data(root, "environment"), root,
  };
  const matrix = samebits.checkMatrix(root.querySelector(".matrix"), model, address);
  const search = root.querySelector("input[type=search]");
  const list = root.querySelector(".results");
  const more = element("button", { type: "button", class: "more noprint", onclick: () => portion() }, "Show more");
  let shown = [];
  let listed = 0;

  function line(result) {
    const counts = [result.mismatches, result.elements].map((count) => count.toLocaleString("en"));
    const extent = result.mismatches > 0 && result.elements > 0 ? `${counts[0]} of ${counts[1]}` : "";
    const details = element("details", { class: "row", "data-number": result.number },
      element("summary", {}, element("span", { class: "verdict" }, verdict(result.verdict, undefined, result.failed), ...model.required(result)), element("b", { class: "side" }, `${result.pair}/${result.variant}`),
        ...["case", "dtype", "mesh", "mode", "direction", "leaf"].map((name) =>
          element("span", { class: name }, name === "leaf" && result.leaf === "*" ? "" : result[name])), // `*`: there is no leaf
        element("span", { class: "extent", title: "elements that differ" }, extent),
        element("span", {}, ...result.statuses.map((status) => element("span", { class: `badge s-${status}` }, status)))));
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(samebits.resultView(result, context));
      if (details.open) address.set({ result: String(result.number) });
      else if (address.get("result") === String(result.number)) address.set({ result: "" });
    });
    return details;
  }

  function portion() {
    more.before(...shown.slice(listed, listed + PORTION).map(line));
    listed += PORTION;
    more.hidden = listed >= shown.length;
  }

  new IntersectionObserver((entries) => {
    if (entries.some((each) => each.isIntersecting) && !more.hidden) portion();
  }, { rootMargin: "600px" }).observe(more);

  function choices() {
    for (const group of root.querySelectorAll(".choices")) {
      const name = group.dataset.field;
      const values = model.counts(name);
      group.hidden = values.size < (name === "status" ? 1 : 2);
      const chosen = new Set(address.all(name));
      group.replaceChildren(...[...values].map(([value, count]) => element("button", {
        type: "button", "aria-pressed": String(chosen.has(value)), "data-value": value,
        onclick: () => {
          if (!chosen.delete(value)) chosen.add(value);
          address.set({ [name]: [...chosen] });
          group.querySelector(`[data-value="${CSS.escape(value)}"]`).focus();
        },
      }, ...(name === "verdict" ? [verdict(value, count)] : [`${value} `, element("b", {}, String(count))]))));
    }
  }

  /** What narrows the list besides the pressed buttons, each with a way to remove it. */
  function chosen() {
    const names = [...model.PLACE.filter((name) => !model.CHOICES.includes(name)), "cause"];
    const removable = names.filter((name) => address.get(name) !== "").map((name) => element("button", {
      type: "button", "aria-label": `Remove the filter ${name} ${address.get(name)}`, onclick: () => address.set({ [name]: "" }),
    }, `${name}${name === "cause" ? ` ${Number(address.get(name)) + 1}` : `: ${address.get(name)}`} ✕`));
    if (narrowed()) removable.push(element("button", { type: "button", class: "clear", onclick: clear }, "Clear filters"));
    root.querySelector(".chosen").replaceChildren(...removable);
    for (const card of root.querySelectorAll("[data-cause]")) {
      card.querySelector(".show-cause").setAttribute("aria-pressed", String(card.dataset.cause === address.get("cause")));
    }
  }

  const filters = [...model.CHOICES, ...model.PLACE, "cause", "q"];
  const narrowed = () => filters.some((name) => address.get(name) !== "");

  function clear() {
    search.value = "";
    address.set(Object.fromEntries(filters.map((name) => [name, ""])));
  }

  /** Unfold the result that the address names; one that stands far below, or is filtered out, comes first. */
  function openLinked() {
    const result = model.all[Number.parseInt(address.get("result"), 10)];
    if (result === undefined) return;
    let row = list.querySelector(`details[data-number="${result.number}"]`);
    if (row === null) list.prepend(row = line(result));
    row.open = true;
  }

  let last = null;
  function update() {
    const now = filters.map((name) => address.get(name)).join("\n") + `\n${address.get("open")}`;
    if (now === last) return;
    last = now;
    shown = model.sorted.filter(model.selector(address));
    choices();
    chosen();
    matrix.show(shown);
    listed = 0;
    list.replaceChildren(more);
    portion();
    if (document.activeElement !== search) search.value = address.get("q");
    root.querySelector(".shown").textContent = `${shown.length} of ${model.all.length}`;
    openLinked();
  }

  function step(by) {
    const rows = [...list.querySelectorAll("details.row > summary")];
    const at = rows.indexOf(document.activeElement.closest("summary"));
    rows[Math.max(0, Math.min(rows.length - 1, at + by))]?.focus();
  }

  document.addEventListener("keydown", (event) => {
    if (root.hidden || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") clear();
    if (event.target.matches("input, textarea, select")) return;
    if (event.key === "/") {
      event.preventDefault();
      search.focus();
    }
    if (event.key === "j") step(1);
    if (event.key === "k") step(-1);
  });
  root.addEventListener("click", (event) => {
    const card = event.target.closest(".show-cause")?.closest("[data-cause]");
    if (card === null || card === undefined) return;
    const again = address.get("cause") === card.dataset.cause;
    address.set({ cause: again ? "" : card.dataset.cause, result: "" });
    if (!again) root.querySelector(".results-head").scrollIntoView({ block: "start" });
  });
  search.addEventListener("input", () => address.set({ q: search.value }));
  address.onChange(update);
  update();
});
