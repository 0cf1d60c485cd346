"use strict";
// The matrix of pair and mesh; a pair unfolds to its variants, a variant to dtype and direction. Arrows move in it.
samebits.checkMatrix = (place, model, address) => {
  const { element, verdict } = samebits;
  const LEVELS = [["pair"], ["pair", "variant"], ["pair", "variant", "dtype", "direction"]];
  const meshes = [...new Set(model.all.map((result) => result.mesh))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const column = new Map(meshes.map((mesh, number) => [mesh, number]));

  /** Results by row of a level, those with the gravest first. */
  function grouped(results, level) {
    const rows = new Map();
    for (const result of results) {
      const key = LEVELS[level].map((name) => result[name]).join("/");
      if (!rows.has(key)) rows.set(key, { key, results: [], gravity: Infinity });
      const row = rows.get(key);
      row.results.push(result);
      row.gravity = Math.min(row.gravity, result.gravity);
    }
    // What failed or changed stands first; all else keeps the order of the document.
    const rank = (row) => (row.gravity < 20 ? 0 : row.gravity < 40 ? 1 : 2);
    return [...rows.values()].sort((a, b) => rank(a) - rank(b));
  }

  function words(results) {
    const counts = new Map();
    for (const result of results) {
      const name = result.failed ? `${result.verdict} (fails)` : result.verdict;
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    return [...counts].map(([name, count]) => `${count} ${name}`).join(", ");
  }

  function cell(row, level, mesh, results) {
    if (results === undefined) return element("td", { class: "none" });
    const grave = model.gravest(results);
    const failing = results.filter((result) => result.failed).length;
    const where = Object.fromEntries(LEVELS[level].map((name) => [name, results[0][name]]));
    const label = `${row.key} on ${mesh}: ${words(results)}`;
    const button = element("button", {
      type: "button", tabindex: "-1", title: label, "aria-label": label,
      class: `cell v-${grave.verdict}${failing > 0 ? " fails" : ""}${grave.statuses.includes("changed") ? " changed" : ""}`,
      onclick: () => choose(where, mesh),
    }, element("span", { class: "sign", "aria-hidden": "true" }, samebits.SIGNS[grave.verdict]),
      element("span", { class: "count", "aria-hidden": "true" }, failing > 0 ? String(failing) : ""));
    return element("td", {}, button);
  }

  function choose(where, mesh) {
    const cleared = Object.fromEntries(model.PLACE.map((name) => [name, ""]));
    const same = Object.entries({ ...where, mesh }).every(([name, value]) => address.get(name) === value);
    address.set(same ? cleared : { ...cleared, ...where, mesh });
  }

  function line(row, level, opened) {
    const byMesh = new Array(meshes.length);
    for (const result of row.results) (byMesh[column.get(result.mesh)] ??= []).push(result);
    const name = level === 2 ? `${row.results[0].dtype} ${row.results[0].direction}` : row.results[0][LEVELS[level].at(-1)];
    const failing = row.results.filter((result) => result.failed).length;
    const head = level === 2
      ? element("span", { class: "leaf-row" }, name)
      : element("button", {
        type: "button", class: "fold", "aria-expanded": String(opened), onclick: () => toggle(row.key),
      }, element("span", { class: "arrow", "aria-hidden": "true" }, opened ? "▾" : "▸"), ` ${name}`);
    return element("tr", { class: `level-${level}` },
      element("th", { scope: "row" }, head, failing > 0 ? element("span", { class: "badge s-failed" }, `✗ ${failing}`) : ""),
      ...meshes.map((mesh, number) => cell(row, level, mesh, byMesh[number])));
  }

  function toggle(key) {
    const opened = new Set(address.all("open"));
    if (!opened.delete(key)) opened.add(key);
    address.set({ open: [...opened] });
    for (const button of place.querySelectorAll("button.fold")) if (button.dataset.key === key) button.focus();
  }

  function lines(results, level, opened) {
    return grouped(results, level).flatMap((row) => {
      const unfolded = level < 2 && opened.has(row.key);
      const own = line(row, level, unfolded);
      const fold = own.querySelector("button.fold");
      if (fold !== null) fold.dataset.key = row.key;
      return [own, ...(unfolded ? lines(row.results, level + 1, opened) : [])];
    });
  }

  /** Show results; rows that the address names are unfolded. */
  function show(results) {
    const focused = place.contains(document.activeElement) ? document.activeElement.getAttribute("aria-label") : null;
    const head = element("tr", {}, element("th", { scope: "col", class: "corner" }, "pair"),
      ...meshes.map((mesh) => element("th", { scope: "col", class: "mesh" }, element("span", {}, mesh))));
    const table = element("table", {},
      element("caption", {}, "The gravest verdict of each pair on each mesh; a number counts failures. A cell shows its results below."),
      element("thead", {}, head), element("tbody", {}, ...lines(results, 0, new Set(address.all("open")))));
    place.replaceChildren(table);
    const cells = [...place.querySelectorAll("button.cell")];
    const first = cells.find((button) => button.getAttribute("aria-label") === focused) ?? cells[0];
    if (first !== undefined) first.tabIndex = 0;
    if (focused !== null && first !== undefined && first.getAttribute("aria-label") === focused) first.focus();
  }

  const STEPS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  place.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (step === undefined || !event.target.matches("button.cell")) return;
    event.preventDefault();
    let [row, number] = [event.target.closest("tr"), event.target.closest("td").cellIndex];
    for (;;) { // over empty cells to the next that has results
      if (step[0] !== 0) row = step[0] > 0 ? row.nextElementSibling : row.previousElementSibling;
      number += step[1];
      const next = row?.cells[number];
      if (next === undefined) return;
      const button = next.querySelector("button.cell");
      if (button === null) continue;
      event.target.tabIndex = -1;
      button.tabIndex = 0;
      button.focus();
      return;
    }
  });
  return { show };
};
