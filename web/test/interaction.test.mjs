// What a reader does with the report: by mouse, by keyboard, and through what a screen reader is told.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { box_of, new_page, report_folder, start_browser, until, walk_through } from "./browser.mjs";

let browser, reports;
before(async () => {
  browser = await start_browser();
  reports = report_folder();
});
after(async () => {
  reports?.remove();
  await browser?.close();
});

async function open(name, options = {}) {
  const opened = await new_page(browser, options);
  await opened.page.goto(reports.report(name));
  await opened.page.waitForSelector("#verdict:not([hidden])");
  return opened;
}
const text = (page, selector) => page.locator(selector).first().innerText();
const picture = (page, selector) => page.evaluate((s) => document.querySelector(s).toDataURL(), selector);

async function finish(opened) {
  assert.deepEqual(opened.problems, []);
  await opened.context.close();
}

test("a click on a cell opens that rank's curves against the others", async () => {
  const opened = await open("findings");
  const { page } = opened;
  const box = await box_of(page, "#workers canvas");
  await page.mouse.click(box.x + box.width * 0.7, box.y + (box.height * 5.5) / 8);
  assert.equal(await text(page, ".panel h3"), "Rank 5 against the others");
  assert.match(await text(page, ".panel .note"), /One rank off in scale, steps 180 to 399/);
  assert.equal(await page.locator(".panel .chart canvas").count(), 3);
  await page.getByRole("button", { name: "Close" }).click();
  assert.equal(await page.locator(".panel").isVisible(), false);
  await finish(opened);
});

test("the map is walked by arrow keys, Enter opens, Escape returns", async () => {
  const opened = await open("findings");
  const { page } = opened;
  await page.locator("#workers .heat").focus();
  for (const key of ["ArrowDown", "ArrowDown", "ArrowDown", "ArrowDown", "End"]) await page.keyboard.press(key);
  assert.match(await text(page, "#workers .reading"), /^Rank 3, steps \d+ to 399: loss /);
  await page.keyboard.press("Enter");
  assert.equal(await page.evaluate(() => document.activeElement.id), "rank-panel-title");
  assert.equal(await text(page, ".panel h3"), "Rank 3 against the others");
  await page.keyboard.press("Escape");
  assert.equal(await page.locator(".panel").isVisible(), false);
  assert.ok(await page.evaluate(() => document.activeElement.classList.contains("heat")));
  await finish(opened);
});

test("metric, colour and grain change the map", async () => {
  const opened = await open("findings");
  const { page } = opened;
  const seen = new Set([await picture(page, "#workers canvas")]);
  for (const name of ["Gradient norm", "Cosine to others", "value", "finest"]) {
    await page.locator("#workers .choice label", { hasText: name }).click();
    seen.add(await picture(page, "#workers canvas"));
  }
  assert.equal(seen.size, 5);
  assert.match(await text(page, "#workers .scale"), /^Cosine to others/);
  await finish(opened);
});

test("the map tells a value that is not finite from one that is missing", async () => {
  const opened = await open("findings");
  const { page } = opened;
  await page.locator("#workers .choice label", { hasText: "finest" }).click();
  const box = await box_of(page, "#workers canvas");
  await page.mouse.move(box.x + (box.width * 302.5) / 400, box.y + (box.height * 6.5) / 8);
  assert.equal(await text(page, "#workers .reading"), "Rank 6, step 302: not finite in 1 of them");
  await finish(opened);
});

test("the range of steps narrows all charts and the map, and comes back", async () => {
  const opened = await open("findings");
  const { page } = opened;
  await walk_through(page);
  const before_range = [await picture(page, "#metrics canvas"), await picture(page, "#workers canvas")];
  await page.getByLabel("First step shown").fill("150");
  await page.getByLabel("Last step shown").fill("220");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /step 150\s*220/.test(document.querySelector(".map-foot").textContent));
  await until(page, async () => (await picture(page, "#metrics canvas")) !== before_range[0]);
  await page.getByRole("button", { name: "Whole run" }).click();
  await page.waitForFunction(() => /step 0\s*399/.test(document.querySelector(".map-foot").textContent));
  assert.equal(await picture(page, "#workers canvas"), before_range[1]);
  await finish(opened);
});

test("dragging the slider under the loss narrows the page too", async () => {
  const opened = await open("findings");
  const { page } = opened;
  const box = await box_of(page, "#loss .chart");
  const y = box.y + box.height - 16;
  await page.mouse.move(box.x + box.width - 8, y);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2, y, { steps: 6 });
  await page.mouse.up();
  const last = async () => Number(await page.getByLabel("Last step shown").inputValue());
  await until(page, async () => (await last()) > 150 && (await last()) < 250);
  await finish(opened);
});

test("the slider of the cosine matrix moves through the steps", async () => {
  const opened = await open("findings");
  const { page } = opened;
  assert.equal(await text(page, "#cosine .where"), "Step 12");
  assert.match(await text(page, "#cosine .facts"), /Closest pair\s+1\.000\s+ranks 0 and 3/);
  const first = await picture(page, "#cosine canvas");
  await page.getByLabel("Step of the matrix").focus();
  await page.keyboard.press("End");
  assert.equal(await text(page, "#cosine .where"), "Step 399");
  assert.notEqual(await picture(page, "#cosine canvas"), first);
  await page.locator("#cosine .heat").focus();
  for (const key of ["ArrowRight", "ArrowRight"]) await page.keyboard.press(key);
  assert.match(await text(page, "#cosine .reading"), /^Ranks 0 and 1: cosine /);
  await finish(opened);
});

test("every chart has its numbers as a table", async () => {
  for (const name of ["findings", "study"]) {
    const opened = await open(name);
    const folds = await opened.page.locator("main details:visible").all();
    assert.ok(folds.length >= 4, name);
    for (const fold of folds) {
      await fold.locator("summary").click();
      await fold.locator("caption").waitFor();
      assert.ok((await fold.locator("tbody tr").count()) > 1, name);
      assert.equal(await fold.locator("caption").count(), 1);
    }
    await finish(opened);
  }
});

test("hovering a chart reads its values at that step", async () => {
  const opened = await open("findings");
  const { page } = opened;
  const box = await box_of(page, "#loss .chart");
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 3);
  await page.waitForSelector("#loss .tip");
  assert.match(await text(page, "#loss .tip"), /^Step \d+\s+average\s+\d\.\d+/);
  await finish(opened);
});

test("landmarks, one h1, ordered headings, and names for every control and drawing", async () => {
  for (const name of ["findings", "study", "empty"]) {
    const opened = await open(name);
    const { page } = opened;
    for (const landmark of ["header", "nav[aria-label]", "main", "footer"])
      assert.equal(await page.locator(landmark).count(), 1);
    assert.equal(await page.locator("h1").count(), 1);
    const faults = await page.evaluate(() => {
      const out = [];
      const visible = (e) => e.getClientRects().length > 0;
      let level = 1;
      for (const h of document.querySelectorAll("h1, h2, h3, h4")) {
        if (!visible(h)) continue;
        const next = Number(h.tagName[1]);
        if (next > level + 1) out.push(`heading jumps to ${next}: ${h.textContent}`);
        level = next;
      }
      for (const c of document.querySelectorAll(
        "button, select, input, [role=img], [role=application], [role=group]",
      )) {
        const named =
          c.getAttribute("aria-label") ||
          c.getAttribute("aria-labelledby") ||
          c.textContent.trim() ||
          c.closest("label");
        if (visible(c) && !named) out.push(`no name: ${c.outerHTML.slice(0, 80)}`);
      }
      for (const s of document.querySelectorAll("section")) {
        if (!document.getElementById(s.getAttribute("aria-labelledby"))) out.push(`section ${s.id} has no label`);
      }
      const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
      if (new Set(ids).size !== ids.length) out.push("an id occurs twice");
      return out;
    });
    assert.deepEqual(faults, [], name);
    await finish(opened);
  }
});

test("the keyboard reaches everything, in order, and shows where it is", async () => {
  const opened = await open("findings");
  const { page } = opened;
  const stops = [];
  for (let i = 0; i < 80; ++i) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate(() => {
      const e = document.activeElement;
      if (!e || e === document.body) return null;
      const target = e.matches(".choice input") ? e.nextElementSibling : e;
      return {
        section: e.closest("section")?.id ?? "",
        what: e.className || e.tagName,
        outline: getComputedStyle(target).outlineStyle,
      };
    });
    if (!stop) break;
    stops.push(stop);
  }
  for (const id of ["loss", "metrics", "workers", "cosine", "data", "noise", "costs", "about"]) {
    assert.ok(
      stops.some((s) => s.section === id),
      `${id} is not reached`,
    );
  }
  assert.equal(stops[0].what, "skip");
  assert.deepEqual(
    stops.filter((s) => s.outline === "none"),
    [],
  );
  await finish(opened);
});

test("text has enough contrast in both themes", async () => {
  for (const colorScheme of ["light", "dark"]) {
    const opened = await open("findings", { colorScheme });
    const low = await opened.page.evaluate(() => {
      const style = getComputedStyle(document.documentElement);
      const rgb = (name) =>
        style
          .getPropertyValue(name)
          .trim()
          .match(/[0-9a-f]{2}/gi)
          .map((h) => parseInt(h, 16) / 255);
      const luminance = (name) =>
        rgb(name)
          .map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
          .reduce((s, v, i) => s + v * [0.2126, 0.7152, 0.0722][i], 0);
      const ratio = (a, b) =>
        (Math.max(luminance(a), luminance(b)) + 0.05) / (Math.min(luminance(a), luminance(b)) + 0.05);
      const out = [];
      for (const ink of ["--text", "--muted", "--accent", "--alarm", "--clean"]) {
        for (const ground of ["--paper", "--panel"])
          if (ratio(ink, ground) < 4.5) out.push(`${ink} on ${ground}: ${ratio(ink, ground)}`);
      }
      for (const s of [1, 2, 3, 4, 5, 6, 7]) if (ratio(`--series-${s}`, "--paper") < 3) out.push(`--series-${s}`);
      return out;
    });
    assert.deepEqual(low, [], colorScheme);
    await opened.context.close();
  }
});

test("the study shows both readings, intervals, comparisons and conclusion", async () => {
  const opened = await open("study");
  const words = await text(opened.page, "#study");
  for (const part of [
    "Sharded reading",
    "Replicated reading",
    "What was found",
    "unlike expected",
    "as expected",
    "0.75 + 0.25 c",
    "S1-1\u00a0→\u00a0S1-3",
    "effect size",
  ]) {
    assert.ok(words.includes(part), part);
  }
  assert.equal(await opened.page.locator("#study .intervals").count(), 18);
  assert.equal(await opened.page.locator("#study .interval").count(), 18 * 3);
  await finish(opened);
});
