// The inspector's command line over stdio: inspector.mjs NODE INSPECTOR COMMAND. Lists, and calls every tool.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";

const [node, inspector, command] = process.argv.slice(2);
const calls = JSON.parse(readFileSync(new URL("calls.json", import.meta.url)));

function inspect(...args) {
    const out = execFileSync(node, [inspector, "--cli", command, "mcp", ...args], { encoding: "utf8", stdio: ["ignore", "pipe", "pipe"] });
    return JSON.parse(out);
}

const { tools } = inspect("--method", "tools/list");
const called = new Set();
for (const [name, args] of calls) {
    const pairs = Object.entries(args).map(([key, value]) => `${key}=${typeof value === "string" ? value : JSON.stringify(value)}`);
    const more = pairs.length > 0 ? ["--tool-arg", ...pairs] : [];
    const result = inspect("--method", "tools/call", "--tool-name", name, ...more);
    assert(!result.isError && result.structuredContent, `${name}: ${JSON.stringify(result)}`);
    called.add(name);
}
assert.deepEqual([...called].sort(), tools.map((tool) => tool.name).sort());
assert.equal(inspect("--method", "resources/list").resources.length, 2);
assert.equal(inspect("--method", "prompts/list").prompts.length, 2);
console.log(`  inspector: ${tools.length} tools listed, ${calls.length} calls answered`);
