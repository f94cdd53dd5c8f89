// One worker against the others: its curves over the band of the rest, opened from the map of workers.
import { make_figure, or_none, type Figure } from "./chart";
import type { Column, PageDocument, RankMetric, Ranks } from "./document";
import { kRankMetrics } from "./document";
import { el } from "./dom";
import { cause_label } from "./findings";
import { number, step_range } from "./format";
import { on_range } from "./range";
import { known, kRankMetricNames } from "./rank_cells";
import { median } from "./scale_legend";
import { make_table } from "./section";
import { band, bucket_name, finding_marks, line, step_option, step_tooltip, thin_rows } from "./step_chart";

interface Others {
  low: Column;
  high: Column;
  middle: Column;
  own: Column;
}

export interface RankPanel {
  element: HTMLElement;
  open(page: PageDocument, rank: number): void;
  update(page: PageDocument): void;
}

function others_of(ranks: Ranks, metric: RankMetric, row: number): Others | null {
  const matrix = ranks.metrics.get(metric);
  if (!matrix) return null;
  const rest = (rows: Column[], b: number): number[] =>
    rows
      .filter((_, r) => r !== row)
      .map((values) => values[b])
      .filter(known);
  const reduce = (f: (values: number[]) => number, rows: Column[]): Column =>
    ranks.step.map((_, b) => {
      const values = rest(rows, b);
      return values.length > 0 ? f(values) : null;
    });
  return {
    low: reduce((v) => Math.min(...v), matrix.value),
    high: reduce((v) => Math.max(...v), matrix.value),
    middle: reduce(median, matrix.value),
    own: matrix.value[row] ?? [],
  };
}

export function make_rank_panel(on_close: () => void): RankPanel {
  const title = el("h3", { tabindex: -1, id: "rank-panel-title" });
  const close = el("button", { type: "button", class: "quiet" }, "Close");
  const summary = el("p", { class: "note" });
  let page: PageDocument | null = null;
  let rank = -1;
  const figures = new Map<RankMetric, Figure>();
  for (const metric of kRankMetrics)
    figures.set(
      metric,
      make_figure("small", () => panel_table(page, metric, rank)),
    );
  const element = el(
    "div",
    { class: "panel", role: "region", "aria-labelledby": title.id, hidden: true },
    el("div", { class: "panel-head" }, title, close),
    summary,
    el("div", { class: "columns three" }, ...[...figures.values()].map((f) => f.element)),
  );

  const shut = (): void => {
    element.hidden = true;
    on_close();
  };
  close.addEventListener("click", shut);
  element.addEventListener("keydown", (event) => event.key === "Escape" && shut());

  const draw = (): void => {
    const ranks = page?.ranks.data;
    if (element.hidden || !page || !ranks) return;
    const row = ranks.rank.indexOf(rank);
    if (row < 0) return void (element.hidden = true);
    const findings = page.findings.filter((f) => f.ranks.includes(rank));
    title.textContent = `Rank ${rank} against the others`;
    summary.textContent =
      findings.length === 0
        ? "No finding names this worker."
        : findings.map((f) => `${cause_label(f.cause)}, ${step_range(f.first_step, f.last_step)}`).join("; ") + ".";
    for (const [metric, figure] of figures) draw_metric(figure, page, ranks, metric, row, rank);
  };
  on_range(draw);
  return {
    element,
    open: (next, chosen) => {
      page = next;
      rank = chosen;
      element.hidden = false;
      draw();
      title.focus({ preventScroll: true });
      element.scrollIntoView({ block: "nearest" });
    },
    update: (next) => {
      page = next;
      draw();
    },
  };
}

function draw_metric(
  figure: Figure,
  page: PageDocument,
  ranks: Ranks,
  metric: RankMetric,
  row: number,
  rank: number,
): void {
  const others = others_of(ranks, metric, row);
  figure.element.hidden = others === null || !others.own.some(known);
  if (!others || figure.element.hidden) return;
  const own = others.own.filter(known);
  const rest = others.middle.filter(known);
  const mean = (v: number[]): string => number(v.length ? v.reduce((s, x) => s + x, 0) / v.length : null, 3);
  const marks = page.findings.map((f) => (f.ranks.includes(rank) ? f : { ...f, first_step: null }));
  figure.set(
    (p) => ({
      ...step_option(p, ranks, [
        band(ranks, others.low, others.high, p.band),
        line(ranks, others.middle, p.muted, { lineStyle: { color: p.muted, width: 1 }, z: 2 }),
        line(ranks, others.own, p.accent, { markLine: finding_marks(p, marks) }),
      ]),
      tooltip: step_tooltip(p, ranks, (i) => [
        [`rank ${rank}`, or_none(others.own[i])],
        ["others' median", or_none(others.middle[i])],
        ["others", `${or_none(others.low[i])} to ${or_none(others.high[i])}`],
      ]),
    }),
    kRankMetricNames[metric],
    `${kRankMetricNames[metric]} of rank ${rank}: mean ${mean(own)}; the others' median has mean ${mean(rest)}.`,
    [
      { name: `rank ${rank}`, kind: "line", colour: (p) => p.accent },
      { name: "the others", kind: "band", colour: (p) => p.band },
    ],
  );
  figure.set_note(
    rest.length > 0
      ? `Mean ${mean(own)}; the others' median ${mean(rest)}.`
      : `Mean ${mean(own)}; there is no other worker.`,
  );
}

function panel_table(page: PageDocument | null, metric: RankMetric, rank: number): HTMLElement {
  const ranks = page?.ranks.data;
  const others = ranks ? others_of(ranks, metric, ranks.rank.indexOf(rank)) : null;
  if (!ranks || !others) return el("p", {}, "No data.");
  return make_table(
    `${kRankMetricNames[metric]} of rank ${rank}`,
    ["steps", `rank ${rank}`, "others' median", "lowest", "highest"],
    thin_rows(ranks.step.length).map((i) => [
      bucket_name(ranks, i),
      or_none(others.own[i]),
      or_none(others.middle[i]),
      or_none(others.low[i]),
      or_none(others.high[i]),
    ]),
  );
}
