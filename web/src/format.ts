// Numbers and times as text. Nothing here asks the locale: a report reads the same everywhere, with "." as the mark,
// thin spaces between thousands and a true minus. Only times follow the reader: they are shown in the reader's zone.
import type { Scalar, Value } from "./document";

export const kThin = "\u2009";
const kMinus = "\u2212";
export const kNone = "\u2013"; // stands for "no verdict"

const group = (digits: string): string => digits.replace(/\B(?=(\d{3})+$)/g, kThin);

export function integer(x: Value): string {
  if (x === null) return kNone;
  if (Math.abs(x) >= 1e15) return number(x);
  return (x < 0 ? kMinus : "") + group(Math.abs(Math.round(x)).toString());
}

// `digits` significant digits, without trailing zeros; powers of ten beyond 1e-4 .. 1e6.
export function number(x: Value, digits = 4): string {
  if (x === null || !Number.isFinite(x)) return kNone;
  if (x === 0) return "0";
  const size = Math.abs(x);
  const sign = x < 0 ? kMinus : "";
  if (size < 1e-4 || size >= 1e6) {
    const [mantissa = "", exponent = ""] = size.toExponential(Math.max(0, digits - 2)).split("e");
    const tidy = mantissa.includes(".") ? mantissa.replace(/\.?0+$/, "") : mantissa;
    return `${sign}${tidy}e${exponent.replace("+", "").replace("-", kMinus)}`;
  }
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  const fixed = size.toFixed(Math.min(decimals, 10));
  const [whole = "", fraction = ""] = fixed.split(".");
  const tail = fraction.replace(/0+$/, "");
  return sign + group(whole) + (tail ? `.${tail}` : "");
}

export function percent(x: Value, digits = 3): string {
  return x === null ? kNone : `${number(100 * x, digits)}${kThin}%`;
}

export function bytes(x: Value): string {
  return scaled(x, ["B", "KiB", "MiB", "GiB", "TiB"], 1024);
}

export function duration_ns(x: Value): string {
  return scaled(x, ["ns", "µs", "ms", "s"], 1000);
}

function scaled(x: Value, units: string[], base: number): string {
  if (x === null) return kNone;
  let size = x;
  let unit = 0;
  while (Math.abs(size) >= base && unit + 1 < units.length) {
    size /= base;
    ++unit;
  }
  return `${number(size, 3)}${kThin}${units[unit]}`;
}

const two = (x: number): string => String(x).padStart(2, "0");

// "2026-01-31 10:15 (UTC+1)" of a UTC time; the text itself when it is no time.
export function time(iso: string): string {
  const date = new Date(iso);
  if (iso === "" || Number.isNaN(date.getTime())) return iso;
  const offset = -date.getTimezoneOffset();
  const hours = Math.floor(Math.abs(offset) / 60);
  const minutes = Math.abs(offset) % 60;
  const zone = offset === 0 ? "UTC" : `UTC${offset < 0 ? kMinus : "+"}${hours}${minutes ? `:${two(minutes)}` : ""}`;
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}`;
  return `${day} ${two(date.getHours())}:${two(date.getMinutes())} (${zone})`;
}

// Ranks as a reader would say them: "rank 3", "ranks 0, 3 and 5", "ranks 0 to 7".
export function ranks(list: readonly number[]): string {
  const sorted = [...list].sort((a, b) => a - b);
  const first = sorted[0];
  const last = sorted[sorted.length - 1];
  if (first === undefined || last === undefined) return "no single rank";
  if (sorted.length === 1) return `rank ${first}`;
  if (sorted.length > 2 && last - first === sorted.length - 1) return `ranks ${first} to ${last}`;
  if (sorted.length > 8) return `${sorted.length} ranks (${sorted.slice(0, 6).join(", ")}, ...)`;
  return `ranks ${sorted.slice(0, -1).join(", ")} and ${last}`;
}

export function step_range(first: Value, last: Value): string {
  if (first === null) return last === null ? "" : `until step ${integer(last)}`;
  if (last === null) return `since step ${integer(first)}`;
  return first === last ? `step ${integer(first)}` : `steps ${integer(first)} to ${integer(last)}`;
}

export function scalar(x: Scalar): string {
  if (x === null) return kNone;
  if (typeof x === "number") return Number.isInteger(x) ? integer(x) : number(x, 5);
  return typeof x === "boolean" ? (x ? "yes" : "no") : x;
}

// "digest_ns_mean" as "digest ns mean".
export const words = (name: string): string => name.replace(/_/g, " ");
export const count = (n: number, noun: string): string => `${integer(n)} ${noun}${n === 1 ? "" : "s"}`;
// A reason as a sentence: capital, full stop.
export function sentence(text: string): string {
  const trimmed = text.trim();
  return capital(trimmed) + (/[.!?]$/.test(trimmed) || trimmed === "" ? "" : ".");
}
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);
