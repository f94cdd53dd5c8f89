// A grid of coloured cells on a canvas, for the mouse, the finger and the keyboard. It knows rows and columns only; the
// caller says colour and words of a cell. Drawn by hand rather than by ECharts because 20,000 cells must stay smooth and
// every cell must be reachable by arrow keys.
import { el } from "./dom";
import { on_theme } from "./theme";

export interface HeatSpec {
  rows: number;
  columns: number;
  row_height: number; // CSS pixels; 0: square cells
  colour(row: number, column: number): string | null; // null: nothing known, left empty
  text?(row: number, column: number): { text: string; ink: string } | null; // printed in the cell when it fits
  words(row: number, column: number): string; // what the reading line says
  nonfinite?(row: number, column: number): boolean; // a value that is no number: a colour of its own
  label: string; // of the whole map, for screen readers
}

export interface CellAt {
  row: number;
  column: number;
}

export interface HeatCanvas {
  element: HTMLElement;
  draw(spec: HeatSpec): void;
  select(cell: CellAt | null): void;
  focus(): void;
}

export interface HeatOptions {
  hint: string; // what Enter or a click does
  on_open?(cell: CellAt): void;
  max_square?: number;
  foot?: HTMLElement; // under the cells, e.g. the ends of the axis
}

export function make_heat_canvas(options: HeatOptions): HeatCanvas {
  const canvas = el("canvas", { "aria-hidden": "true" });
  const frame = el(
    "div",
    { class: "heat", tabindex: 0, role: "application", "aria-roledescription": "heat map" },
    canvas,
  );
  const reading = el("p", { class: "reading", "aria-live": "polite" }, options.hint);
  let spec: HeatSpec | null = null;
  let cursor: CellAt | null = null;

  const draw = (): void => {
    if (!spec || frame.clientWidth === 0) return;
    paint(canvas, frame, spec, cursor, options.max_square ?? 460);
  };
  const move_to = (cell: CellAt | null): void => {
    cursor = cell;
    reading.textContent = cell && spec ? spec.words(cell.row, cell.column) : options.hint;
    draw();
  };
  const cell_under = (event: MouseEvent): CellAt | null => {
    const box = canvas.getBoundingClientRect();
    if (!spec || box.width === 0) return null;
    const column = Math.floor(((event.clientX - box.left) / box.width) * spec.columns);
    const row = Math.floor(((event.clientY - box.top) / box.height) * spec.rows);
    const inside = row >= 0 && row < spec.rows && column >= 0 && column < spec.columns;
    return inside ? { row, column } : null;
  };

  canvas.addEventListener("pointermove", (event) => {
    const cell = cell_under(event);
    if (cell && spec) reading.textContent = spec.words(cell.row, cell.column);
  });
  canvas.addEventListener("pointerleave", () => move_to(cursor));
  canvas.addEventListener("click", (event) => {
    const cell = cell_under(event);
    if (!cell) return;
    move_to(cell);
    options.on_open?.(cell);
  });
  frame.addEventListener("keydown", (event) => {
    if (!spec) return;
    const next = after_key(event, cursor ?? { row: 0, column: 0 }, spec, cursor === null);
    if (next) {
      event.preventDefault();
      move_to(next);
    } else if ((event.key === "Enter" || event.key === " ") && cursor) {
      event.preventDefault();
      options.on_open?.(cursor);
    }
  });
  new ResizeObserver(draw).observe(frame);
  on_theme(draw);

  return {
    element: el("div", { class: "heat-box" }, frame, options.foot, reading),
    draw: (next) => {
      spec = next;
      if (cursor && (cursor.row >= next.rows || cursor.column >= next.columns)) cursor = null;
      frame.setAttribute("aria-label", `${next.label} Arrow keys move between cells. ${options.hint}`);
      move_to(cursor);
    },
    select: move_to,
    focus: () => frame.focus(),
  };
}

function after_key(event: KeyboardEvent, at: CellAt, spec: HeatSpec, fresh: boolean): CellAt | null {
  const jump = event.shiftKey ? 10 : 1;
  const moves: Record<string, [number, number]> = {
    ArrowLeft: [0, -jump],
    ArrowRight: [0, jump],
    ArrowUp: [-1, 0],
    ArrowDown: [1, 0],
    Home: [0, -spec.columns],
    End: [0, spec.columns],
    PageUp: [-spec.rows, 0],
    PageDown: [spec.rows, 0],
  };
  const move = Object.prototype.hasOwnProperty.call(moves, event.key) ? moves[event.key] : undefined;
  if (!move) return null;
  if (fresh) return at;
  const clamp = (x: number, n: number): number => Math.min(n - 1, Math.max(0, x));
  return { row: clamp(at.row + move[0], spec.rows), column: clamp(at.column + move[1], spec.columns) };
}

function paint(
  canvas: HTMLCanvasElement,
  frame: HTMLElement,
  spec: HeatSpec,
  cursor: CellAt | null,
  max_square: number,
): void {
  const square = spec.row_height === 0;
  const width = square ? Math.min(frame.clientWidth, max_square) : frame.clientWidth;
  const height = square ? (width * spec.rows) / spec.columns : spec.row_height * spec.rows;
  const scale = Math.min(3, window.devicePixelRatio || 1);
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  if (!context) return;
  // Cell edges fall on whole device pixels, or seams would show between cells.
  const x_of = (c: number): number => Math.round((c * canvas.width) / spec.columns);
  const y_of = (r: number): number => Math.round((r * canvas.height) / spec.rows);
  const gap = canvas.height / spec.rows >= 10 * scale ? scale : 0;
  const gap_x = square && gap ? scale : 0;
  const style = getComputedStyle(frame);
  context.font = `${Math.round(11 * scale)}px ${style.fontFamily}`;
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let r = 0; r < spec.rows; ++r) {
    for (let c = 0; c < spec.columns; ++c) {
      const x = x_of(c),
        y = y_of(r);
      const w = Math.max(1, x_of(c + 1) - x - gap_x),
        h = Math.max(1, y_of(r + 1) - y - gap);
      const fill = spec.nonfinite?.(r, c) ? style.getPropertyValue("--nonfinite") : spec.colour(r, c);
      if (fill !== null) {
        context.fillStyle = fill;
        context.fillRect(x, y, w, h);
      }
      const printed = spec.text?.(r, c);
      if (printed && w >= 34 * scale && h >= 16 * scale) {
        context.fillStyle = printed.ink;
        context.fillText(printed.text, x + w / 2, y + h / 2 + scale / 2);
      }
    }
  }
  if (!cursor) return;
  const x = x_of(cursor.column),
    y = y_of(cursor.row);
  const w = x_of(cursor.column + 1) - x,
    h = y_of(cursor.row + 1) - y;
  outline(context, x, y, w, h, scale, style);
}

// Two rings, light and dark, so that the cursor shows on any colour.
function outline(
  context: CanvasRenderingContext2D,
  x: number,
  y: number,
  w: number,
  h: number,
  scale: number,
  style: CSSStyleDeclaration,
): void {
  const pad = Math.max(0, (6 * scale - w) / 2); // a column of one pixel still gets a visible ring
  context.lineWidth = 3 * scale;
  context.strokeStyle = style.getPropertyValue("--paper");
  context.strokeRect(x - pad, y, w + 2 * pad, h);
  context.lineWidth = 1.5 * scale;
  context.strokeStyle = style.getPropertyValue("--text");
  context.strokeRect(x - pad, y, w + 2 * pad, h);
}
