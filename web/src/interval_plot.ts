// Means with their intervals, one row per setting, all on one axis: the honest way to see whether settings differ.
import type { StudySetting } from "./document";
import { el, svg } from "./dom";
import { number } from "./format";

const kRow = 22;

// `all`: the settings of every reading. They share the axis, so that flat in one reading looks flat beside the other.
export function interval_plot(
  title: string,
  metric: string,
  settings: StudySetting[],
  all: StudySetting[],
): HTMLElement {
  const extent = extent_of(metric, all);
  const at = (x: number): number => 3 + (94 * (x - extent.low)) / (extent.high - extent.low);
  const rows = settings.map((setting, i) => {
    const value = setting.values.get(metric);
    const y = kRow / 2;
    const marks: SVGElement[] = [svg("line", { x1: "3%", x2: "97%", y1: y, y2: y, class: "rail" })];
    for (const seed of value?.seeds ?? []) {
      if (seed !== null) marks.push(svg("circle", { cx: `${at(seed)}%`, cy: y, r: 2, class: "seed" }));
    }
    if (value && value.low !== null && value.high !== null) {
      marks.push(
        svg("line", { x1: `${at(value.low)}%`, x2: `${at(value.high)}%`, y1: y, y2: y, class: `interval s${i + 1}` }),
      );
    }
    if (value && value.mean !== null)
      marks.push(svg("circle", { cx: `${at(value.mean)}%`, cy: y, r: 4.5, class: `mean s${i + 1}` }));
    const half = value && value.low !== null && value.high !== null ? (value.high - value.low) / 2 : null;
    const words = `${number(value?.mean ?? null, 4)}${half === null || half === 0 ? "" : ` \u00b1 ${number(half, 2)}`}`;
    return el(
      "div",
      { class: "interval-row" },
      el("span", { class: "setting" }, setting.name),
      svg("svg", { width: "100%", height: kRow, role: "img", "aria-label": `${setting.name}: ${words}` }, ...marks),
      el("span", { class: "figures" }, words),
    );
  });
  return el(
    "div",
    { class: "intervals" },
    el("h4", {}, title),
    ...rows,
    el(
      "div",
      { class: "interval-row axis", "aria-hidden": "true" },
      el("span"),
      el("span", { class: "ends" }, el("span", {}, number(extent.low, 3)), el("span", {}, number(extent.high, 3))),
      el("span"),
    ),
  );
}

function extent_of(metric: string, settings: StudySetting[]): { low: number; high: number } {
  const all = settings
    .flatMap((s) => {
      const v = s.values.get(metric);
      return v ? [v.mean, v.low, v.high, ...v.seeds] : [];
    })
    .filter((x): x is number => x !== null);
  if (all.length === 0) return { low: 0, high: 1 };
  const low = Math.min(...all),
    high = Math.max(...all);
  // Settings that hardly differ must look so: the axis never spans less than 2 % of the values' size.
  const room = Math.max(
    (high - low) * 0.04,
    (0.02 * Math.max(Math.abs(low), Math.abs(high)) - (high - low)) / 2,
    1e-12,
  );
  // Shares and dispersions have ends of their own; an axis that runs past them would suggest values that cannot be.
  return {
    low: low >= 0 ? Math.max(0, low - room) : low - room,
    high: high <= 1 ? Math.min(1, high + room) : high + room,
  };
}
