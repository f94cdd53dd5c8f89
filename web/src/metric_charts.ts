// The three metrics of the paper over time, each against what healthy workers would show.
import { make_figure, or_none, type Figure, type LegendEntry } from "./chart";
import type { Expected, PageDocument, Sampled, Series } from "./document";
import { el } from "./dom";
import { percent } from "./format";
import { on_range } from "./range";
import { make_frame, make_table, why_empty, type Section } from "./section";
import { band, bucket_name, finding_marks, line, step_option, step_tooltip, thin_rows } from "./step_chart";
import type { Palette } from "./theme";

interface MetricView {
  id: string;
  title: string;
  meaning: string;
  missing: string;
}

const kMetrics: MetricView[] = [
  {
    id: "loss_std",
    title: "Loss dispersion",
    meaning: "std of losses",
    missing: "No loss dispersion: it needs the losses of two workers.",
  },
  {
    id: "norm_cv",
    title: "Gradient-norm dispersion",
    meaning: "std of norms / mean",
    missing: "No norm dispersion: it needs the gradients of two workers.",
  },
  {
    id: "cosine_mean",
    title: "Gradient-direction consistency",
    meaning: "mean cosine of all pairs",
    missing: "No cosine: it needs sketches of two workers' gradients.",
  },
];

export function metrics_section(): Section {
  const frame = make_frame("metrics", "Three metrics, against healthy workers");
  const views = kMetrics.map((metric) => make_view(metric));
  frame.body.append(el("div", { class: "columns three" }, ...views.map((v) => v.element)));
  let page: PageDocument | null = null;
  on_range(() => page && views.forEach((v) => v.update(page as PageDocument)));
  return {
    id: "metrics",
    title: "Metrics",
    element: frame.element,
    update: (next) => {
      page = next;
      const series = next.series.data;
      if (!series) return frame.show_empty(why_empty(next, next.series.reason, "No steps are stored."));
      if (!kMetrics.some((m) => has_values(series.columns.get(m.id)))) {
        return frame.show_empty("No metric could be computed: each compares at least two workers.");
      }
      frame.show();
      frame.set_lead(
        "Workers on different samples disagree by nature. What counts is whether they disagree more, or less, than the noise of this run explains.",
      );
      views.forEach((v) => v.update(next));
    },
  };
}

const has_values = (sampled: Sampled | undefined): boolean =>
  sampled !== undefined && sampled.value.some((v) => v !== null);

function make_view(metric: MetricView): { element: HTMLElement; update(page: PageDocument): void } {
  let series: Series | null = null;
  const figure: Figure = make_figure("medium", () => (series ? metric_table(series, metric) : el("p", {}, "No data.")));
  const empty = el("p", { class: "empty", hidden: true }, metric.missing);
  return {
    element: el("div", {}, figure.element, empty),
    update: (page) => {
      series = page.series.data;
      const sampled = series?.columns.get(metric.id);
      const there = has_values(sampled);
      figure.element.hidden = !there;
      empty.hidden = there;
      if (!series || !sampled || !there) return;
      const data = series;
      const expected = data.expected.get(metric.id);
      figure.set(
        (p) => metric_option(p, data, metric, sampled, expected, page),
        metric.title,
        `${metric.title}: ${metric.meaning}, over ${data.step.length} points${expected ? ", with its healthy expectation" : ""}.`,
        metric_legend(metric, expected),
      );
      figure.set_note(
        [
          expected
            ? expected.text
            : "No healthy expectation is stored for this metric, so the curve alone proves nothing.",
          expected && data.downsampled
            ? "The blue band holds single steps; some of many leave the healthy band by nature."
            : "",
        ]
          .join(" ")
          .trim(),
      );
    },
  };
}

function metric_legend(metric: MetricView, expected: Expected | undefined): LegendEntry[] {
  const own: LegendEntry = { name: metric.meaning, kind: "line", colour: (p) => p.accent };
  if (!expected) return [own];
  const share = expected.level === null ? "healthy" : `healthy, ${percent(expected.level)}`;
  return [own, { name: share, kind: "band", colour: (p) => p.expected_band }];
}

function metric_option(
  p: Palette,
  series: Series,
  metric: MetricView,
  sampled: Sampled,
  expected: Expected | undefined,
  page: PageDocument,
): Record<string, unknown> {
  const drawn: Record<string, unknown>[] = [];
  if (expected) {
    drawn.push(band(series, expected.low, expected.high, p.expected_band));
    drawn.push(
      line(series, expected.value, p.expected, { lineStyle: { color: p.expected, width: 1.2, type: "dashed" }, z: 2 }),
    );
  }
  if (series.downsampled) drawn.push(band(series, sampled.min, sampled.max, p.band, p.band_strong, 2));
  drawn.push(line(series, sampled.value, p.accent, { markLine: finding_marks(p, page.findings) }));
  return {
    ...step_option(p, series, drawn),
    tooltip: step_tooltip(p, series, (i) => {
      const lines: [string, string][] = [[metric.title, or_none(sampled.value[i])]];
      if (series.downsampled) lines.push(["lowest, highest", `${or_none(sampled.min[i])}, ${or_none(sampled.max[i])}`]);
      if (metric.id === "cosine_mean")
        lines.push(["error (1 sd)", or_none(series.columns.get("cosine_mean_error")?.value[i])]);
      if (expected) lines.push(["healthy", `${or_none(expected.low[i], 3)} to ${or_none(expected.high[i], 3)}`]);
      return lines;
    }),
  };
}

function metric_table(series: Series, metric: MetricView): HTMLElement {
  const sampled = series.columns.get(metric.id);
  const expected = series.expected.get(metric.id);
  const columns = ["steps", metric.meaning, "lowest", "highest", ...(expected ? ["healthy from", "to"] : [])];
  return make_table(
    metric.title,
    columns,
    thin_rows(series.step.length).map((i) => [
      bucket_name(series, i),
      or_none(sampled?.value[i]),
      or_none(sampled?.min[i]),
      or_none(sampled?.max[i]),
      ...(expected ? [or_none(expected.low[i]), or_none(expected.high[i])] : []),
    ]),
  );
}
