// Ranks x steps: every worker at every step, as its value or as its difference from the other workers. The difference is
// the default, because a trend that all workers share would otherwise hide the one that leaves it.
import { css, diverging_map, sequential_map, type Colormap } from "./colormap";
import type { Column, PageDocument, RankMetric, Ranks } from "./document";
import { el } from "./dom";
import { capital, integer, kNone, number, step_range } from "./format";
import { make_heat_canvas } from "./heat_canvas";
import { on_range } from "./range";
import { cells_of, groups_of, known, kRankMetricNames, type Cells, type Grain, type View } from "./rank_cells";
import { make_rank_panel } from "./rank_panel";
import { median, robust_scale, scale_legend, type Scale } from "./scale_legend";
import { choice, make_frame, make_table, table_fold, why_empty, type Section } from "./section";
import { on_theme, palette } from "./theme";

interface Shown {
  groups: number[][];
  cells: Cells;
  scale: Scale;
  map: Colormap;
}

function shown_of(ranks: Ranks, metric: RankMetric, view: View, grain: Grain): Shown {
  const groups = groups_of(ranks, grain);
  const cells = cells_of(ranks, metric, view, groups);
  const flat = cells.flat().filter(known);
  if (view === "value") return { groups, cells, scale: robust_scale(flat), map: sequential_map() };
  const reach = robust_scale(flat.map(Math.abs), 0.005).high || 1;
  return { groups, cells, scale: { low: -reach, high: reach }, map: diverging_map(palette().dark) };
}

// Sum of a count over the buckets of one cell.
const total = (grid: Column[] | null, row: number, group: number[]): number =>
  group.reduce((sum, b) => sum + (grid?.[row]?.[b] ?? 0), 0);

export function rank_map_section(): Section {
  const frame = make_frame("workers", "Every worker at every step");
  let page: PageDocument | null = null;
  let metric: RankMetric = "loss";
  let view: View = "difference";
  let grain: Grain = "smooth";
  const panel = make_rank_panel(() => heat.focus());
  const open = (row: number): void => {
    const rank = page?.ranks.data?.rank[row];
    if (page && rank !== undefined) panel.open(page, rank);
  };
  const foot = el("div", { class: "map-foot" });
  const heat = make_heat_canvas({ hint: "Choose a cell to see its worker.", on_open: (cell) => open(cell.row), foot });
  const names = el("div", { class: "row-names" });
  const legend = el("div");
  const metric_box = el("div");
  const omitted = el("p", { class: "note", hidden: true });
  const fold = table_fold("Show as table", () =>
    page?.ranks.data ? rank_table(page.ranks.data) : el("p", {}, "No data."),
  );
  const picker = el("select", { "aria-label": "Worker to show" });
  picker.addEventListener("change", () => picker.value !== "" && open(Number(picker.value)));
  const view_choice = choice<View>(
    "Colour",
    [
      ["difference", "against the others"],
      ["value", "value"],
    ],
    view,
    (v) => {
      view = v;
      draw();
    },
  );
  const grain_choice = choice<Grain>(
    "Cells",
    [
      ["smooth", "averages"],
      ["fine", "finest"],
    ],
    grain,
    (g) => {
      grain = g;
      draw();
    },
  );
  frame.body.append(
    el(
      "div",
      { class: "controls" },
      metric_box,
      view_choice,
      grain_choice,
      el("label", { class: "field" }, "Worker ", picker),
    ),
    el("div", { class: "map" }, names, heat.element),
    legend,
    omitted,
    panel.element,
    fold.element,
  );

  const draw = (): void => {
    const ranks = page?.ranks.data;
    if (!ranks) return;
    const shown = shown_of(ranks, metric, view, grain);
    const row_height = Math.max(3, Math.min(26, Math.floor(460 / ranks.rank.length)));
    heat.draw({
      rows: ranks.rank.length,
      columns: Math.max(1, shown.groups.length),
      row_height,
      colour: (r, c) => {
        const v = shown.cells[r]?.[c];
        return known(v) ? css(shown.map((v - shown.scale.low) / (shown.scale.high - shown.scale.low))) : null;
      },
      nonfinite: (r, c) => total(ranks.nonfinite, r, shown.groups[c] ?? []) > 0,
      words: (r, c) => cell_words(ranks, metric, shown, r, c),
      label: `${kRankMetricNames[metric]} of ${ranks.rank.length} workers in ${shown.groups.length} columns of steps.`,
    });
    name_rows(names, ranks, row_height, open);
    const shown_steps = shown.groups.flat();
    const first = ranks.step[shown_steps[0] ?? 0] ?? 0;
    const last = ranks.step_last[shown_steps[shown_steps.length - 1] ?? 0] ?? 0;
    foot.replaceChildren(el("span", {}, `step ${integer(first)}`), el("span", {}, integer(last)));
    const title =
      view === "value" ? kRankMetricNames[metric] : `${kRankMetricNames[metric]}, difference from the median worker`;
    const extra: [string, string][] = [["nothing known", "hollow"]];
    if (ranks.nonfinite?.some((row) => row.some((v) => (v ?? 0) > 0))) extra.unshift(["not finite", "nonfinite"]);
    legend.replaceChildren(scale_legend(title, shown.scale, shown.map, extra));
    fold.refresh();
  };
  on_range(draw);
  on_theme(draw);

  return {
    id: "workers",
    title: "Workers",
    element: frame.element,
    update: (next) => {
      page = next;
      const ranks = next.ranks.data;
      if (!ranks)
        return frame.show_empty(why_empty(next, next.ranks.reason, "No values of single workers are stored."));
      frame.show();
      const available = [...ranks.metrics.keys()];
      if (!available.includes(metric)) metric = available[0] ?? "loss";
      // One worker has no others: only its values can be shown.
      view_choice.hidden = ranks.rank.length < 2;
      if (view_choice.hidden) view = "value";
      const options = available.map((m) => [m, kRankMetricNames[m]] as const);
      if (metric_box.dataset["for"] !== available.join()) {
        metric_box.replaceChildren(
          choice<RankMetric>("Metric", options, metric, (m) => {
            metric = m;
            draw();
          }),
        );
        metric_box.dataset["for"] = available.join();
      }
      if (picker.options.length !== ranks.rank.length + 1) {
        picker.replaceChildren(
          el("option", { value: "" }, "choose"),
          ...ranks.rank.map((r, i) => el("option", { value: i }, `rank ${r}`)),
        );
      }
      frame.set_lead(
        "One row per worker. A row that keeps its own colour is a worker that keeps its own ways. Averages bring out what lasts; single steps far outside the usual spread are kept.",
      );
      omitted.textContent = ranks.omitted;
      omitted.hidden = ranks.omitted === "";
      draw();
      panel.update(next);
    },
  };
}

function cell_words(ranks: Ranks, metric: RankMetric, shown: Shown, r: number, c: number): string {
  const group = shown.groups[c] ?? [];
  const first = group[0] ?? 0,
    last = group[group.length - 1] ?? first;
  const matrix = ranks.metrics.get(metric);
  const mean = (rows: Column[], row: number): number | null => {
    const values = group.map((b) => rows[row]?.[b]).filter(known);
    return values.length > 0 ? values.reduce((s, v) => s + v, 0) / values.length : null;
  };
  const parts = [`Rank ${ranks.rank[r]}, ${step_range(ranks.step[first] ?? null, ranks.step_last[last] ?? null)}`];
  const bad = total(ranks.nonfinite, r, group),
    lost = total(ranks.missing, r, group);
  if (bad > 0) parts.push(`not finite in ${integer(bad)} of them`);
  if (lost > 0) parts.push(`${integer(lost)} records never came`);
  const own = matrix ? mean(matrix.value, r) : null;
  if (!matrix || own === null) return [...parts, ...(bad || lost ? [] : ["nothing known"])].join(": ");
  const lows = group.map((b) => matrix.min[r]?.[b]).filter(known),
    highs = group.map((b) => matrix.max[r]?.[b]).filter(known);
  const span =
    first !== last || ranks.downsampled ? ` (${number(Math.min(...lows))} to ${number(Math.max(...highs))})` : "";
  const others = median(ranks.rank.map((_, row) => mean(matrix.value, row)).filter(known));
  parts.push(`${kRankMetricNames[metric].toLowerCase()} ${number(own)}${span}, median of all ${number(others)}`);
  return capital(parts.join(": "));
}

// Row names are buttons, so that a worker can be opened without aiming at a cell; every k-th where rows are thin.
function name_rows(box: HTMLElement, ranks: Ranks, row_height: number, open: (row: number) => void): void {
  const every = Math.ceil(13 / row_height);
  const key = `${ranks.rank.join()}:${row_height}`;
  if (box.dataset["for"] === key) return;
  box.dataset["for"] = key;
  box.replaceChildren(
    ...ranks.rank.map((rank, row) => {
      const button = el(
        "button",
        { type: "button", "aria-label": `Show rank ${rank}`, tabindex: every > 1 ? -1 : null },
        row % every === 0 ? String(rank) : "",
      );
      button.style.height = `${row_height}px`;
      button.addEventListener("click", () => open(row));
      return button;
    }),
  );
}

function rank_table(ranks: Ranks): HTMLElement {
  const metrics = [...ranks.metrics.keys()];
  const columns = [
    "rank",
    ...metrics.flatMap((m) => [`${kRankMetricNames[m].toLowerCase()}: mean`, "lowest", "highest"]),
  ];
  return make_table(
    "Workers over the whole run",
    columns,
    ranks.rank.map((rank, r) => [
      `rank ${rank}`,
      ...metrics.flatMap((m) => {
        const matrix = ranks.metrics.get(m);
        const values = (matrix?.value[r] ?? []).filter(known);
        if (!matrix || values.length === 0) return [kNone, kNone, kNone];
        const mean = values.reduce((s, v) => s + v, 0) / values.length;
        return [
          number(mean),
          number(Math.min(...(matrix.min[r] ?? []).filter(known))),
          number(Math.max(...(matrix.max[r] ?? []).filter(known))),
        ];
      }),
    ]),
  );
}
