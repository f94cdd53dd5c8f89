// The page's data, as docs/page_data.md describes it.
//
// Reading is strict about the version and forgiving about the rest: a field of the wrong type counts as absent, so that
// one odd value never blanks the page. What is absent stays absent (null), never zero.

export const kVersion = 1;

export type Value = number | null;
export type Column = Value[];
export type Scalar = string | number | boolean | null;

export interface Optional<T> {
  data: T | null;
  reason: string; // why data is null, when the writer knew
}

export interface Run {
  name: string;
  world: number;
  steps: number;
  first_step: Value;
  last_step: Value;
  created: string;
  updated: string;
  finished: boolean;
  command: string;
  environment: [string, Scalar][];
  config: [string, Scalar][];
}

export interface Finding {
  cause: string;
  ranks: number[];
  first_step: Value;
  last_step: Value;
  certainty: string;
  confidence: Value;
  parameters: string[];
  evidence: [string, Scalar | Scalar[]][];
  message: string;
  remedy: string;
}

export interface Health {
  enabled: boolean;
  reason: string;
  last_problem: string;
  counts: [string, number][];
}

export interface Sampled {
  value: Column;
  min: Column; // equal to value where every bucket is one step
  max: Column;
}

export interface Expected {
  value: Column;
  low: Column;
  high: Column;
  level: Value;
  text: string;
}

export interface Series {
  steps_total: number;
  step: number[];
  step_last: number[];
  downsampled: boolean;
  columns: Map<string, Sampled>;
  expected: Map<string, Expected>;
}

export interface RankMatrix {
  value: Column[];
  min: Column[];
  max: Column[];
}

export type RankMetric = "loss" | "norm" | "leave_one_out";
export const kRankMetrics: readonly RankMetric[] = ["loss", "norm", "leave_one_out"];

export interface Ranks {
  rank: number[];
  omitted: string;
  step: number[];
  step_last: number[];
  downsampled: boolean;
  metrics: Map<RankMetric, RankMatrix>;
  nonfinite: Column[] | null;
  missing: Column[] | null;
}

export interface Matrix {
  n: number;
  ranks: number[];
  values: Column;
}

export interface Cosine {
  error: Value;
  matrices: (Matrix & { step: number })[];
}

export interface Audit {
  samples_seen: Value;
  samples_distinct: Value;
  dataset_size: Value;
  coverage: Value;
  within_step_duplicates: Value;
  cross_rank_duplicates: Value;
  natural_duplicates: Value;
  approximate: boolean;
  error: Value;
  overlap: Matrix | null;
  series: { step: number[]; distinct_fraction: Column; expected_fraction: Column } | null;
  epochs: { epoch: Value; seen: Value; distinct: Value; coverage: Value }[];
}

export interface Costs {
  step_ns_mean: Value;
  digest_ns_mean: Value;
  other_ns_mean: Value;
  overhead: Value;
  bytes_per_record: Value;
  bytes_sent: Value;
  store_bytes: Value;
  rank: number[];
  rank_step_ns: Column;
  rank_digest_ns: Column;
  rank_other_ns: Column;
}

export interface StudyValue {
  mean: Value;
  low: Value;
  high: Value;
  n: Value;
  seeds: Column;
}

export interface StudySetting {
  name: string;
  text: string;
  runs: string[];
  values: Map<string, StudyValue>;
  curve: { step: number[]; loss_mean: Column; loss_low: Column; loss_high: Column } | null;
}

export interface StudyComparison {
  metric: string;
  from: string;
  to: string;
  expected: string;
  found: string;
  difference: Value;
  low: Value;
  high: Value;
  effect_size: Value;
  p_value: Value;
  text: string;
}

export interface StudyOracle {
  setting: string;
  metric: string;
  expected: Value;
  measured: Value;
  tolerance: Value;
  ok: boolean;
  text: string;
}

export interface StudyReading {
  name: string;
  text: string;
  settings: StudySetting[];
  comparisons: StudyComparison[];
  oracle: StudyOracle[];
}

export interface Study {
  name: string;
  title: string;
  question: string;
  created: string;
  workers: Value;
  steps: Value;
  seeds: Scalar[];
  metrics: { id: string; title: string }[];
  readings: StudyReading[];
  conclusion: string[];
}

export interface LabPlot {
  title: string;
  kind: "line" | "bar" | "scatter";
  x: { title: string; log: boolean };
  y: { title: string; log: boolean };
  series: { name: string; x: Scalar[]; y: Column; low: Column; high: Column }[];
}

export interface Lab {
  id: string;
  title: string;
  text: string[];
  ok: boolean | null;
  tables: { title: string; columns: string[]; rows: Scalar[][] }[];
  plots: LabPlot[];
}

export interface PageDocument {
  generated_at: string;
  generator: string;
  run: Run | null;
  findings: Finding[];
  health: Health | null;
  no_verdict: string;
  channels: string[] | null; // null: the writer did not say
  series: Optional<Series>;
  ranks: Optional<Ranks>;
  cosine: Optional<Cosine>;
  audit: Optional<Audit>;
  costs: Optional<Costs>;
  study: Optional<Study>;
  labs: Lab[];
}

export interface RunListing {
  name: string;
  world: Value;
  steps: Value;
  created: string;
  live: boolean;
  findings_count: Value;
  kind: string;
}
