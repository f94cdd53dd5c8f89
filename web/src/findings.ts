// The findings as cards: cause, ranks, steps, certainty, the numbers behind it, and what to change.
import type { Finding, PageDocument, Scalar } from "./document";
import { el } from "./dom";
import { capital, integer, percent, ranks, scalar, step_range, words } from "./format";
import { make_frame, type Section } from "./section";

const kLabels: Record<string, string> = {
  "data.identical_batches": "Identical batches",
  "data.overlap": "Overlapping data",
  "data.coverage_loss": "Samples never seen",
  "data.epoch_replay": "Epoch replayed",
  "data.skew": "Skewed data",
  "sync.missing": "Gradients not reduced",
  "sync.partial": "Gradients partly reduced",
  "sync.corrupted": "Reduction corrupted",
  "replica.init_mismatch": "Replicas began apart",
  "replica.diverged": "Replicas diverged",
  "replica.buffers_diverged": "Buffers diverged",
  "replica.optimizer_diverged": "Optimizer states diverged",
  "scale.rank_mismatch": "One rank off in scale",
  "scale.token_skew": "Unequal token counts",
  "scale.impossible_norm": "Impossible norm",
  "rng.shared": "Shared random stream",
  "rng.diverged": "Random streams diverged",
  "config.mismatch": "Configurations differ",
  "value.nonfinite": "Non-finite values",
  "rank.outlier": "One rank unlike the others",
  "hardware.sdc_suspect": "Suspect hardware",
  "order.nondeterministic": "Reduction order varies",
};

export const cause_label = (cause: string): string =>
  Object.prototype.hasOwnProperty.call(kLabels, cause)
    ? (kLabels[cause] ?? cause)
    : capital(words(cause.split(".").pop() ?? cause));

export function findings_section(): Section {
  const frame = make_frame("findings", "Findings");
  let shown = "";
  return {
    id: "findings",
    title: "Findings",
    element: frame.element,
    update: (page) => {
      if (page.findings.length === 0) return frame.show_empty(why_none(page));
      frame.show();
      frame.set_lead(
        "Certain findings follow from hashes and fingerprints. Statistical ones are against what healthy workers of this run would show.",
      );
      const state = JSON.stringify(page.findings);
      if (state === shown) return; // keeps the reader's place in a card while the run is live
      shown = state;
      frame.body.replaceChildren(el("ol", { class: "cards" }, ...page.findings.map(card)));
    },
  };
}

function why_none(page: PageDocument): string {
  if (!page.run || page.run.steps === 0) return "None yet: nothing has been analysed.";
  if (page.run.world < 2) return "None: most causes need at least two workers to be seen.";
  return "None. Dispersion and low cosine by themselves are normal; see the metrics against their healthy expectation below.";
}

function card(finding: Finding, i: number): HTMLElement {
  const certain = finding.certainty === "certain";
  const tag = certain ? "Certain" : capital(finding.certainty || "certainty not stated");
  const share =
    !certain && finding.confidence !== null && finding.confidence <= 1 ? ` (${percent(finding.confidence, 5)})` : "";
  return el(
    "li",
    { class: certain ? "card certain" : "card" },
    el(
      "h3",
      {},
      el("span", { class: "ordinal" }, String(i + 1)),
      cause_label(finding.cause),
      el("code", {}, finding.cause),
    ),
    el(
      "p",
      { class: "tags" },
      el("span", { class: "tag strong" }, capital(ranks(finding.ranks))),
      el("span", { class: "tag" }, capital(step_range(finding.first_step, finding.last_step)) || "Step not known"),
      el("span", { class: certain ? "tag certain" : "tag" }, tag + share),
    ),
    el("p", { class: "message" }, finding.message),
    finding.remedy ? el("p", { class: "remedy" }, el("b", {}, "What to change"), finding.remedy) : null,
    evidence_list(finding),
    finding.parameters.length > 0 ? parameters_list(finding.parameters) : null,
  );
}

const evidence_text = (value: Scalar | Scalar[]): string =>
  Array.isArray(value) ? value.map(scalar).join(", ") : scalar(value);

function evidence_list(finding: Finding): HTMLElement | null {
  if (finding.evidence.length === 0) return null;
  return el(
    "div",
    { class: "evidence" },
    el("h4", {}, "Evidence"),
    el(
      "dl",
      {},
      ...finding.evidence.map(([name, value]) =>
        el("div", {}, el("dt", {}, words(name)), el("dd", {}, evidence_text(value))),
      ),
    ),
  );
}

function parameters_list(names: string[]): HTMLElement {
  const shown = names.slice(0, 20);
  const rest = names.length - shown.length;
  return el(
    "div",
    { class: "parameters" },
    el("h4", {}, "Parameters"),
    el("ul", {}, ...shown.map((name) => el("li", {}, el("code", {}, name)))),
    rest > 0 ? el("p", { class: "note" }, `and ${integer(rest)} more`) : null,
  );
}
