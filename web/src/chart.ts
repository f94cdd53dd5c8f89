// A line, bar or custom chart of ECharts in a figure: title, drawing, and the same numbers as a table on demand.
// The drawing waits until it is near the window (a page has a dozen, and a live run redraws them all), follows the theme,
// and is a labelled image to screen readers, which have the table for the numbers.
import { BarChart, CustomChart, LineChart, ScatterChart } from "echarts/charts";
import { DataZoomSliderComponent, GridComponent, MarkLineComponent, TooltipComponent } from "echarts/components";
import { init, use, type ECharts, type EChartsCoreOption } from "echarts/core";
import { CanvasRenderer } from "echarts/renderers";
import { el, fresh_id } from "./dom";
import { kNone, number } from "./format";
import { table_fold } from "./section";
import { on_theme, palette, type Palette } from "./theme";

use([
  BarChart,
  CanvasRenderer,
  CustomChart,
  DataZoomSliderComponent,
  GridComponent,
  LineChart,
  MarkLineComponent,
  ScatterChart,
  TooltipComponent,
]);

export type ChartOption = EChartsCoreOption;

export interface LegendEntry {
  name: string;
  kind: "line" | "dash" | "band" | "dot";
  colour: (p: Palette) => string;
}

export interface Figure {
  element: HTMLElement;
  // `label` is what a screen reader says of the drawing.
  set(option: (p: Palette) => ChartOption, title: string, label: string, legend?: LegendEntry[]): void;
  set_note(text: string): void;
  chart(): ECharts | null;
  on_ready(listener: (chart: ECharts) => void): void;
}

export function make_figure(height: string, build_table: () => HTMLElement): Figure {
  const title = el("span", { class: "figure-title", id: fresh_id("figure") });
  const legend_box = el("span", { class: "legend", "aria-hidden": "true" });
  const caption = el("figcaption", {}, title, legend_box);
  const canvas = el("div", { class: `chart ${height}`, role: "img", "aria-labelledby": title.id });
  const note = el("p", { class: "note", hidden: true });
  const fold = table_fold("Show as table", build_table);
  const element = el("figure", {}, caption, canvas, note, fold.element);

  let chart: ECharts | null = null;
  let make: ((p: Palette) => ChartOption) | null = null;
  let entries: LegendEntry[] = [];
  const ready: ((chart: ECharts) => void)[] = [];

  let near = false; // in the window or close to it
  let stale = false; // was to be drawn while it was not

  const draw = (): void => {
    stale = !near;
    if (!make || !near || canvas.clientWidth === 0) return;
    const colours = palette();
    if (!chart) {
      chart = init(canvas, null, { renderer: "canvas" });
      for (const listener of ready) listener(chart);
    }
    chart.setOption({ ...base_option(colours), ...make(colours) }, { notMerge: true, lazyUpdate: true });
    legend_box.replaceChildren(
      ...entries.map((e) => {
        const key = el("i", { class: `key ${e.kind}` });
        key.style.setProperty("--key", e.colour(colours));
        return el("span", { class: "entry" }, key, e.name);
      }),
    );
  };
  new ResizeObserver(() => {
    if (chart && canvas.clientWidth > 0) chart.resize();
    else draw();
  }).observe(canvas);
  new IntersectionObserver(
    (seen) => {
      near = seen[seen.length - 1]?.isIntersecting ?? false;
      if (near && (stale || !chart)) draw();
    },
    { rootMargin: "300px" },
  ).observe(canvas);
  addEventListener("beforeprint", () => {
    near = true;
    draw();
  });
  on_theme(draw);

  return {
    element,
    chart: () => chart,
    on_ready: (listener) => void ready.push(listener),
    set: (option, text, label, legend = []) => {
      make = option;
      entries = legend;
      title.textContent = text;
      canvas.setAttribute("aria-label", label);
      canvas.removeAttribute("aria-labelledby");
      fold.refresh();
      draw();
    },
    set_note: (text) => {
      note.textContent = text;
      note.hidden = text === "";
    },
  };
}

function base_option(p: Palette): ChartOption {
  return {
    animation: false,
    textStyle: { fontFamily: p.font, color: p.text, fontSize: 12 },
    grid: { left: 8, right: 16, top: 12, bottom: 8, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
    tooltip: tooltip(p),
  };
}

// ECharts builds tooltips from HTML strings; a function that returns an element keeps every name a text node.
export interface TooltipItem {
  axisValue?: number | string;
  seriesName?: string;
  value?: unknown;
  dataIndex?: number;
  color?: unknown;
}

export function tooltip(p: Palette, more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    trigger: "axis",
    confine: true,
    transitionDuration: 0,
    backgroundColor: p.panel,
    borderColor: p.line,
    padding: [6, 10],
    textStyle: { color: p.text, fontSize: 12, fontFamily: p.font },
    axisPointer: { type: "line", lineStyle: { color: p.muted, type: "solid", width: 1 }, animation: false },
    ...more,
  };
}

export function tooltip_box(title: string, lines: [string, string][]): HTMLElement {
  return el(
    "div",
    { class: "tip" },
    el("b", {}, title),
    ...lines.map(([name, value]) => el("div", {}, el("span", {}, name), el("span", {}, value))),
  );
}

export function value_axis(p: Palette, more: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    type: "value",
    scale: true,
    splitNumber: 4,
    axisLabel: { color: p.muted, fontSize: 11, formatter: (x: number) => number(x, 4) },
    axisLine: { show: false },
    axisTick: { show: false },
    splitLine: { lineStyle: { color: p.faint } },
    nameTextStyle: { color: p.muted, fontSize: 11 },
    ...more,
  };
}

export const or_none = (x: number | null | undefined, digits = 4): string =>
  x === null || x === undefined ? kNone : number(x, digits);
