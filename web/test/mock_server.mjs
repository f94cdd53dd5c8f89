// A stand-in for `lockstep serve`: the four addresses of docs/page_data.md, with documents that a test can change.
import { createServer } from "node:http";
import { built_page } from "./browser.mjs";

export async function start_mock_server(documents) {
  const runs = new Map(Object.entries(documents)); // name -> JSON text
  const streams = new Set();
  const requests = [];
  let failure = null; // {status, body}: what every API request gets
  const listing = () =>
    [...runs].map(([name, json]) => {
      const d = JSON.parse(json);
      return {
        name,
        world: d.run?.world ?? null,
        steps: d.run?.steps ?? null,
        created: d.run?.created ?? d.study?.created,
        live: true,
        findings_count: d.findings?.length ?? 0,
        kind: d.study ? "study" : "run",
      };
    });
  const send_json = (response, status, json) => {
    response.writeHead(status, { "Content-Type": "application/json; charset=utf-8", "Cache-Control": "no-store" });
    response.end(typeof json === "string" ? json : JSON.stringify(json));
  };
  const server = createServer((request, response) => {
    const url = new URL(request.url, "http://localhost");
    requests.push(`${request.method} ${url.pathname}${url.search}`);
    if (url.pathname === "/") {
      response.writeHead(200, { "Content-Type": "text/html; charset=utf-8" });
      return response.end(built_page());
    }
    if (failure && url.pathname !== "/api/events") return send_json(response, failure.status, failure.body);
    if (url.pathname === "/api/runs") return send_json(response, 200, { version: 1, runs: listing() });
    if (url.pathname === "/api/run") {
      const json = runs.get(url.searchParams.get("name"));
      if (json) return send_json(response, 200, json);
      return send_json(response, 404, { version: 1, error: { code: "unavailable", message: "no such run" } });
    }
    if (url.pathname === "/api/events") {
      response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
      response.write(": alive\n\n");
      streams.add(response);
      return request.on("close", () => streams.delete(response));
    }
    return send_json(response, 404, { version: 1, error: { code: "unavailable", message: "no such address" } });
  });
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return {
    url: `http://127.0.0.1:${server.address().port}/`,
    requests,
    streams,
    set: (name, json) => runs.set(name, json),
    remove: (name) => runs.delete(name),
    fail: (next) => (failure = next),
    announce: (run) => {
      const d = JSON.parse(runs.get(run) ?? "{}");
      const data = { version: 1, run, steps: d.run?.steps ?? 0, findings_count: d.findings?.length ?? 0 };
      for (const s of streams) s.write(`event: update\ndata: ${JSON.stringify(data)}\n\n`);
    },
    cut: () => streams.forEach((s) => s.destroy()),
    stop: () =>
      new Promise((done) => {
        streams.forEach((s) => s.destroy());
        server.closeAllConnections();
        server.close(done);
      }),
  };
}
