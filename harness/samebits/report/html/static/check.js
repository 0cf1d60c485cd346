"use strict";
// The overview of a check: verdicts as filters, search, the matrix of pair and mesh, and the list of results.
samebits.section("check", (root) => {
  const { element, verdict } = samebits;
  const CHUNK = 60;
  const address = samebits.address(root);
  const all = samebits.rows(samebits.data(root, "results"));
  const ORDER = ["different", "unstable", "error", "skipped", "rounding", "refused", "bitwise", "proved"];
  const gravity = (result) => (result.ok || result.verdict === "skipped" ? 10 : 0) + ORDER.indexOf(result.verdict);
  all.sort((a, b) => gravity(a) - gravity(b) || a.number - b.number);
  const text = all.map((r) => [r.pair, r.variant, r.case, r.dtype, r.mesh, r.mode, r.direction, r.leaf, r.verdict,
    r.evidence ?? "", r.reason ?? ""].join(" ").toLowerCase());
  const search = root.querySelector("input[type=search]");
  let shown = [];
  let listed = 0;

  function select() {
    const verdicts = new Set(address.all("verdict"));
    const [pair, mesh] = [address.get("pair"), address.get("mesh")];
    const words = address.get("q").toLowerCase().split(/\s+/).filter((word) => word !== "");
    shown = all.filter((result, place) =>
      (verdicts.size === 0 || verdicts.has(result.verdict)) && (pair === "" || result.pair === pair) &&
      (mesh === "" || result.mesh === mesh) && words.every((word) => text[place].includes(word)));
  }

  function worst(results) {
    return results.reduce((grave, result) => (gravity(result) < gravity(grave) ? result : grave));
  }

  function matrix() {
    const cells = new Map();
    const pairs = new Set();
    const meshes = new Set();
    for (const result of shown) {
      pairs.add(result.pair);
      meshes.add(result.mesh);
      const key = `${result.pair}\n${result.mesh}`;
      if (!cells.has(key)) cells.set(key, []);
      cells.get(key).push(result);
    }
    const names = [...meshes].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    const head = element("tr", {}, element("th", { scope: "col" }, "pair"),
      ...names.map((mesh) => element("th", { scope: "col", class: "mesh" }, element("span", {}, mesh))));
    const lines = [...pairs].map((pair) => element("tr", {}, element("th", { scope: "row" }, pair),
      ...names.map((mesh) => {
        const results = cells.get(`${pair}\n${mesh}`);
        if (results === undefined) return element("td", {});
        const cell = verdict(worst(results).verdict, results.length);
        return element("td", {}, element("button", { type: "button", class: "cell", onclick: () => address.set({ pair, mesh }) }, cell));
      })));
    const table = element("table", {}, element("caption", {}, "The gravest verdict of each pair on each mesh, and how many results"),
      element("thead", {}, head), element("tbody", {}, ...lines));
    root.querySelector(".matrix").replaceChildren(table);
  }

  function line(result) {
    const where = [`${result.pair}/${result.variant}`, result.case, result.dtype, result.mesh, result.mode, result.direction, result.leaf];
    const details = element("details", { class: "row" }, element("summary", {}, verdict(result.verdict), " ", where.join("  ")));
    details.addEventListener("toggle", () => {
      if (details.open && details.children.length === 1) details.append(samebits.resultView(result));
    });
    return details;
  }

  const more = element("button", { type: "button", class: "more noprint" }, "Show more");
  function list() {
    more.before(...shown.slice(listed, listed + CHUNK).map(line));
    listed += CHUNK;
    more.hidden = listed >= shown.length;
  }
  more.addEventListener("click", list);
  new IntersectionObserver((entries) => entries.some((each) => each.isIntersecting) && list(), { rootMargin: "400px" }).observe(more);

  function buttons() {
    const chosen = new Set(address.all("verdict"));
    const counts = new Map();
    for (const result of all) counts.set(result.verdict, (counts.get(result.verdict) ?? 0) + 1);
    root.querySelector(".verdicts").replaceChildren(...ORDER.filter((name) => counts.has(name)).map((name) =>
      element("button", { type: "button", "aria-pressed": String(chosen.has(name)), onclick: () => {
        if (!chosen.delete(name)) chosen.add(name);
        address.set({ verdict: [...chosen] });
      } }, verdict(name, counts.get(name)))));
  }

  function update() {
    select();
    buttons();
    matrix();
    listed = 0;
    root.querySelector(".results").replaceChildren(more);
    list();
    if (document.activeElement !== search) search.value = address.get("q");
    root.querySelector(".shown").textContent = `${shown.length} of ${all.length} results`;
  }

  search.addEventListener("input", () => address.set({ q: search.value }));
  root.querySelector(".clear").addEventListener("click", () => {
    search.value = "";
    address.set({ q: "", verdict: "", pair: "", mesh: "" });
  });
  address.onChange(update);
  update();
});
