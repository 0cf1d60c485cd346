"use strict";
// The search of the page of `diff`: rows of the tables below without the words are hidden; the words are in the address.
samebits.section("diff", (root) => {
  const input = root.querySelector("input[type=search]");
  if (input === null) return;
  const address = samebits.address(root);
  const status = root.querySelector(".shown");
  const tables = [...root.querySelectorAll(".filters ~ .scroll")];
  const changes = tables.flatMap((table) => [...table.querySelectorAll("tbody > tr:not(.evidence)")]).map((row) => {
    const nodes = [row, row.nextElementSibling].filter((node) => node === row || node?.matches(".evidence"));
    return { nodes, text: nodes.map((node) => node.textContent).join(" ").toLowerCase() };
  });

  function filter() {
    const words = address.get("q").toLowerCase().split(/\s+/).filter((word) => word !== "");
    let shown = 0;
    for (const { nodes, text } of changes) {
      const hidden = !words.every((word) => text.includes(word));
      for (const node of nodes) node.hidden = hidden;
      if (!hidden) shown += 1;
    }
    for (const table of tables) table.hidden = table.querySelector("tbody > tr:not([hidden])") === null;
    status.textContent = words.length === 0 ? "" : `${shown} of ${changes.length} shown`;
    if (input.value !== address.get("q")) input.value = address.get("q");
  }

  input.addEventListener("input", () => address.set({ q: input.value }));
  address.onChange(filter);
  filter();
});
