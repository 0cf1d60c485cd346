"use strict";
// The search of the page of `diff`: changes without the words are hidden; the words are in the address.
samebits.section("diff", (root) => {
  const input = root.querySelector("input[type=search]");
  if (input === null) return;
  const address = samebits.address(root);
  const status = root.querySelector(".shown");
  const changes = [...root.querySelectorAll(".change")].map((node) => ({ node, text: node.textContent.toLowerCase() }));

  function filter() {
    const words = address.get("q").toLowerCase().split(/\s+/).filter((word) => word !== "");
    let shown = 0;
    for (const { node, text } of changes) {
      node.hidden = !words.every((word) => text.includes(word));
      if (!node.hidden) shown += 1;
    }
    for (const part of root.querySelectorAll(".part")) {
      const own = [...part.querySelectorAll(".change")];
      part.hidden = own.length > 0 && own.every((node) => node.hidden);
    }
    status.textContent = words.length === 0 ? "" : `${shown} of ${changes.length} shown`;
    if (input.value !== address.get("q")) input.value = address.get("q");
  }

  input.addEventListener("input", () => address.set({ q: input.value }));
  address.onChange(filter);
  filter();
});
