// Ranks x steps: every worker at every step, as its value or as its difference from the other workers. The difference is
// the default, because a trend that all workers share would otherwise hide the one that leaves it.
import { css, diverging_map, sequential_map, type Colormap } from "./colormap";
import type { PageDocument, RankMetric, Ranks } from "./document";
import { el } from "./dom";
import { integer, kNone, number } from "./format";
import { make_heat_canvas } from "./heat_canvas";
import { on_range, step_window } from "./range";
import { make_rank_panel } from "./rank_panel";
import { median, robust_scale, scale_legend, type Scale } from "./scale_legend";
import { choice, make_frame, make_table, table_fold, type Section } from "./section";
import { bucket_name } from "./step_chart";
import { on_theme, palette } from "./theme";

export const kRankMetricNames: Record<RankMetric, string> = {
  loss: "Loss", norm: "Gradient norm", leave_one_out: "Cosine to the others",
};
type View = "difference" | "value";

interface Shown {
  columns: number[]; // buckets inside the chosen range
  values: (number | null)[][]; // what is coloured, by row and shown column
  scale: Scale;
  map: Colormap;
}

const known = (x: number | null | undefined): x is number => x !== null && x !== undefined;

// The value of a cell that lies furthest from the other ranks' in that bucket, so that a spike of one step survives.
function cell_values(ranks: Ranks, metric: RankMetric, view: View, columns: number[]): (number | null)[][] {
  const matrix = ranks.metrics.get(metric);
  if (!matrix) return [];
  const middle = (rows: (number | null)[][], b: number): number => median(rows.map((row) => row[b]).filter(known));
  const centres = columns.map((b) => [middle(matrix.min, b), middle(matrix.value, b), middle(matrix.max, b)] as const);
  return ranks.rank.map((_, r) => columns.map((b, i) => {
    const [low_mid, mid, high_mid] = centres[i] ?? [0, 0, 0];
    const low = matrix.min[r]?.[b], value = matrix.value[r]?.[b], high = matrix.max[r]?.[b];
    if (!known(low) || !known(value) || !known(high)) return null;
    if (!ranks.downsampled) return view === "value" ? value : value - mid;
    const down = low - low_mid, up = high - high_mid;
    const furthest_is_up = Math.abs(up) >= Math.abs(down);
    if (view === "value") return furthest_is_up ? high : low;
    return furthest_is_up ? up : down;
  }));
}

function shown_of(ranks: Ranks, metric: RankMetric, view: View): Shown {
  const range = step_window();
  const columns = ranks.step.map((_, i) => i).filter((i) =>
    !range || ((ranks.step_last[i] ?? 0) >= range.first && (ranks.step[i] ?? 0) <= range.last));
  const values = cell_values(ranks, metric, view, columns);
  const flat = values.flat().filter(known);
  const dark = palette().dark;
  if (view === "value") return { columns, values, scale: robust_scale(flat), map: sequential_map() };
  const reach = robust_scale(flat.map(Math.abs), 0.005).high || 1;
  return { columns, values, scale: { low: -reach, high: reach }, map: diverging_map(dark) };
}

export function rank_map_section(): Section {
  const frame = make_frame("workers", "Every worker at every step");
  let page: PageDocument | null = null;
  let metric: RankMetric = "loss";
  let view: View = "difference";
  const panel = make_rank_panel(() => heat.focus());
  const open = (row: number): void => {
    const rank = page?.ranks.data?.rank[row];
    if (page && rank !== undefined) panel.open(page, rank);
  };
  const heat = make_heat_canvas({ hint: "Choose a cell to see its worker.", on_open: (cell) => open(cell.row) });
  const names = el("div", { class: "row-names" });
  const foot = el("div", { class: "map-foot" });
  const legend = el("div");
  const metric_box = el("div");
  const omitted = el("p", { class: "note", hidden: true });
  const fold = table_fold("Show as table", () => (page?.ranks.data ? rank_table(page.ranks.data) : el("p", {}, "No data.")));
  const picker = el("select", { "aria-label": "Worker to show" });
  picker.addEventListener("change", () => picker.value !== "" && open(Number(picker.value)));
  const view_choice = choice<View>("Colour", [["difference", "against the others"], ["value", "value"]], view, (v) => {
    view = v;
    draw();
  });
  frame.body.append(
    el("div", { class: "controls" }, metric_box, view_choice, el("label", { class: "field" }, "Worker ", picker)),
    el("div", { class: "map" }, names, heat.element), foot, legend, omitted, panel.element, fold.element);

  const draw = (): void => {
    const ranks = page?.ranks.data;
    if (!ranks) return;
    const shown = shown_of(ranks, metric, view);
    const row_height = Math.max(3, Math.min(26, Math.floor(460 / ranks.rank.length)));
    heat.draw({
      rows: ranks.rank.length,
      columns: Math.max(1, shown.columns.length),
      row_height,
      colour: (r, c) => {
        const v = shown.values[r]?.[c];
        return known(v) ? css(shown.map((v - shown.scale.low) / (shown.scale.high - shown.scale.low))) : null;
      },
      crossed: (r, c) => (ranks.nonfinite?.[r]?.[shown.columns[c] ?? -1] ?? 0) > 0,
      words: (r, c) => cell_words(ranks, metric, shown, r, c),
      label: `${kRankMetricNames[metric]} of ${ranks.rank.length} workers over ${shown.columns.length} buckets of steps.`,
    });
    name_rows(names, ranks, row_height, open);
    const first = ranks.step[shown.columns[0] ?? 0] ?? 0;
    const last = ranks.step_last[shown.columns[shown.columns.length - 1] ?? 0] ?? 0;
    foot.replaceChildren(el("span", {}, `step ${integer(first)}`), el("span", {}, integer(last)));
    const title = view === "value" ? kRankMetricNames[metric] : `${kRankMetricNames[metric]}, difference from the median worker`;
    const extra: [string, string][] = [["nothing known", "hollow"]];
    if (ranks.nonfinite?.some((row) => row.some((v) => (v ?? 0) > 0))) extra.unshift(["not finite", "alarm"]);
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
      if (!ranks) return frame.show_empty(next.ranks.reason || "No values of single workers are stored yet.");
      frame.show();
      const available = [...ranks.metrics.keys()];
      if (!available.includes(metric)) metric = available[0] ?? "loss";
      const options = available.map((m) => [m, kRankMetricNames[m]] as const);
      const signature = `${available.join()}:${metric}`;
      if (metric_box.dataset["for"] !== available.join()) {
        metric_box.replaceChildren(choice<RankMetric>("Metric", options, metric, (m) => {
          metric = m;
          draw();
        }));
        metric_box.dataset["for"] = signature.split(":")[0] ?? "";
      }
      if (picker.options.length !== ranks.rank.length + 1) {
        picker.replaceChildren(el("option", { value: "" }, "choose"), ...ranks.rank.map((r, i) => el("option", { value: i }, `rank ${r}`)));
      }
      const grain = ranks.downsampled ? " A cell stands for several steps and shows the one furthest from the other workers." : "";
      frame.set_lead(`One row per worker. A row that keeps its own colour is a worker that keeps its own ways.${grain}`);
      omitted.textContent = ranks.omitted;
      omitted.hidden = ranks.omitted === "";
      draw();
      panel.update(next);
    },
  };
}

function cell_words(ranks: Ranks, metric: RankMetric, shown: Shown, r: number, c: number): string {
  const b = shown.columns[c] ?? 0;
  const matrix = ranks.metrics.get(metric);
  const value = matrix?.value[r]?.[b] ?? null;
  const parts = [`Rank ${ranks.rank[r]}, ${bucket_name(ranks, b).toLowerCase()}`];
  const bad = ranks.nonfinite?.[r]?.[b] ?? 0;
  const lost = ranks.missing?.[r]?.[b] ?? 0;
  if (bad > 0) parts.push(`not finite in ${integer(bad)} of them`);
  if (lost > 0) parts.push(`${integer(lost)} records never came`);
  if (value === null) return [...parts, bad || lost ? "" : "nothing known"].filter(Boolean).join(": ");
  const others = median((matrix?.value ?? []).map((row) => row[b]).filter(known));
  const name = kRankMetricNames[metric].toLowerCase();
  const span = ranks.downsampled ? ` (${number(matrix?.min[r]?.[b] ?? null)} to ${number(matrix?.max[r]?.[b] ?? null)})` : "";
  parts.push(`${name} ${number(value)}${span}, median of all ${number(others)}`);
  return parts.join(": ");
}

// Row names are buttons, so that a worker can be opened without aiming at a cell; every k-th where rows are thin.
function name_rows(box: HTMLElement, ranks: Ranks, row_height: number, open: (row: number) => void): void {
  const every = Math.ceil(13 / row_height);
  const key = `${ranks.rank.join()}:${row_height}`;
  if (box.dataset["for"] === key) return;
  box.dataset["for"] = key;
  box.replaceChildren(...ranks.rank.map((rank, row) => {
    const button = el("button", { type: "button", "aria-label": `Show rank ${rank}`, tabindex: every > 1 ? -1 : null }, row % every === 0 ? String(rank) : "");
    button.style.height = `${row_height}px`;
    button.addEventListener("click", () => open(row));
    return button;
  }));
}

function rank_table(ranks: Ranks): HTMLElement {
  const metrics = [...ranks.metrics.keys()];
  const columns = ["rank", ...metrics.flatMap((m) => [`${kRankMetricNames[m].toLowerCase()}: mean`, "lowest", "highest"])];
  return make_table("Workers over the whole run", columns, ranks.rank.map((rank, r) => [`rank ${rank}`, ...metrics.flatMap((m) => {
    const matrix = ranks.metrics.get(m);
    const values = (matrix?.value[r] ?? []).filter(known);
    if (!matrix || values.length === 0) return [kNone, kNone, kNone];
    const mean = values.reduce((s, v) => s + v, 0) / values.length;
    return [number(mean), number(Math.min(...(matrix.min[r] ?? []).filter(known))), number(Math.max(...(matrix.max[r] ?? []).filter(known)))];
  })]));
}
