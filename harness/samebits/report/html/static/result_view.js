"use strict";
// One result of a check in depth, as it unfolds in the list of results. Its parts are in the other `result_*.js`.
//
// samebits.resultView(result, context): `result` has the fields of a `Result`; `context.pairs` maps the name of a pair
// to its head, `context.root` is the section. Without a context, what the heads say is left out.
samebits.resultView = (result, context = {}) => {
  const { element, facts, prose, replay } = samebits;
  const parts = samebits.resultParts;
  const head = context.pairs?.get(result.pair) ?? null;

  /** A part with its heading; nothing where there is nothing to show. */
  function part(title, name, ...children) {
    const shown = children.flat().filter((child) => child !== null && child !== undefined);
    return shown.length === 0 ? null : element("section", { class: `part ${name}` }, element("h4", {}, title), ...shown);
  }

  function ruling() {
    const reached = result.ok ? "suffices" : "does not suffice";
    const exempt = result.exempt ? ", a known difference" : "";
    return element("div", { class: "ruling" },
      element("p", {}, samebits.verdict(result.verdict, undefined, result.failed), ` found, at least ${result.required} required: ${reached}${exempt}`),
      result.evidence === null ? null : element("p", {}, ...prose(result.evidence)),
      result.reason === null ? null : element("p", { class: "why" }, ...prose(`${result.ok ? "accepted because" : "reason on record"}: ${result.reason}`)),
      result.replay === "" ? null : replay(result.replay, "replay"));
  }

  function differences() {
    if (result.mismatches === 0 || result.elements === 0) return null;
    const kinds = result.differences.map((each) =>
      [samebits.kind(each.kind), `${samebits.count(each.elements)}${each.max_ulp === null ? "" : `, up to ${samebits.ulps(each.max_ulp, each.kind)}`}`]);
    return facts([["elements that differ", `${samebits.count(result.mismatches)} of ${samebits.count(result.elements)}`], ...kinds]);
  }

  function sizes() {
    if (result.family === undefined || result.family === null) return null;
    const shapes = Object.entries(result.family.shapes).map(([name, shape]) => `${name} ${shape}`);
    const statics = Object.entries(result.family.statics).map(([name, text]) => `${name}=${text}`);
    const devices = result.family.mesh === null ? "every number of devices" : `the devices of ${result.family.mesh}`;
    return `all sizes: ${[...shapes, ...statics, devices].join("; ")}; where ${result.family.conditions.join(" and ")}`;
  }

  function proof() {
    const said = facts([
      ["error probability of the proof", result.log2_error === null ? null : `2^${Math.round(result.log2_error)}`],
      ["proved for", sizes()],
      ["promised for", result.domain],
      ["not interpreted", result.not_interpreted],
      ["other machines", result.machine],
      ["executed", result.alone ? "no: proved without running this point" : null],
    ]);
    const rows = result.assumptions.map((each) => [`${each.text}${each.inherent ? "" : " (of this program, not of the method)"}`, each.false_where]);
    const table = rows.length === 0 ? null : samebits.table(["The proof assumes", "which is false where"], rows, "Assumptions of the proof");
    return said.children.length === 0 && table === null ? null : [said, table].filter((node) => node !== null);
  }

  /** The errors of both sides over magnitudes, each with a bar from 1e-16 to 1. */
  function magnitudes() {
    const rows = result.magnitudes ?? [];
    if (rows.length === 0) return null;
    const cell = (error) => error === null ? "infinite or NaN" : element("span", {}, `${error.toExponential(1)} `,
      element("span", { class: "bar", style: `width: ${Math.min(6, Math.max(0, (16 + Math.log10(error || 1e-16)) * 0.375))}rem` }));
    return samebits.table(["inputs up to", "reference", result.variant],
      rows.map((row) => [row.size.toPrecision(3), cell(row.reference), cell(row.optimized)]),
      "The largest error of an element, relative to itself", { class: "bars" });
  }

  function shaken() {
    if (result.shaken.length === 0) return null;
    const rows = result.shaken.map((each) => [each.option, each.outcome, each.verdict, samebits.count(each.mismatches), each.why ?? ""]);
    return samebits.table(["compiler option", "outcome", "verdict", "differ", "why"], rows, "Under other compiler options");
  }

  function ran() {
    const environment = context.environment ?? null;
    return facts([
      ["devices", result.devices === 0 ? null : `${result.devices}${environment === null ? "" : ` x ${environment.platform} (${environment.device_kind})`}`],
      ["jax", environment?.versions?.jax], ["jaxlib", environment?.versions?.jaxlib], ["host", environment?.machine],
      ["time of the point", result.seconds === 0 ? null : `${result.seconds} s`],
      ["not run again since", result.remembered], ["accepted verdict here", result.snapshot],
      ["emulated operations", result.emulated.join(", ")], ["bits of the reference", result.bits],
    ]);
  }

  const picture = result.picture ?? null;
  return element("div", { class: "result" }, ruling(), element("div", { class: "parts" },
    part("Values around the witness", "wide", parts.values(result)),
    part("Where it differs", "where", picture === null ? null : parts.heat(result, head), picture === null ? null : parts.counts(picture)),
    part("How far apart", "far", differences(), picture === null ? null : parts.histogram(picture)),
    part("Accuracy", "accuracy", parts.accuracy(result)),
    part("Other magnitudes", "wide", magnitudes()),
    part("Source", "wide", parts.source(result, head)),
    part("Proof", "wide", proof()),
    part("Compiler", "wide", shaken()),
    part("Inputs", "wide", parts.inputs(result, head)),
    part("Sharding", "wide", parts.sharding(result, head)),
    part("Environment", "wide", ran())));
};

/** A kind of difference in words that say something by themselves. */
samebits.kind = (name) => (name === "other" ? "by more than the last digits" : name);

/** A number with separators. */
samebits.count = (number) => number.toLocaleString("en");

/** A distance in words a person can read. */
samebits.ulps = (distance, kind) => {
  if (kind === "sign of zero") return "0 ulps: zeros of other sign";
  if (distance >= 2 ** 24) return `${distance.toExponential(1).replace("+", "")} ulps`;
  return `${samebits.count(distance)} ulp${distance === 1 ? "" : "s"}`;
};

/** A table whose cells are texts or elements; it scrolls by itself where it is too wide. */
samebits.table = (names, rows, caption, attributes = {}) => {
  const { element } = samebits;
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    element("table", attributes, element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...names.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell, place) =>
        element(place === 0 ? "th" : "td", place === 0 ? { scope: "row" } : {}, cell)))))));
};

/** An element of SVG. */
samebits.svg = (name, attributes = {}, ...children) => {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
};

samebits.resultParts = {};
