// What the map of workers colours: values or differences from the other workers, one bucket or several per cell.
//
// A spike of one step must survive both kinds of joining. In a bucket of many steps the cell takes the extreme that lies
// furthest from the other workers' extremes. In a smoothed cell the mean is taken, because a persistent offset only shows
// above the noise in a mean, unless a single value lies far outside the usual spread: then that value is shown.
import type { RankMetric, Ranks } from "./document";
import { step_window } from "./range";
import { median } from "./scale_legend";

export type View = "difference" | "value";
export type Grain = "fine" | "smooth";
export type Cells = (number | null)[][]; // by row and group

export const kRankMetricNames: Record<RankMetric, string> = {
  loss: "Loss",
  norm: "Gradient norm",
  leave_one_out: "Cosine to others",
};

const kSmoothColumns = 60;
const kFarOut = 8; // robust standard deviations

export const known = (x: number | null | undefined): x is number => x !== null && x !== undefined;

// The buckets inside the chosen range of steps, in groups of one or several.
export function groups_of(ranks: Ranks, grain: Grain): number[][] {
  const range = step_window();
  const inside = ranks.step
    .map((_, i) => i)
    .filter((i) => !range || ((ranks.step_last[i] ?? 0) >= range.first && (ranks.step[i] ?? 0) <= range.last));
  const count = grain === "smooth" ? Math.min(kSmoothColumns, inside.length) : inside.length;
  // Equal sizes but for one: a short last group would look noisier than the rest.
  const edge = (i: number): number => Math.round((i * inside.length) / count);
  return Array.from({ length: count }, (_, i) => inside.slice(edge(i), edge(i + 1)));
}

// Value and difference of one bucket, for each rank.
function bucket_cells(ranks: Ranks, metric: RankMetric, view: View, b: number): (number | null)[] {
  const matrix = ranks.metrics.get(metric);
  if (!matrix) return [];
  const middle = (rows: (number | null)[][]): number => median(rows.map((row) => row[b]).filter(known));
  const mid = middle(matrix.value);
  const low_mid = ranks.downsampled ? middle(matrix.min) : mid;
  const high_mid = ranks.downsampled ? middle(matrix.max) : mid;
  return ranks.rank.map((_, r) => {
    const low = matrix.min[r]?.[b],
      value = matrix.value[r]?.[b],
      high = matrix.max[r]?.[b];
    if (!known(low) || !known(value) || !known(high)) return null;
    if (!ranks.downsampled) return view === "value" ? value : value - mid;
    const down = low - low_mid,
      up = high - high_mid;
    if (Math.abs(up) >= Math.abs(down)) return view === "value" ? high : up;
    return view === "value" ? low : down;
  });
}

function joined(values: number[], centre: number, spread: number): number | null {
  if (values.length === 0) return null;
  const furthest = values.reduce((a, b) => (Math.abs(b - centre) > Math.abs(a - centre) ? b : a));
  if (spread > 0 && Math.abs(furthest - centre) > kFarOut * spread) return furthest;
  return values.reduce((s, v) => s + v, 0) / values.length;
}

export function cells_of(ranks: Ranks, metric: RankMetric, view: View, groups: number[][]): Cells {
  const by_bucket = new Map(groups.flat().map((b) => [b, bucket_cells(ranks, metric, view, b)]));
  const all = [...by_bucket.values()].flat().filter(known);
  const centre = median(all);
  const spread = 1.4826 * median(all.map((v) => Math.abs(v - centre)));
  return ranks.rank.map((_, r) =>
    groups.map((group) =>
      joined(group.map((b) => by_bucket.get(b)?.[r]).filter(known), centre, group.length > 1 ? spread : 0),
    ),
  );
}
