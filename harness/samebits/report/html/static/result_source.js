"use strict";
// The source of both sides, and the lines that make a leaf differ.
(() => {
  const { element } = samebits;
  const parts = samebits.resultParts;

  const CHANGES = {
    other: "another computation", missing: "missing in the variant", added: "added by the variant",
    moved: "the same elements in another arrangement", "trip count": "another number of iterations",
    dtype: "another dtype of the output", narrower: "narrower floats", accuracy: "most accuracy is lost there",
  };

  function cause(line) {
    const side = (name, where, code) => (where === null ? null : element("div", {}, element("dt", {}, `${name}, ${where}`), element("dd", {}, element("code", {}, code))));
    const more = [line.primitive === "" ? "" : `primitive ${line.primitive}`, line.calls.length === 0 ? "" : `called from ${line.calls.join(", ")}`,
      line.iterations.length === 0 ? "" : `iterations ${line.iterations.join(", ")}`, line.certain ? "" : "placed by what is next to it"];
    return element("li", {}, CHANGES[line.change] ?? line.change, element("dl", { class: "lines" },
      side("reference", line.reference, line.reference_code), side("variant", line.variant, line.variant_code)),
    element("span", { class: "note" }, more.filter((text) => text !== "").join("; ")));
  }

  /** A function with its line numbers; those that a difference names are marked. */
  function listing(source, marked) {
    const title = `${source.side}, ${source.file}:${source.first}`;
    if (source.text === null) return element("p", { class: "note" }, `${source.side}: ${source.file}, lines ${source.first} to ${source.last}`);
    const lines = source.text.split("\n");
    const cut = source.last - source.first + 1 - lines.length;
    const rows = lines.map((text, step) => {
      const number = source.first + step;
      const named = marked.has(`${source.file}:${number}`);
      return element("span", { class: named ? "line named" : "line" }, element("span", { class: "line-number" }, `${named ? "▶ " : ""}${number}`.padStart(6)), ` ${text}\n`);
    });
    const rest = cut > 0 ? [element("span", { class: "line" }, `       and ${cut} more lines\n`)] : [];
    return element("figure", { class: "listing" }, element("figcaption", {}, title),
      element("pre", { tabindex: "0", role: "region", "aria-label": title }, element("code", {}, ...rows, ...rest)));
  }

  parts.source = (result, head) => {
    const marked = new Set(result.lines.flatMap((line) => [line.reference, line.variant, ...line.calls]).filter((place) => place !== null));
    const sides = head === null ? [] : [head.reference, result.variant].filter((side, at, all) => all.indexOf(side) === at);
    const sources = sides.map((side) => head.sources?.find((source) => source.side === side)).filter((source) => source !== undefined);
    const shown = [];
    if (result.lines.length > 0) shown.push(element("p", {}, "Likeliest causes first:"), element("ol", { class: "causes-of" }, ...result.lines.map(cause)));
    if (result.why !== null) shown.push(element("p", { class: "note" }, `No line is named: ${result.why}`));
    const texts = sources.filter((source) => source.text !== null);
    if (texts.length > 0) {
      const beside = element("div", { class: "beside" }, ...texts.map((source) => listing(source, marked)));
      shown.push(element("details", { open: result.lines.length > 0 }, element("summary", {}, `${texts.length === 1 ? "The function" : "Both functions"} (${[...new Set(texts.map((source) => source.file))].join(", ")})`), beside));
    }
    shown.push(...sources.filter((source) => source.text === null).map((source) => listing(source, marked)));
    return shown.length === 0 ? null : shown;
  };
})();
