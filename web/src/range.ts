// The range of steps that the reader looks at. All charts over steps share it; null means the whole run.

export interface StepRange {
  first: number;
  last: number;
}

let current: StepRange | null = null;
const listeners = new Set<() => void>();

export const step_window = (): StepRange | null => current;
export const on_range = (listener: () => void): void => void listeners.add(listener);

let pending = false;
function tell(): void {
  pending = false;
  for (const listener of listeners) listener();
}

export function set_range(range: StepRange | null): void {
  const same = range?.first === current?.first && range?.last === current?.last;
  if (same) return;
  current = range;
  if (!pending) requestAnimationFrame(tell); // a drag sets many ranges per frame; the last one counts
  pending = true;
}
