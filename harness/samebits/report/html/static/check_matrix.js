"use strict";
// The matrix of pair and mesh; a pair unfolds to its variants, a variant to dtype and direction. Arrows move in it.
samebits.checkMatrix = (place, model, address) => {
  const { element } = samebits;
  const LEVELS = [["pair"], ["pair", "variant"], ["pair", "variant", "dtype", "direction"]];
  const meshes = [...new Set(model.all.map((result) => result.mesh))].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  const column = new Map(meshes.map((mesh, number) => [mesh, number]));
  const built = new Map(); // rows are made once and then changed: thousands of cells take too long to make anew
  const body = element("tbody", {});

  /** Results by row of a level, those that failed or changed first; all else keeps the order of the document. */
  function grouped(results, level) {
    const rows = new Map();
    for (const result of results) {
      const key = LEVELS[level].map((name) => result[name]).join("/");
      if (!rows.has(key)) rows.set(key, { key, level, results: [], gravity: Infinity, failing: 0 });
      const row = rows.get(key);
      row.results.push(result);
      row.gravity = Math.min(row.gravity, result.gravity);
      row.failing += result.failed ? 1 : 0;
    }
    const rank = (row) => (row.gravity < 20 ? 0 : row.gravity < 40 ? 1 : 2);
    return [...rows.values()].sort((a, b) => rank(a) - rank(b));
  }

  /** The row of a group in the table, made on first use. */
  function rowOf({ key, level, results }) {
    const known = built.get(`${level} ${key}`);
    if (known !== undefined) return known;
    const first = results[0];
    const where = Object.fromEntries(LEVELS[level].map((name) => [name, first[name]]));
    const arrow = element("span", { class: "arrow", "aria-hidden": "true" });
    const head = level === 2
      ? element("span", {}, `${first.dtype} ${first.direction}`)
      : element("button", { type: "button", class: "fold" }, arrow, ` ${first[LEVELS[level].at(-1)]}`);
    const badge = element("span", { class: "badge s-failed" });
    const cells = meshes.map(() => element("td", {}));
    const line = element("tr", { class: `level-${level}` }, element("th", { scope: "row" }, head, badge), ...cells);
    const row = { key, line, where, head, arrow, badge, cells, shown: new Array(meshes.length).fill("") };
    built.set(`${level} ${key}`, row);
    line.row = row;
    return row;
  }

  function fillCell(row, number, results) {
    const counts = new Map();
    for (const result of results) {
      const name = result.failed ? `${result.verdict} (fails)` : result.verdict;
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    const label = `${row.key} on ${meshes[number]}: ${[...counts].map(([name, count]) => `${count} ${name}`).join(", ")}`;
    if (row.shown[number] === label) return;
    row.shown[number] = label;
    const grave = model.gravest(results);
    const failing = results.filter((result) => result.failed).length;
    const button = row.cells[number].firstChild ?? element("button", { type: "button", tabindex: "-1" });
    button.setAttribute("aria-label", label);
    button.className = ["cell", `v-${grave.verdict}`, failing > 0 ? "fails" : "holds", ...grave.statuses].join(" ");
    button.textContent = `${samebits.SIGNS[grave.verdict]}${failing > 0 ? failing : ""}`;
    if (button.parentNode === null) row.cells[number].append(button);
  }

  function fill(group, opened) {
    const row = rowOf(group);
    const byMesh = new Array(meshes.length);
    for (const result of group.results) (byMesh[column.get(result.mesh)] ??= []).push(result);
    byMesh.length = meshes.length;
    for (let number = 0; number < meshes.length; number += 1) {
      if (byMesh[number] !== undefined) fillCell(row, number, byMesh[number]);
      else if (row.shown[number] !== "") {
        row.shown[number] = "";
        row.cells[number].replaceChildren();
      }
    }
    row.badge.hidden = group.failing === 0;
    row.badge.textContent = `✗ ${group.failing}`;
    if (group.level < 2) row.head.setAttribute("aria-expanded", String(opened));
    row.arrow.textContent = opened ? "▾" : "▸";
    return row.line;
  }

  function lines(results, level, opened) {
    return grouped(results, level).flatMap((group) => {
      const unfolded = level < 2 && opened.has(group.key);
      const own = fill(group, unfolded);
      return unfolded ? [own, ...lines(group.results, level + 1, opened)] : [own];
    });
  }

  /** Show results; rows that the address names are unfolded. */
  function show(results) {
    const focused = place.contains(document.activeElement) ? document.activeElement : null;
    body.replaceChildren(...lines(results, 0, new Set(address.all("open"))));
    if (focused?.isConnected) focused.focus(); // moving a row takes the focus away
    if (body.querySelector('button.cell[tabindex="0"]') === null) {
      const first = body.querySelector("button.cell");
      if (first !== null) first.tabIndex = 0;
    }
  }

  body.addEventListener("click", (event) => {
    const row = event.target.closest("tr")?.row;
    if (row === undefined) return;
    if (event.target.closest("button.fold") !== null) {
      const opened = new Set(address.all("open"));
      if (!opened.delete(row.key)) opened.add(row.key);
      address.set({ open: [...opened] });
    }
    const cell = event.target.closest("button.cell");
    if (cell === null) return;
    const chosen = { ...row.where, mesh: meshes[cell.parentElement.cellIndex - 1] };
    const cleared = Object.fromEntries(model.PLACE.map((name) => [name, ""]));
    const same = Object.entries(chosen).every(([name, value]) => address.get(name) === value);
    address.set(same ? cleared : { ...cleared, ...chosen });
  });
  body.addEventListener("mouseover", (event) => {
    const cell = event.target.closest("button.cell");
    if (cell !== null) cell.title = cell.getAttribute("aria-label");
  });

  const STEPS = { ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowDown: [1, 0], ArrowUp: [-1, 0] };
  body.addEventListener("keydown", (event) => {
    const step = STEPS[event.key];
    if (step === undefined || !event.target.matches("button.cell")) return;
    event.preventDefault();
    let [line, number] = [event.target.closest("tr"), event.target.closest("td").cellIndex];
    for (;;) { // over empty cells to the next that has results
      if (step[0] !== 0) line = step[0] > 0 ? line.nextElementSibling : line.previousElementSibling;
      number += step[1];
      const button = line?.cells[number]?.querySelector("button.cell");
      if (line?.cells[number] === undefined) return;
      if (button === null) continue;
      event.target.tabIndex = -1;
      button.tabIndex = 0;
      button.focus();
      return;
    }
  });

  const head = element("tr", {}, element("th", { scope: "col", class: "corner" }, "pair"),
    ...meshes.map((mesh) => element("th", { scope: "col", class: "mesh" }, element("span", {}, mesh))));
  place.replaceChildren(element("table", {},
    element("caption", { class: "unseen" }, "The gravest verdict of each pair on each mesh, with the number of failures"),
    element("thead", {}, head), body));
  return { show };
};
