// Documents of other parts of Lockstep (hardware lab, reduction lab, benchmarks): text, tables and plots, as they come.
import { make_figure, tooltip, tooltip_box, value_axis, type ChartOption, type TooltipItem } from "./chart";
import type { Lab, LabPlot, PageDocument } from "./document";
import { el } from "./dom";
import { number, scalar } from "./format";
import { make_frame, make_table, type Section } from "./section";
import type { Palette } from "./theme";

export const has_labs = (page: PageDocument): boolean => page.labs.length > 0;

export function labs_section(): Section {
  const frame = make_frame("labs", "Labs");
  let shown = "";
  return {
    id: "labs",
    title: "Labs",
    element: frame.element,
    update: (page) => {
      if (page.labs.length === 0) return frame.show_empty("This document holds no lab.");
      frame.show();
      const state = JSON.stringify(page.labs);
      if (state === shown) return;
      shown = state;
      frame.body.replaceChildren(...page.labs.map(lab_view));
    },
  };
}

function lab_view(lab: Lab): HTMLElement {
  return el(
    "div",
    { class: "lab" },
    el("h3", {}, lab.title || lab.id),
    ...lab.text.map((text) => el("p", {}, text)),
    ...lab.tables.map((t) =>
      make_table(
        t.title,
        t.columns,
        t.rows.map((row) => row.map(scalar)),
      ),
    ),
    el("div", { class: lab.plots.length > 1 ? "columns two" : "" }, ...lab.plots.map(plot_view)),
  );
}

function plot_view(plot: LabPlot): HTMLElement {
  const table = (): HTMLElement =>
    make_table(
      plot.title,
      ["series", plot.x.title || "x", plot.y.title || "y"],
      plot.series.flatMap((s) => s.x.slice(0, 100).map((x, i) => [s.name, scalar(x), number(s.y[i] ?? null)])),
    );
  const figure = make_figure("medium", table);
  figure.set(
    (p) => plot_option(p, plot),
    plot.title,
    `${plot.title}: ${plot.y.title} by ${plot.x.title}.`,
    plot.series.map((s, i) => ({
      name: s.name,
      kind: plot.kind === "line" ? "line" : "dot",
      colour: (p) => p.series[i % p.series.length] ?? p.accent,
    })),
  );
  return figure.element;
}

function plot_option(p: Palette, plot: LabPlot): ChartOption {
  const bars = plot.kind === "bar";
  const names = bars ? [...new Set(plot.series.flatMap((s) => s.x.map(scalar)))] : [];
  const x = value_axis(p, {
    type: bars ? "category" : plot.x.log ? "log" : "value",
    name: plot.x.title,
    nameLocation: "middle",
    nameGap: 26,
    axisLine: { show: true, lineStyle: { color: p.line } },
    splitLine: { show: false },
    ...(bars ? { data: names, axisLabel: { color: p.muted, fontSize: 11 } } : {}),
  });
  return {
    grid: { left: 8, right: 18, top: 30, bottom: 30, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
    xAxis: x,
    yAxis: value_axis(p, {
      type: plot.y.log ? "log" : "value",
      scale: !bars,
      name: plot.y.title,
      nameLocation: "end",
      nameTextStyle: { color: p.muted, fontSize: 11, align: "left" },
    }),
    tooltip: tooltip(p, {
      trigger: bars ? "axis" : "item",
      formatter: (items: TooltipItem | TooltipItem[]) => {
        const list = Array.isArray(items) ? items : [items];
        return tooltip_box(
          plot.title,
          list.map((item) => [
            item.seriesName ?? "",
            Array.isArray(item.value)
              ? item.value.map((v) => number(Number(v))).join(", ")
              : number(Number(item.value)),
          ]),
        );
      },
    }),
    series: plot.series.flatMap((s, i) => plot_series(p, plot, s, i, names)),
  };
}

function plot_series(
  p: Palette,
  plot: LabPlot,
  s: LabPlot["series"][number],
  i: number,
  names: string[],
): Record<string, unknown>[] {
  const colour = p.series[i % p.series.length] ?? p.accent;
  const style = { name: s.name, itemStyle: { color: colour }, emphasis: { disabled: true } };
  if (plot.kind === "bar") {
    const by_name = new Map(s.x.map((x, k) => [scalar(x), s.y[k] ?? null]));
    return [{ ...style, type: "bar", barMaxWidth: 36, data: names.map((name) => by_name.get(name) ?? null) }];
  }
  const data = s.x.map((x, k) => [typeof x === "number" ? x : k, s.y[k] ?? null]);
  if (plot.kind === "scatter") return [{ ...style, type: "scatter", symbolSize: 6, data }];
  const edge = (column: (number | null)[]): Record<string, unknown> => ({
    ...style,
    type: "line",
    showSymbol: false,
    silent: true,
    lineStyle: { color: colour, width: 0.8, type: [2, 3], opacity: 0.8 },
    data: s.x.map((x, k) => [typeof x === "number" ? x : k, column[k] ?? null]),
  });
  const main = {
    ...style,
    type: "line",
    symbol: "circle",
    symbolSize: 5,
    showSymbol: s.x.length <= 40,
    lineStyle: { color: colour, width: 1.6 },
    data,
  };
  return s.low.length > 0 && s.high.length > 0 ? [main, edge(s.low), edge(s.high)] : [main];
}
