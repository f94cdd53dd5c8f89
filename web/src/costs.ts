// What the monitor itself cost the training that it watched, and how it fared.
import type { Costs, Health } from "./document";
import { el } from "./dom";
import { bytes, capital, duration_ns, integer, percent, sentence, words } from "./format";
import { facts, make_frame, make_table, table_fold, why_empty, type Section } from "./section";

export function costs_section(): Section {
  const frame = make_frame("costs", "What watching cost");
  const tiles = el("div");
  const health_box = el("div");
  let costs: Costs | null = null;
  const fold = table_fold("Show by worker", () => (costs ? rank_costs(costs) : el("p", {}, "No data.")));
  const no_costs = el("p", { class: "empty" });
  frame.body.append(no_costs, tiles, fold.element, health_box);
  return {
    id: "costs",
    title: "Costs",
    element: frame.element,
    update: (page) => {
      costs = page.costs.data;
      if (!costs && !page.health)
        return frame.show_empty(page.costs.reason || "Neither costs nor health of the monitor are stored.");
      frame.show();
      frame.set_lead(costs ? "Measured inside this run, on the training thread." : "");
      no_costs.hidden = costs !== null;
      no_costs.textContent = sentence(why_empty(page, page.costs.reason, "No costs are stored for this run."));
      tiles.hidden = costs === null;
      if (costs) tiles.replaceChildren(cost_facts(costs));
      fold.element.hidden = !costs || costs.rank.length === 0;
      fold.refresh();
      health_box.replaceChildren(...(page.health ? health_view(page.health) : []));
    },
  };
}

function cost_facts(costs: Costs): HTMLElement {
  const own = (costs.digest_ns_mean ?? 0) + (costs.other_ns_mean ?? 0);
  const share = costs.overhead ?? (costs.step_ns_mean ? own / Math.max(1, costs.step_ns_mean - own) : null);
  return facts(
    [
      { name: "Overhead", value: percent(share), hint: "of a step's time" },
      { name: "A step", value: duration_ns(costs.step_ns_mean), hint: "mean, per worker" },
      { name: "Digest", value: duration_ns(costs.digest_ns_mean), hint: "one read of gradient and state" },
      { name: "Other", value: duration_ns(costs.other_ns_mean), hint: "on the training thread" },
      { name: "A record", value: bytes(costs.bytes_per_record), hint: "one worker, one step" },
      { name: "Sent", value: bytes(costs.bytes_sent), hint: "all workers, whole run" },
      { name: "On disk", value: bytes(costs.store_bytes), hint: "the run store" },
    ].filter((fact) => fact.value !== "\u2013"),
  );
}

function rank_costs(costs: Costs): HTMLElement {
  return make_table(
    "Mean time per step",
    ["rank", "step", "digest", "other"],
    costs.rank.map((rank, i) => [
      `rank ${rank}`,
      duration_ns(costs.rank_step_ns[i] ?? null),
      duration_ns(costs.rank_digest_ns[i] ?? null),
      duration_ns(costs.rank_other_ns[i] ?? null),
    ]),
  );
}

const kTroubles = new Set([
  "drops_queue",
  "drops_late",
  "missing_records",
  "rejected_records",
  "rejected_calls",
  "observer_failures",
]);

function health_view(health: Health): HTMLElement[] {
  const troubles = health.counts.filter(([name, n]) => kTroubles.has(name) && n > 0);
  const state = !health.enabled
    ? `The monitor is off: ${health.reason || "no reason was stored"}.`
    : troubles.length === 0
      ? "The monitor is on and has had no trouble."
      : "The monitor is on, with some trouble:";
  const list = troubles.map(([name, n]) => el("li", {}, `${capital(words(name))}: ${integer(n)}`));
  const out: HTMLElement[] = [
    el("h3", {}, "Health of the monitor"),
    el("p", { class: health.enabled ? "" : "warning" }, state),
  ];
  if (list.length > 0) out.push(el("ul", {}, ...list));
  if (health.last_problem) out.push(el("p", { class: "note" }, `Last problem: ${health.last_problem}`));
  return out;
}
