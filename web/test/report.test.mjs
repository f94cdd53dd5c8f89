// The report: the built page with a document inside, opened from disk.
import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { embed, fixture, fixture_names } from "../fixtures/make_fixture.mjs";
import {
  built_page,
  kPhone,
  kSmallPhone,
  new_page,
  report_folder,
  start_browser,
  until,
  walk_through,
} from "./browser.mjs";

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
const clean = ({ problems }) => assert.deepEqual(problems, []);

test("every fixture draws without an error and asks for nothing but itself", async () => {
  for (const name of fixture_names) {
    const opened = await open(name);
    await walk_through(opened.page);
    clean(opened);
    assert.equal(opened.requests.filter((url) => !url.startsWith("file:") && !url.startsWith("data:")).length, 0, name);
    await opened.context.close();
  }
});

test("page and report stay within their size", () => {
  assert.ok(Buffer.byteLength(built_page()) < 1_000_000);
  for (const name of fixture_names) assert.ok(Buffer.byteLength(embed(built_page(), fixture(name))) < 2_000_000, name);
});

test("the verdict in words is the first thing", async () => {
  const expected = {
    healthy: "No findings in 8 workers × 400 steps.",
    findings: "Rank 3 reads the same batches as rank 0 since step 12.",
    empty: "No verdict yet: no step has been analysed.",
    one_worker: "No verdict: one worker has no other to be compared with.",
    disabled: "The monitor stopped: cannot write the run store: no space left on device.",
    study: "S1: seeds of the sampler",
  };
  for (const [name, words] of Object.entries(expected)) {
    const opened = await open(name);
    assert.equal(await text(opened.page, "main h1"), words);
    assert.equal(await opened.page.evaluate(() => document.querySelector("main section:not([hidden])").id), "verdict");
    await opened.context.close();
  }
});

test("a finding's card gives cause, ranks, steps, certainty, evidence and remedy", async () => {
  const opened = await open("findings");
  const card = opened.page.locator(".card").nth(1);
  const words = await card.innerText();
  for (const part of [
    "scale.rank_mismatch",
    "Rank 5",
    "Steps 180 to 399",
    "Statistical (99.98",
    "1.98",
    "1.91, 2.05",
    "accumulation count",
  ]) {
    assert.ok(words.includes(part), `${part} in ${words}`);
  }
  assert.ok((await opened.page.locator(".card").nth(2).innerText()).includes("model.layers.11.mlp.down_proj.weight"));
  await opened.context.close();
});

test("the loss section says what the average hid, also when one step of 100,000 did it", async () => {
  const opened = await open("long");
  assert.match(
    await text(opened.page, "#loss .lead"),
    /^Steps 61.200 to 61.299: the average says .* to 5\.\d+ \(rank 2\)\.$/,
  );
  await opened.context.close();
});

test("empty sections say why", async () => {
  const opened = await open("disabled");
  assert.match(await text(opened.page, "#data .empty"), /No batch fingerprints were given/);
  assert.match(await text(opened.page, "#cosine .empty"), /Sketches were switched off/);
  const empty = await open("empty");
  for (const id of ["findings", "loss", "metrics", "workers", "cosine", "data", "noise"]) {
    assert.ok((await text(empty.page, `#${id} > .empty`)).length > 10, id);
  }
  await opened.context.close();
  await empty.context.close();
});

test("no string of a run becomes markup, and odd values blank nothing", async () => {
  const opened = await open("hostile");
  await walk_through(opened.page);
  await opened.page.locator(".row-names button").first().click();
  for (const fold of await opened.page.locator("details:visible summary").all()) await fold.click();
  await opened.page.locator("#loss .chart canvas").hover();
  await opened.page.locator("#labs .chart canvas").hover();
  await opened.page.waitForTimeout(100);
  assert.equal(await opened.page.evaluate(() => window.__hacked), undefined);
  assert.equal(await opened.page.locator("#page img, #page script").count(), 0);
  assert.match(await text(opened.page, "h1"), /^<img src=x onerror=/);
  clean(opened);
  await opened.context.close();
});

test("the content security policy stops scripts that are not the page's own", async () => {
  const opened = await open("healthy");
  await opened.page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.__hacked = 1";
    document.body.append(script);
  });
  assert.equal(await opened.page.evaluate(() => window.__hacked), undefined);
  assert.ok(opened.problems.some((p) => p.includes("Content Security Policy")));
  await opened.context.close();
});

test("data of another version, or cut off, is refused in words", async () => {
  for (const [name, json, words] of [
    ["newer", '{"version": 2}', /version 2; this page reads version 1/],
    ["cut", fixture("healthy").slice(0, 5000), /not valid JSON/],
    ["list", "[]", /not a JSON object/],
    ["none", "", /carries no data/],
  ]) {
    const opened = await new_page(browser);
    await opened.page.goto(reports.report(name, json));
    assert.match(await text(opened.page, ".error"), words);
    clean(opened);
    await opened.context.close();
  }
});

test("a document of odd types shows what it can", async () => {
  const json = JSON.stringify({
    version: 1,
    run: { name: 5, world: "8", steps: 3 },
    findings: [{}, 7, null],
    health: [],
    series: { step: [0, 1], columns: { loss_mean: { value: [1] } } },
    ranks: { rank: [0], step: [] },
    cosine: { matrices: [{ n: 3, values: [1] }] },
    audit: 5,
    costs: {},
    study: {},
    labs: [{}],
  });
  const opened = await new_page(browser);
  await opened.page.goto(reports.report("odd", json));
  await walk_through(opened.page);
  assert.equal(await opened.page.locator(".card").count(), 1);
  clean(opened);
  await opened.context.close();
});

for (const [label, viewport] of [
  ["390", kPhone],
  ["360", kSmallPhone],
]) {
  test(`no sideways scrolling on a phone of ${label} pixels`, async () => {
    for (const name of fixture_names) {
      const opened = await open(name, { viewport, isMobile: true, hasTouch: true });
      await walk_through(opened.page);
      const width = await opened.page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= viewport.width, `${name}: ${width} > ${viewport.width}`);
      clean(opened);
      await opened.context.close();
    }
  });
}

test("dark follows the system, the button overrides it, and charts follow both", async () => {
  const opened = await open("healthy", { colorScheme: "dark" });
  const { page } = opened;
  const paper = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const corner = () => page.evaluate(() => document.querySelector("#loss .chart canvas").toDataURL().length);
  assert.equal(await paper(), "rgb(20, 21, 24)");
  const dark_chart = await corner();
  await page.getByRole("button", { name: "Switch to light colours" }).click();
  assert.equal(await paper(), "rgb(252, 251, 248)");
  await until(page, async () => (await corner()) !== dark_chart);
  await page.reload();
  assert.equal(await paper(), "rgb(252, 251, 248)");
  clean(opened);
  await opened.context.close();
});

test("times are in the reader's zone and numbers ignore the locale", async () => {
  const opened = await open("healthy", { timezoneId: "America/St_Johns", locale: "de-DE" });
  assert.match(await text(opened.page, ".meta"), /began 2026-01-31 05:45 \(UTC−3:30\)/);
  assert.equal(await text(opened.page, "#data .facts dd"), "25\u2009600");
  assert.match(await text(opened.page, "#loss .lead"), /the average says \d\.\d+/);
  await opened.context.close();
});
