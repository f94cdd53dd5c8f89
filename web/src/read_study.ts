// The part of the document that `lockstep study --json` writes.
import type { Study, StudyReading, StudySetting, StudyValue } from "./document";
import type { Json } from "./read_document";
import {
  column_of,
  is_object,
  list_of,
  number_of,
  numbers_of,
  objects_of,
  scalar_of,
  text_of,
  texts_of,
} from "./read_document";

function read_setting(x: Json): StudySetting {
  const values = new Map<string, StudyValue>();
  for (const [id, v] of Object.entries(is_object(x["values"]) ? x["values"] : {})) {
    if (!is_object(v)) continue;
    values.set(id, {
      mean: number_of(v["mean"]),
      low: number_of(v["low"]),
      high: number_of(v["high"]),
      n: number_of(v["n"]),
      seeds: column_of(v["seeds"]),
    });
  }
  const curve = is_object(x["curve"]) ? x["curve"] : null;
  return {
    name: text_of(x["name"]),
    text: text_of(x["text"]),
    runs: texts_of(x["runs"]),
    values,
    curve: curve && {
      step: numbers_of(curve["step"]),
      loss_mean: column_of(curve["loss_mean"]),
      loss_low: column_of(curve["loss_low"]),
      loss_high: column_of(curve["loss_high"]),
    },
  };
}

function read_reading(x: Json): StudyReading {
  return {
    name: text_of(x["name"]),
    text: text_of(x["text"]),
    settings: objects_of(x["settings"]).map(read_setting),
    comparisons: objects_of(x["comparisons"]).map((c) => ({
      metric: text_of(c["metric"]),
      from: text_of(c["from"]),
      to: text_of(c["to"]),
      expected: text_of(c["expected"]),
      found: text_of(c["found"]),
      difference: number_of(c["difference"]),
      low: number_of(c["low"]),
      high: number_of(c["high"]),
      effect_size: number_of(c["effect_size"]),
      p_value: number_of(c["p_value"]),
      text: text_of(c["text"]),
    })),
    oracle: objects_of(x["oracle"]).map((o) => ({
      setting: text_of(o["setting"]),
      metric: text_of(o["metric"]),
      expected: number_of(o["expected"]),
      measured: number_of(o["measured"]),
      tolerance: number_of(o["tolerance"]),
      ok: o["ok"] === true,
      text: text_of(o["text"]),
    })),
  };
}

export function read_study(x: Json): Study | null {
  const readings = objects_of(x["readings"]).map(read_reading);
  if (readings.length === 0) return null;
  return {
    name: text_of(x["name"]),
    title: text_of(x["title"]),
    question: text_of(x["question"]),
    created: text_of(x["created"]),
    workers: number_of(x["workers"]),
    steps: number_of(x["steps"]),
    seeds: list_of(x["seeds"]).map(scalar_of),
    metrics: objects_of(x["metrics"]).map((m) => ({ id: text_of(m["id"]), title: text_of(m["title"]) })),
    readings,
    conclusion: texts_of(x["conclusion"]),
  };
}
