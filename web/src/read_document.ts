// Turns JSON text into a PageDocument. Refuses only what cannot be read at all: text that is no JSON, another version.
import type {
  Audit,
  Column,
  Cosine,
  Costs,
  Expected,
  Finding,
  Health,
  Lab,
  Matrix,
  Optional,
  PageDocument,
  Ranks,
  Run,
  RunListing,
  RankMatrix,
  RankMetric,
  Sampled,
  Scalar,
  Series,
  Value,
} from "./document";
import { kRankMetrics, kVersion } from "./document";
import { read_study } from "./read_study";

export type Json = Record<string, unknown>;

export const is_object = (x: unknown): x is Json => typeof x === "object" && x !== null && !Array.isArray(x);
export const number_of = (x: unknown): Value => (typeof x === "number" && Number.isFinite(x) ? x : null);
export const count_of = (x: unknown): number => number_of(x) ?? 0;
export const text_of = (x: unknown): string => (typeof x === "string" ? x : "");
export const list_of = (x: unknown): unknown[] => (Array.isArray(x) ? x : []);
export const objects_of = (x: unknown): Json[] => list_of(x).filter(is_object);
export const texts_of = (x: unknown): string[] => list_of(x).filter((t): t is string => typeof t === "string");
export const column_of = (x: unknown): Column => list_of(x).map(number_of);
export const numbers_of = (x: unknown): number[] => column_of(x).filter((v): v is number => v !== null);
export const scalar_of = (x: unknown): Scalar =>
  typeof x === "string" || typeof x === "boolean" || x === null ? x : number_of(x);

function parse_json(text: string): Json {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch {
    throw new Error("The data of this page is not valid JSON; it was probably cut off. Write the report again.");
  }
  if (!is_object(json)) throw new Error("The data of this page is not a JSON object. Write the report again.");
  if (json["version"] !== kVersion) {
    throw new Error(
      `The data of this page has version ${JSON.stringify(json["version"] ?? null)}; this page reads version ` +
        `${kVersion}. Use the page and the data of one lockstep version.`,
    );
  }
  return json;
}

// A section is absent, {"reason"}, or data that `read` accepts (null: it holds nothing to show).
export function optional<T>(x: unknown, read: (json: Json) => T | null): Optional<T> {
  if (!is_object(x)) return { data: null, reason: "" };
  return { data: read(x), reason: text_of(x["reason"]) };
}

function scalars(x: unknown): [string, Scalar][] {
  return is_object(x) ? Object.entries(x).map(([name, value]) => [name, scalar_of(value)]) : [];
}

function read_run(x: unknown): Run | null {
  if (!is_object(x)) return null;
  return {
    name: text_of(x["name"]),
    world: count_of(x["world"]),
    steps: count_of(x["steps"]),
    first_step: number_of(x["first_step"]),
    last_step: number_of(x["last_step"]),
    created: text_of(x["created"]),
    updated: text_of(x["updated"]),
    finished: x["finished"] !== false,
    command: text_of(x["command"]),
    environment: scalars(x["environment"]),
    config: scalars(x["config"]),
  };
}

function read_finding(x: Json): Finding {
  const evidence = is_object(x["evidence"]) ? Object.entries(x["evidence"]) : [];
  return {
    cause: text_of(x["cause"]),
    ranks: numbers_of(x["ranks"]),
    first_step: number_of(x["first_step"]),
    last_step: number_of(x["last_step"]),
    certainty: text_of(x["certainty"]),
    confidence: number_of(x["confidence"]),
    parameters: texts_of(x["parameters"]),
    evidence: evidence.map(([name, value]) => [name, Array.isArray(value) ? value.map(scalar_of) : scalar_of(value)]),
    message: text_of(x["message"]),
    remedy: text_of(x["remedy"]),
  };
}

function read_health(x: unknown): Health | null {
  if (!is_object(x)) return null;
  const counts: [string, number][] = [];
  for (const [name, value] of Object.entries(x)) if (typeof value === "number") counts.push([name, value]);
  return {
    enabled: x["enabled"] !== false,
    reason: text_of(x["reason"]),
    last_problem: text_of(x["last_problem"]),
    counts,
  };
}

// A column must have the length of its steps; one that has not cannot be placed and counts as absent.
function column_of_length(x: unknown, length: number): Column | null {
  const column = column_of(x);
  return column.length === length && length > 0 ? column : null;
}

function read_sampled(x: unknown, length: number): Sampled | null {
  if (!is_object(x)) return null;
  const value = column_of_length(x["value"], length);
  if (!value) return null;
  return { value, min: column_of_length(x["min"], length) ?? value, max: column_of_length(x["max"], length) ?? value };
}

function read_expected(x: unknown, length: number): Expected | null {
  if (!is_object(x)) return null;
  const value = column_of_length(x["value"], length);
  const low = column_of_length(x["low"], length);
  const high = column_of_length(x["high"], length);
  if (!value || !low || !high) return null;
  return { value, low, high, level: number_of(x["level"]), text: text_of(x["text"]) };
}

function read_series(x: Json): Series | null {
  const step = numbers_of(x["step"]);
  if (step.length === 0) return null;
  const step_last = numbers_of(x["step_last"]);
  const downsampled = step_last.length === step.length;
  const columns = new Map<string, Sampled>();
  const expected = new Map<string, Expected>();
  for (const [name, value] of Object.entries(is_object(x["columns"]) ? x["columns"] : {})) {
    const sampled = read_sampled(value, step.length);
    if (sampled) columns.set(name, sampled);
  }
  for (const [name, value] of Object.entries(is_object(x["expected"]) ? x["expected"] : {})) {
    const band = read_expected(value, step.length);
    if (band) expected.set(name, band);
  }
  const last = downsampled ? step_last : step;
  return {
    steps_total: number_of(x["steps_total"]) ?? step.length,
    step,
    step_last: last,
    downsampled,
    columns,
    expected,
  };
}

function grid_of(x: unknown, rows: number, columns: number): Column[] | null {
  const grid = list_of(x).map((row) => column_of_length(row, columns));
  return grid.length === rows && grid.every((row) => row !== null) ? (grid as Column[]) : null;
}

function read_ranks(x: Json): Ranks | null {
  const rank = numbers_of(x["rank"]);
  const step = numbers_of(x["step"]);
  if (rank.length === 0 || step.length === 0) return null;
  const metrics = new Map<RankMetric, RankMatrix>();
  for (const name of kRankMetrics) {
    const json = x[name];
    if (!is_object(json)) continue;
    const value = grid_of(json["value"], rank.length, step.length);
    if (!value) continue;
    const min = grid_of(json["min"], rank.length, step.length) ?? value;
    metrics.set(name, { value, min, max: grid_of(json["max"], rank.length, step.length) ?? value });
  }
  if (metrics.size === 0) return null;
  const step_last = numbers_of(x["step_last"]);
  const downsampled = step_last.length === step.length;
  return {
    rank,
    omitted: text_of(x["omitted"]),
    step,
    step_last: downsampled ? step_last : step,
    downsampled,
    metrics,
    nonfinite: grid_of(x["nonfinite"], rank.length, step.length),
    missing: grid_of(x["missing"], rank.length, step.length),
  };
}

function read_matrix(x: unknown): Matrix | null {
  if (!is_object(x)) return null;
  const n = count_of(x["n"]);
  const values = column_of(x["values"]);
  if (n < 2 || values.length !== n * n) return null;
  const ranks = numbers_of(x["ranks"]);
  return { n, values, ranks: ranks.length === n ? ranks : Array.from({ length: n }, (_, i) => i) };
}

function read_cosine(x: Json): Cosine | null {
  const matrices: Cosine["matrices"] = [];
  for (const json of objects_of(x["matrices"])) {
    const matrix = read_matrix(json);
    const step = number_of(json["step"]);
    if (matrix && step !== null) matrices.push({ ...matrix, step });
  }
  return matrices.length > 0 ? { error: number_of(x["error"]), matrices } : null;
}

function read_audit(x: Json): Audit | null {
  if (number_of(x["samples_seen"]) === null) return null;
  const series = is_object(x["series"]) ? x["series"] : {};
  const step = numbers_of(series["step"]);
  const distinct = column_of_length(series["distinct_fraction"], step.length);
  return {
    samples_seen: number_of(x["samples_seen"]),
    samples_distinct: number_of(x["samples_distinct"]),
    dataset_size: number_of(x["dataset_size"]),
    coverage: number_of(x["coverage"]),
    within_step_duplicates: number_of(x["within_step_duplicates"]),
    cross_rank_duplicates: number_of(x["cross_rank_duplicates"]),
    natural_duplicates: number_of(x["natural_duplicates"]),
    approximate: x["approximate"] === true,
    error: number_of(x["error"]),
    overlap: read_matrix(x["overlap"]),
    series: distinct && {
      step,
      distinct_fraction: distinct,
      expected_fraction: column_of_length(series["expected_fraction"], step.length) ?? step.map(() => null),
    },
    epochs: objects_of(x["epochs"]).map((e) => ({
      epoch: number_of(e["epoch"]),
      seen: number_of(e["seen"]),
      distinct: number_of(e["distinct"]),
      coverage: number_of(e["coverage"]),
    })),
  };
}

function read_costs(x: Json): Costs | null {
  const costs: Costs = {
    step_ns_mean: number_of(x["step_ns_mean"]),
    digest_ns_mean: number_of(x["digest_ns_mean"]),
    other_ns_mean: number_of(x["other_ns_mean"]),
    overhead: number_of(x["overhead"]),
    bytes_per_record: number_of(x["bytes_per_record"]),
    bytes_sent: number_of(x["bytes_sent"]),
    store_bytes: number_of(x["store_bytes"]),
    rank: numbers_of(x["rank"]),
    rank_step_ns: column_of(x["rank_step_ns"]),
    rank_digest_ns: column_of(x["rank_digest_ns"]),
    rank_other_ns: column_of(x["rank_other_ns"]),
  };
  return Object.values(costs).some((v) => typeof v === "number") || costs.rank.length > 0 ? costs : null;
}

function read_lab(x: Json): Lab {
  const axis = (a: unknown) => ({
    title: is_object(a) ? text_of(a["title"]) : "",
    log: is_object(a) && a["log"] === true,
  });
  return {
    id: text_of(x["id"]),
    title: text_of(x["title"]),
    text: texts_of(x["text"]),
    ok: typeof x["ok"] === "boolean" ? x["ok"] : null,
    tables: objects_of(x["tables"]).map((t) => ({
      title: text_of(t["title"]),
      columns: texts_of(t["columns"]),
      rows: list_of(t["rows"]).map((row) => list_of(row).map(scalar_of)),
    })),
    plots: objects_of(x["plots"]).map((p) => ({
      title: text_of(p["title"]),
      kind: p["kind"] === "bar" || p["kind"] === "scatter" ? p["kind"] : "line",
      x: axis(p["x"]),
      y: axis(p["y"]),
      series: objects_of(p["series"]).map((s) => ({
        name: text_of(s["name"]),
        x: list_of(s["x"]).map(scalar_of),
        y: column_of(s["y"]),
        low: column_of(s["low"]),
        high: column_of(s["high"]),
      })),
    })),
  };
}

export function read_document(text: string): PageDocument {
  const json = parse_json(text);
  return {
    generated_at: text_of(json["generated_at"]),
    generator: text_of(json["generator"]),
    run: read_run(json["run"]),
    findings: objects_of(json["findings"]).map(read_finding),
    health: read_health(json["health"]),
    no_verdict: text_of(json["no_verdict"]),
    channels: Array.isArray(json["channels"]) ? texts_of(json["channels"]) : null,
    series: optional(json["series"], read_series),
    ranks: optional(json["ranks"], read_ranks),
    cosine: optional(json["cosine"], read_cosine),
    audit: optional(json["audit"], read_audit),
    costs: optional(json["costs"], read_costs),
    study: optional(json["study"], read_study),
    labs: objects_of(json["labs"]).map(read_lab),
  };
}

export function read_runs(text: string): RunListing[] {
  return objects_of(parse_json(text)["runs"]).map((r) => ({
    name: text_of(r["name"]),
    world: number_of(r["world"]),
    steps: number_of(r["steps"]),
    created: text_of(r["created"]),
    live: r["live"] === true,
    findings_count: number_of(r["findings_count"]),
    kind: text_of(r["kind"]) || "run",
  }));
}

// The message of an error answer, or "" when the body is something else.
export function read_error(text: string): string {
  try {
    const json: unknown = JSON.parse(text);
    return is_object(json) && is_object(json["error"]) ? text_of(json["error"]["message"]) : "";
  } catch {
    return "";
  }
}
