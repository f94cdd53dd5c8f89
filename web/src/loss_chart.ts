// The averaged loss, with the workers that it hides behind it. Its slider sets the range of steps for the whole page.
import { make_figure, or_none } from "./chart";
import type { Column, PageDocument, Ranks, Series } from "./document";
import { el } from "./dom";
import { integer, number } from "./format";
import { on_range, set_range, step_window } from "./range";
import { make_frame, make_table, why_empty, type Section } from "./section";
import { band, bucket_name, finding_marks, line, step_option, step_tooltip, thin_rows } from "./step_chart";
import type { Palette } from "./theme";

interface Hidden {
  low: Column; // smallest worker's loss
  high: Column;
  std_low: Column;
  std_high: Column;
}

function hidden_of(series: Series): Hidden {
  const mean = series.columns.get("loss_mean")?.value ?? [];
  const std = series.columns.get("loss_std")?.value ?? [];
  const none: Column = series.step.map(() => null);
  const around = (sign: number): Column =>
    mean.map((m, i) => (m === null || std[i] === null || std[i] === undefined ? null : m + sign * (std[i] ?? 0)));
  return {
    low: series.columns.get("loss_min")?.min ?? none,
    high: series.columns.get("loss_max")?.max ?? none,
    std_low: around(-1),
    std_high: around(1),
  };
}

// The bucket where the workers were furthest apart, in words.
function widest(series: Series, hidden: Hidden, ranks: Ranks | null): string {
  let best = -1;
  let width = -1;
  hidden.high.forEach((high, i) => {
    const low = hidden.low[i];
    if (high === null || low === null || low === undefined || high - low <= width) return;
    width = high - low;
    best = i;
  });
  if (best < 0 || width <= 0) return "";
  const mean = series.columns.get("loss_mean")?.value[best] ?? null;
  const high = hidden.high[best] ?? null;
  const rank = high === null ? null : rank_at(ranks, series.step[best] ?? 0, high);
  const who = rank === null ? "" : ` (rank ${rank})`;
  return (
    `${bucket_name(series, best)}: the average says ${number(mean, 4)}, the workers behind it ranged from ` +
    `${number(hidden.low[best] ?? null, 4)} to ${number(high, 4)}${who}.`
  );
}

function rank_at(ranks: Ranks | null, step: number, loss: number): number | null {
  const matrix = ranks?.metrics.get("loss");
  if (!ranks || !matrix) return null;
  const b = ranks.step.findIndex((first, i) => first <= step && step <= (ranks.step_last[i] ?? first));
  const row = matrix.max.findIndex((values) => Math.abs((values[b] ?? Infinity) - loss) <= 1e-5 * Math.abs(loss));
  return ranks.rank[row] ?? null;
}

export function loss_section(): Section {
  const frame = make_frame("loss", "What the average hid");
  let series: Series | null = null;
  let findings: PageDocument["findings"] = [];
  const table = (): HTMLElement => (series ? loss_table(series) : el("p", {}, "No data."));
  const figure = make_figure("tall", table);
  const controls = range_controls(() => series);
  frame.body.append(figure.element, controls.element);

  figure.on_ready((chart) =>
    chart.on("datazoom", () => {
      const option = chart.getOption() as {
        dataZoom?: { startValue?: number; endValue?: number; start?: number; end?: number }[];
      };
      const zoom = option.dataZoom?.[0];
      if (!zoom || !series) return;
      const whole = (zoom.start ?? 0) <= 0 && (zoom.end ?? 100) >= 100;
      set_range(whole ? null : { first: Math.round(zoom.startValue ?? 0), last: Math.round(zoom.endValue ?? 0) });
    }),
  );
  // Redrawing in the middle of the reader's own drag would fight with it; the slider already shows what it set.
  on_range(() => {
    const zoom = figure.chart();
    const range = step_window();
    const first = series?.step[0] ?? 0;
    const last = series?.step[series.step.length - 1] ?? 0;
    zoom?.dispatchAction(
      { type: "dataZoom", startValue: range?.first ?? first, endValue: range?.last ?? last },
      { silent: true },
    );
    controls.refresh();
  });

  return {
    id: "loss",
    title: "Loss",
    element: frame.element,
    update: (page) => {
      series = page.series.data;
      findings = page.findings;
      const mean = series?.columns.get("loss_mean");
      if (!series || !mean)
        return frame.show_empty(
          why_empty(page, page.series.reason, "No losses are stored: call on_loss() once per micro-batch."),
        );
      frame.show();
      const data = series;
      const hidden = hidden_of(data);
      const hides = hidden.std_high.some((v) => v !== null);
      frame.set_lead(
        widest(data, hidden, page.ranks.data) || "One worker: the average is its own loss and hides nothing.",
      );
      const title = hides ? "Averaged loss, and the workers behind it" : "Loss";
      figure.set((p) => loss_option(p, data, hidden, findings), title, `${title}, over ${data.step.length} points.`, [
        { name: hides ? "average" : "loss", kind: "line", colour: (p) => p.text },
        ...(hides
          ? [
              { name: "\u00b1 std of workers", kind: "band" as const, colour: (p: Palette) => p.band_strong },
              { name: "smallest to largest worker", kind: "band" as const, colour: (p: Palette) => p.band },
            ]
          : []),
        ...(findings.length > 0
          ? [{ name: "finding begins", kind: "dash" as const, colour: (p: Palette) => p.alarm }]
          : []),
      ]);
      figure.set_note(
        data.downsampled
          ? `${integer(data.steps_total)} steps in ${integer(data.step.length)} buckets; the outer band keeps each bucket's extremes.`
          : "",
      );
      controls.refresh();
    },
  };
}

function loss_option(
  p: Palette,
  series: Series,
  hidden: Hidden,
  findings: PageDocument["findings"],
): Record<string, unknown> {
  const mean = series.columns.get("loss_mean");
  const range = step_window();
  const option = step_option(p, series, [
    band(series, hidden.low, hidden.high, p.band, series.downsampled ? p.band_strong : undefined),
    band(series, hidden.std_low, hidden.std_high, p.band_strong),
    line(series, mean?.value ?? [], p.text, {
      lineStyle: { color: p.text, width: 1.8 },
      itemStyle: { color: p.text },
      markLine: finding_marks(p, findings),
    }),
  ]);
  const axis = option["xAxis"] as Record<string, unknown>;
  axis["min"] = series.step[0];
  axis["max"] = series.step[series.step.length - 1];
  return {
    ...option,
    grid: { left: 4, right: 14, top: 20, bottom: 44, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
    dataZoom: [
      {
        type: "slider",
        height: 20,
        bottom: 6,
        left: 8,
        right: 8,
        brushSelect: false,
        showDataShadow: false,
        filterMode: "none",
        startValue: range?.first,
        endValue: range?.last,
        showDetail: false,
        minValueSpan: 4,
        borderColor: p.line,
        fillerColor: p.band,
        backgroundColor: "transparent",
        handleStyle: { color: p.panel, borderColor: p.muted },
        moveHandleSize: 0,
        emphasis: { handleStyle: { borderColor: p.accent } },
      },
    ],
    tooltip: step_tooltip(p, series, (i) => [
      ["average", or_none(mean?.value[i])],
      ["smallest worker", or_none(hidden.low[i])],
      ["largest worker", or_none(hidden.high[i])],
      ["std of workers", or_none(series.columns.get("loss_std")?.value[i])],
    ]),
  };
}

function loss_table(series: Series): HTMLElement {
  const hidden = hidden_of(series);
  const column = (name: string, i: number): string => or_none(series.columns.get(name)?.value[i]);
  return make_table(
    "Loss by step",
    ["steps", "average", "smallest", "largest", "std"],
    thin_rows(series.step.length).map((i) => [
      bucket_name(series, i),
      column("loss_mean", i),
      or_none(hidden.low[i]),
      or_none(hidden.high[i]),
      column("loss_std", i),
    ]),
  );
}

// The slider's twin for the keyboard: two numbers and a way back.
function range_controls(series: () => Series | null): { element: HTMLElement; refresh(): void } {
  const first = el("input", {
    type: "number",
    inputmode: "numeric",
    min: 0,
    step: 1,
    "aria-label": "First step shown",
  });
  const last = el("input", { type: "number", inputmode: "numeric", min: 0, step: 1, "aria-label": "Last step shown" });
  const reset = el("button", { type: "button", class: "quiet" }, "Whole run");
  const apply = (): void => {
    const a = Number(first.value);
    const b = Number(last.value);
    if (Number.isFinite(a) && Number.isFinite(b) && b > a) set_range({ first: a, last: b });
  };
  first.addEventListener("change", apply);
  last.addEventListener("change", apply);
  reset.addEventListener("click", () => set_range(null));
  return {
    element: el(
      "div",
      { class: "controls" },
      el("span", {}, "All charts show steps"),
      el("span", { class: "from-to" }, first, "to", last),
      reset,
    ),
    refresh: () => {
      const data = series();
      const range = step_window();
      first.value = String(range?.first ?? data?.step[0] ?? 0);
      last.value = String(range?.last ?? data?.step_last[data.step_last.length - 1] ?? 0);
      reset.disabled = range === null;
    },
  };
}
