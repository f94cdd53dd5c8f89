// The noise scale, which explains how much healthy workers disagree, and the check of the all-reduce itself.
import { make_figure, or_none, type Figure } from "./chart";
import type { PageDocument, Series } from "./document";
import { el } from "./dom";
import { number } from "./format";
import { on_range } from "./range";
import { make_frame, make_table, why_empty, type Section } from "./section";
import { band, bucket_name, finding_marks, line, step_option, step_tooltip, thin_rows } from "./step_chart";

export function noise_section(): Section {
  const frame = make_frame("noise", "Noise scale and the reduction");
  let page: PageDocument | null = null;
  const table = (name: string, title: string) => (): HTMLElement =>
    page?.series.data ? column_table(page.series.data, name, title) : el("p", {}, "No data.");
  const noise = make_figure("medium", table("noise_ratio_smooth", "noise scale B/b, smoothed"));
  const gap = make_figure("medium", table("reduction_gap", "reduction gap"));
  const no_noise = el(
    "p",
    { class: "empty" },
    "No noise scale: it needs the norm of the reduced gradient, given by on_reduced(), or sketches of two workers.",
  );
  const no_gap = el(
    "p",
    { class: "empty" },
    "The reduction was not checked: that needs sketches before it and the gradient after it, given by on_reduced().",
  );
  frame.body.append(
    el("div", { class: "columns two" }, el("div", {}, noise.element, no_noise), el("div", {}, gap.element, no_gap)),
  );
  const draw = (): void => {
    const series = page?.series.data;
    if (!page || !series) return;
    draw_noise(noise, no_noise, series);
    draw_gap(gap, no_gap, series, page);
  };
  on_range(draw);
  return {
    id: "noise",
    title: "Noise",
    element: frame.element,
    update: (next) => {
      page = next;
      if (!next.series.data) return frame.show_empty(why_empty(next, next.series.reason, "No steps are stored."));
      frame.show();
      frame.set_lead(
        "B/b says how many times noisier a worker's gradient is than its signal; healthy workers then agree by a cosine of 1/(1 + B/b). The gap says how far the reduced gradient is from the mean of the workers' own.",
      );
      draw();
    },
  };
}

const has = (series: Series, name: string): boolean => series.columns.get(name)?.value.some((v) => v !== null) ?? false;

function draw_noise(figure: Figure, empty: HTMLElement, series: Series): void {
  const smooth = has(series, "noise_ratio_smooth") ? "noise_ratio_smooth" : "noise_ratio";
  const there = has(series, smooth);
  figure.element.hidden = !there;
  empty.hidden = there;
  const column = series.columns.get(smooth);
  if (!there || !column) return;
  const raw = series.columns.get("noise_ratio");
  const newest = [...column.value].reverse().find((v) => v !== null) ?? null;
  const title = "Noise scale B/b";
  figure.set(
    (p) => ({
      ...step_option(p, series, [
        ...(raw && smooth !== "noise_ratio"
          ? [line(series, raw.value, p.muted, { lineStyle: { color: p.muted, width: 0.8, opacity: 0.55 }, z: 2 })]
          : []),
        line(series, column.value, p.accent),
      ]),
      tooltip: step_tooltip(p, series, (i) => [
        ["smoothed", or_none(column.value[i])],
        ["this step alone", or_none(raw?.value[i])],
      ]),
    }),
    title,
    `${title} by step; newest ${number(newest, 3)}.`,
    [
      { name: "smoothed", kind: "line", colour: (p) => p.accent },
      ...(raw && smooth !== "noise_ratio"
        ? [{ name: "each step alone", kind: "line" as const, colour: (p: { muted: string }) => p.muted }]
        : []),
    ],
  );
  figure.set_note(
    newest === null
      ? ""
      : `Now ${number(newest, 3)}: healthy workers would agree by a cosine of ${number(1 / (1 + newest), 3)}.`,
  );
}

function draw_gap(figure: Figure, empty: HTMLElement, series: Series, page: PageDocument): void {
  const there = has(series, "reduction_gap");
  figure.element.hidden = !there;
  empty.hidden = there;
  const column = series.columns.get("reduction_gap");
  if (!there || !column) return;
  const title = "Reduced gradient against the workers' mean";
  figure.set(
    (p) => ({
      ...step_option(
        p,
        series,
        [
          ...(series.downsampled ? [band(series, column.min, column.max, p.band)] : []),
          line(series, column.value, p.accent, { markLine: finding_marks(p, page.findings) }),
        ],
        { min: 0 },
      ),
      tooltip: step_tooltip(p, series, (i) => [
        ["gap, relative", or_none(column.value[i], 3)],
        ["largest", or_none(column.max[i], 3)],
      ]),
    }),
    title,
    `${title}, by step.`,
    [{ name: "relative gap", kind: "line", colour: (p) => p.accent }],
  );
  figure.set_note("Rounding alone gives about 1e\u22127 in fp32 and 1e\u22123 in bf16.");
}

function column_table(series: Series, name: string, title: string): HTMLElement {
  const column = series.columns.get(name);
  return make_table(
    title,
    ["steps", "value", "lowest", "highest"],
    thin_rows(series.step.length).map((i) => [
      bucket_name(series, i),
      or_none(column?.value[i]),
      or_none(column?.min[i]),
      or_none(column?.max[i]),
    ]),
  );
}
