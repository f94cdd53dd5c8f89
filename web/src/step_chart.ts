// What every chart over steps shares: the step axis with the chosen range, lines and bands over bucket arrays, and marks
// where findings begin. Bands are polygons of their own, because stacking (ECharts' usual way) breaks on nulls and signs.
import type { CustomSeriesRenderItemAPI, CustomSeriesRenderItemParams } from "echarts";
import type { Column, Finding } from "./document";
import { tooltip, tooltip_box, value_axis, type ChartOption, type TooltipItem } from "./chart";
import { integer, step_range } from "./format";
import { step_window } from "./range";
import type { Palette } from "./theme";

export interface Steps {
  step: number[];
  step_last: number[];
}

export function step_axis(p: Palette, steps: Steps): Record<string, unknown> {
  const range = step_window();
  const first = steps.step[0] ?? 0;
  const last = steps.step[steps.step.length - 1] ?? 0;
  return value_axis(p, {
    scale: true,
    min: range ? range.first : first,
    max: range ? range.last : Math.max(last, first + 1),
    splitNumber: 5,
    minInterval: 1,
    axisLabel: {
      color: p.muted,
      fontSize: 11,
      hideOverlap: true,
      showMaxLabel: false,
      formatter: (x: number) => integer(x),
    },
    axisLine: { show: true, onZero: false, lineStyle: { color: p.line } },
    axisTick: { show: true, lineStyle: { color: p.line } },
    splitLine: { show: false },
  });
}

export const points = (steps: Steps, column: Column): (number | null)[][] =>
  steps.step.map((step, i) => [step, column[i] ?? null]);

export function line(
  steps: Steps,
  column: Column,
  colour: string,
  more: Record<string, unknown> = {},
): Record<string, unknown> {
  return {
    type: "line",
    data: points(steps, column),
    showSymbol: false,
    symbol: "circle",
    symbolSize: 4,
    connectNulls: false,
    lineStyle: { color: colour, width: 1.6 },
    itemStyle: { color: colour },
    emphasis: { disabled: true },
    z: 3,
    ...more,
  };
}

// The area between two columns, one polygon for each run of buckets where both are known. A stroke keeps a spike that is
// one bucket wide visible.
export function band(
  steps: Steps,
  low: Column,
  high: Column,
  fill: string,
  stroke?: string,
  z = 1,
): Record<string, unknown> {
  const runs: number[][] = [];
  let open: number[] | null = null;
  for (let i = 0; i < steps.step.length; ++i) {
    const known = typeof low[i] === "number" && typeof high[i] === "number";
    if (known && open) open.push(i);
    else if (known) runs.push((open = [i]));
    else open = null;
  }
  const at = (column: Column, i: number): number => column[i] ?? 0;
  return {
    type: "custom",
    silent: true,
    clip: true,
    z,
    tooltip: { show: false },
    // x and y extent of each run, so that the axes know how far the band reaches
    dimensions: ["first", "last", "low", "high"],
    encode: { x: [0, 1], y: [2, 3] },
    data: runs.map((run) => [
      at(steps.step, run[0] ?? 0),
      at(steps.step, run[run.length - 1] ?? 0),
      Math.min(...run.map((i) => at(low, i))),
      Math.max(...run.map((i) => at(high, i))),
    ]),
    renderItem: (params: CustomSeriesRenderItemParams, api: CustomSeriesRenderItemAPI) => {
      const run = runs[params.dataIndex] ?? [];
      const upper = run.map((i) => api.coord([at(steps.step, i), at(high, i)]));
      const lower = run.map((i) => api.coord([at(steps.step, i), at(low, i)])).reverse();
      return {
        type: "polygon",
        shape: { points: [...upper, ...lower] },
        style: { fill, ...(stroke ? { stroke, lineWidth: 0.6 } : {}) },
        silent: true,
      };
    },
  };
}

// Thin numbered lines where findings begin; the numbers are those of the cards.
export function finding_marks(p: Palette, findings: Finding[]): Record<string, unknown> {
  const marks = findings.flatMap((f, i) =>
    f.first_step === null ? [] : [{ xAxis: f.first_step, name: String(i + 1) }],
  );
  return {
    silent: true,
    symbol: "none",
    animation: false,
    lineStyle: { color: p.alarm, type: [3, 3], width: 1 },
    label: { formatter: "{b}", color: p.alarm, fontSize: 11, fontWeight: 600, position: "end", distance: 2 },
    data: marks.slice(0, 12),
  };
}

// One tooltip line per entry, read from the columns by bucket rather than from what ECharts drew.
export function step_tooltip(
  p: Palette,
  steps: Steps,
  lines: (i: number) => [string, string][],
): Record<string, unknown> {
  const index = new Map(steps.step.map((step, i) => [step, i]));
  return tooltip(p, {
    formatter: (items: TooltipItem | TooltipItem[]) => {
      const item = Array.isArray(items) ? items[0] : items;
      const x = Array.isArray(item?.value) ? Number(item.value[0]) : Number(item?.axisValue);
      const i = index.get(x);
      if (i === undefined) return "";
      return tooltip_box(bucket_name(steps, i), lines(i));
    },
  });
}

export function bucket_name(steps: Steps, i: number): string {
  const first = steps.step[i] ?? null;
  const text = step_range(first, steps.step_last[i] ?? first);
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function step_option(
  p: Palette,
  steps: Steps,
  series: Record<string, unknown>[],
  y: Record<string, unknown> = {},
): ChartOption {
  return {
    grid: { left: 4, right: 14, top: 20, bottom: 4, outerBoundsMode: "same", outerBoundsContain: "axisLabel" },
    xAxis: step_axis(p, steps),
    yAxis: value_axis(p, y),
    series,
  };
}

// At most `limit` rows of a table, spread evenly; a chart of a thousand points is no table that anyone reads.
export function thin_rows(length: number, limit = 60): number[] {
  if (length <= limit) return Array.from({ length }, (_, i) => i);
  return Array.from({ length: limit }, (_, i) => Math.round((i * (length - 1)) / (limit - 1)));
}
