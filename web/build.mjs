// Bundles src/ into one dist/index.html with its script and style inside: the file that the binary embeds and that
// `lockstep report` fills. It needs nothing from the network and states so in its content security policy.
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const root = dirname(fileURLToPath(import.meta.url));
const kDataElement = '<script id="lockstep-data" type="application/json"></script>';
const kLimitBytes = 1_000_000;

async function bundle(entry, format) {
  const result = await build({
    entryPoints: [join(root, "src", entry)],
    bundle: true,
    minify: true,
    write: false,
    format,
    target: ["es2020"],
    legalComments: "none",
    define: { "process.env.NODE_ENV": '"production"' },
    logLevel: "warning",
  });
  return result.outputFiles[0].text;
}

const sha256 = (text) => createHash("sha256").update(text, "utf8").digest("base64");

// "</script" inside the bundle would end its element; "<\/" is the same string to JavaScript.
const script = (await bundle("main.ts", "iife"))
  .replace(/<\/(script)/gi, "<\\/$1")
  .replace(/<!--/g, "<\\!--")
  .trim();
const style = (await bundle("style.css")).trim();
const policy = [
  "default-src 'none'",
  `script-src 'sha256-${sha256(script)}'`,
  "style-src 'unsafe-inline'", // ECharts positions its tooltips by style attributes
  "img-src data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

// ECharts and its parts are Apache-2.0, which asks for the notice to travel with the copy.
const notice =
  "Contains Apache ECharts (Apache License 2.0, http://www.apache.org/licenses/LICENSE-2.0; The Apache Software Foundation) " +
  "and ZRender (BSD 3-Clause; Baidu Inc.).";
const html = readFileSync(join(root, "src", "index.html"), "utf8")
  .replace("<!--NOTICE-->", () => `<!-- ${notice} -->`)
  .replace("<!--POLICY-->", () => `<meta http-equiv="Content-Security-Policy" content="${policy}">`)
  .replace("<!--STYLE-->", () => `<style>${style}</style>`)
  .replace("<!--DATA-->", () => kDataElement)
  .replace("<!--SCRIPT-->", () => `<script>${script}</script>`);

const bytes = Buffer.byteLength(html, "utf8");
if (html.split(kDataElement).length !== 2) throw new Error("the page must hold its data element exactly once");
if (bytes > kLimitBytes) throw new Error(`the page has ${bytes} bytes; its limit is ${kLimitBytes}`);
mkdirSync(join(root, "dist"), { recursive: true });
writeFileSync(join(root, "dist", "index.html"), html);
console.log(`dist/index.html: ${bytes} bytes`);
