// The frame of a part of the page: a heading, a line that says what is seen, the content, or why there is none.
import type { PageDocument } from "./document";
import { el, fresh_id, type Child } from "./dom";
import { sentence } from "./format";

export interface Section {
  id: string;
  title: string; // short, for the navigation
  element: HTMLElement;
  update(page: PageDocument): void;
}

export interface Frame {
  element: HTMLElement;
  body: HTMLElement;
  set_lead(...text: Child[]): void;
  show(): void;
  show_empty(why: string): void; // hides the body and says why
}

export function make_frame(id: string, title: string): Frame {
  const heading = el("h2", { id: `${id}-title` }, title);
  const lead = el("p", { class: "lead" });
  const empty = el("p", { class: "empty", hidden: true });
  const body = el("div", { class: "body" });
  const element = el("section", { id, "aria-labelledby": heading.id }, heading, lead, empty, body);
  return {
    element,
    body,
    set_lead: (...text) => lead.replaceChildren(...el("p", {}, ...text).childNodes),
    show: () => {
      empty.hidden = true;
      lead.hidden = false;
      body.hidden = false;
    },
    show_empty: (why) => {
      empty.textContent = sentence(why);
      empty.hidden = false;
      lead.hidden = true;
      body.hidden = true;
    },
  };
}

// Why a section is empty: the writer's reason, else that nothing has run yet, else what the section itself would need.
export function why_empty(page: PageDocument, reason: string, needs: string): string {
  if (reason) return reason;
  return page.run?.steps === 0 ? "Nothing yet: no step has been analysed." : needs;
}

export interface Cell {
  text: string;
  header?: boolean;
  class?: string;
}

// A table that scrolls inside its own box on narrow screens. Columns whose cells are numbers align right by `class`.
export function make_table(
  caption: string,
  columns: string[],
  rows: (string | Cell)[][],
  numeric_from = 1,
): HTMLElement {
  const align = (i: number): string => (i >= numeric_from ? "number" : "");
  const head = el("tr", {}, ...columns.map((c, i) => el("th", { scope: "col", class: align(i) }, c)));
  const body = rows.map((row) =>
    el(
      "tr",
      {},
      ...row.map((cell, i) => {
        const {
          text,
          header,
          class: name,
        } = typeof cell === "string" ? { text: cell, header: i === 0, class: "" } : cell;
        const classes = `${align(i)} ${name ?? ""}`.trim();
        return header ? el("th", { scope: "row", class: classes }, text) : el("td", { class: classes }, text);
      }),
    ),
  );
  const table = el("table", {}, el("caption", {}, caption), el("thead", {}, head), el("tbody", {}, ...body));
  return el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": caption }, table);
}

// A table that is built when it is first opened: the readable form of a chart.
export function table_fold(label: string, build: () => HTMLElement): { element: HTMLDetailsElement; refresh(): void } {
  const holder = el("div");
  const element = el("details", { class: "fold" }, el("summary", {}, label), holder);
  const refresh = (): void => {
    if (element.open) holder.replaceChildren(build());
  };
  element.addEventListener("toggle", refresh);
  return { element, refresh };
}

// Radio buttons that look like one control.
export function choice<T extends string>(
  legend: string,
  options: readonly (readonly [T, string])[],
  chosen: T,
  on_change: (value: T) => void,
): HTMLFieldSetElement {
  const group = fresh_id("choice");
  const labels = options.map(([value, text]) => {
    const input = el("input", { type: "radio", name: group, value, checked: value === chosen });
    input.addEventListener("change", () => on_change(value));
    return el("label", {}, input, el("span", {}, text));
  });
  return el("fieldset", { class: "choice" }, el("legend", {}, legend), ...labels);
}

// Facts as name and value; `hint` explains the value in a small line.
export function facts(list: { name: string; value: string; hint?: string; alarm?: boolean }[]): HTMLElement {
  return el(
    "dl",
    { class: "facts" },
    ...list.map((fact) =>
      el(
        "div",
        { class: fact.alarm ? "alarm" : null },
        el("dt", {}, fact.name),
        el("dd", {}, fact.value),
        fact.hint ? el("dd", { class: "hint" }, fact.hint) : null,
      ),
    ),
  );
}
