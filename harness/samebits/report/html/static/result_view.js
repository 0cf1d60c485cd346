"use strict";
// One result of a check, as it unfolds in the list of results.
samebits.resultView = (result, context) => {
  const { element, facts, replay } = samebits;
  const witness = result.witness;
  return element("div", { class: "result" },
    result.evidence === null ? null : element("p", {}, result.evidence),
    result.reason === null ? null : element("p", {}, `reason: ${result.reason}`),
    facts([
      ["verdict", result.verdict], ["required", result.required], ["leaf", result.leaf], ["case", result.case],
      ["elements", result.elements], ["mismatches", result.mismatches], ["largest ulp distance", result.max_ulp],
      ["witness", witness === null ? null : `${witness.leaf}[${witness.index.join(", ")}]`],
      ["reference", witness === null ? null : `${witness.reference} (${witness.reference_hex})`],
      ["variant", witness === null ? null : `${witness.optimized} (${witness.optimized_hex})`],
    ]),
    result.replay === "" ? null : replay(result.replay));
};
