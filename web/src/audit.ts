// The data audit: how much of the data was seen, and whether workers drew the same samples.
import { make_figure, or_none } from "./chart";
import { amount_map } from "./colormap";
import type { Audit } from "./document";
import { el } from "./dom";
import { integer, number, percent } from "./format";
import { make_matrix_view } from "./matrix_view";
import { facts, make_frame, make_table, why_empty, type Section } from "./section";
import { bucket_name, line, step_option, step_tooltip, thin_rows } from "./step_chart";

export function audit_section(): Section {
  const frame = make_frame("data", "What the workers read");
  let audit: Audit | null = null;
  const tiles = el("div");
  const overlap = make_matrix_view({
    title: "Share of the row's samples that the column drew too",
    label: "Overlap of the samples of every pair of workers.",
    pair: (a, b, value) => `Of rank ${a}'s samples, rank ${b} drew a share of ${value} too.`,
    colours: amount_map,
    format: (value) => `${number(100 * value, 2)}%`,
  });
  const no_overlap = el("p", { class: "empty", hidden: true });
  const overlap_box = el("div", {}, el("h3", {}, "Overlap between workers"), no_overlap, overlap.element);
  const coverage = make_figure("medium", () => (audit ? coverage_table(audit) : el("p", {}, "No data.")));
  const missing = el("p", { class: "empty", hidden: true });
  const epochs = el("div");
  frame.body.append(
    tiles,
    el("div", { class: "columns two" }, el("div", {}, coverage.element, epochs, missing), overlap_box),
  );
  return {
    id: "data",
    title: "Data",
    element: frame.element,
    update: (page) => {
      audit = page.audit.data;
      if (!audit)
        return frame.show_empty(
          why_empty(
            page,
            page.audit.reason,
            "No data audit: it needs a fingerprint of each sample, given by on_batch().",
          ),
        );
      frame.show();
      frame.set_lead("From the fingerprints of the samples in each batch: exact, unless said otherwise.");
      tiles.replaceChildren(audit_facts(audit));
      const most = audit.overlap ? largest_share(audit.overlap.values, audit.overlap.n) : 0;
      no_overlap.hidden = most > 0;
      no_overlap.textContent = audit.overlap
        ? "None: no two workers drew a sample in common."
        : "Overlap between workers is not stored for this run.";
      overlap.element.hidden = most === 0;
      if (audit.overlap) overlap.draw(audit.overlap, { low: 0, high: Math.max(0.05, most) });
      coverage.element.hidden = audit.series === null;
      missing.hidden = audit.series !== null;
      missing.textContent = "Coverage over time is not stored for this run.";
      if (audit.series) draw_coverage(coverage, audit.series);
      epochs.replaceChildren(...(audit.epochs.length > 1 ? [epoch_table(audit)] : []));
    },
  };
}

function largest_share(values: (number | null)[], n: number): number {
  return values.reduce<number>((most, v, i) => (Math.floor(i / n) === i % n ? most : Math.max(most, v ?? 0)), 0);
}

function audit_facts(audit: Audit): HTMLElement {
  const size =
    audit.dataset_size === null
      ? "size of the data set not known"
      : `of ${integer(audit.dataset_size)} in the data set`;
  const within = audit.within_step_duplicates,
    cross = audit.cross_rank_duplicates;
  return facts([
    { name: "Samples drawn", value: integer(audit.samples_seen), hint: "by all workers" },
    { name: "Distinct", value: integer(audit.samples_distinct), hint: size },
    {
      name: "Coverage",
      value: percent(audit.coverage),
      hint: "of what exact sharding would have seen",
      alarm: audit.coverage !== null && audit.coverage < 0.99,
    },
    { name: "Twice in one step", value: integer(within), hint: "same sample on two workers", alarm: (within ?? 0) > 0 },
    { name: "On several workers", value: integer(cross), hint: "within one epoch", alarm: (cross ?? 0) > 0 },
    ...(audit.natural_duplicates === null
      ? []
      : [{ name: "Natural repeats", value: integer(audit.natural_duplicates), hint: "the data set's own, no fault" }]),
    ...(audit.approximate
      ? [{ name: "Counting", value: "approximate", hint: `relative error ${percent(audit.error)}` }]
      : []),
  ]);
}

function draw_coverage(figure: ReturnType<typeof make_figure>, series: NonNullable<Audit["series"]>): void {
  const steps = { step: series.step, step_last: series.step };
  const title = "Share of the data set seen";
  figure.set(
    (p) => ({
      ...step_option(
        p,
        steps,
        [
          line(steps, series.expected_fraction, p.expected, {
            lineStyle: { color: p.expected, type: "dashed", width: 1.4 },
            z: 2,
          }),
          line(steps, series.distinct_fraction, p.accent),
        ],
        { min: 0, axisLabel: { color: p.muted, fontSize: 11, formatter: (x: number) => percent(x) } },
      ),
      tooltip: step_tooltip(p, steps, (i) => [
        ["seen", percent(series.distinct_fraction[i] ?? null)],
        ["exact sharding", percent(series.expected_fraction[i] ?? null)],
      ]),
    }),
    title,
    `${title} by step.`,
    [
      { name: "seen", kind: "line", colour: (p) => p.accent },
      { name: "exact sharding would have seen", kind: "dash", colour: (p) => p.expected },
    ],
  );
}

function coverage_table(audit: Audit): HTMLElement {
  const series = audit.series;
  if (!series) return el("p", {}, "No data.");
  const steps = { step: series.step, step_last: series.step };
  return make_table(
    "Share of the data set seen",
    ["steps", "seen", "exact sharding"],
    thin_rows(series.step.length).map((i) => [
      bucket_name(steps, i),
      or_none(series.distinct_fraction[i]),
      or_none(series.expected_fraction[i]),
    ]),
  );
}

function epoch_table(audit: Audit): HTMLElement {
  return make_table(
    "Epochs",
    ["epoch", "drawn", "distinct", "coverage"],
    audit.epochs.map((e) => [integer(e.epoch), integer(e.seen), integer(e.distinct), percent(e.coverage)]),
  );
}
