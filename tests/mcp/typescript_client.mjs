// The official TypeScript clients against a server: typescript_client.mjs (stdio COMMAND... | http URL TOKEN)
//
// The first line of the client (`sdk`), and the second (`client`) in both eras. Each lists everything, calls every
// tool of calls.json, holds every structured result against the declared schema with ajv, reads every resource, gets
// every prompt and completes a key.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

// The packages are installed elsewhere, so that the tree stays as it is.
const require = createRequire(join(process.env.MNEMOLOG_NODE_MODULES, "x.js"));
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);

const ajv = (await load("ajv/dist/2020.js")).default;
const Ajv = ajv.default ?? ajv;
const first = {
    ...(await load("@modelcontextprotocol/sdk/client/index.js")),
    ...(await load("@modelcontextprotocol/sdk/client/stdio.js")),
    ...(await load("@modelcontextprotocol/sdk/client/streamableHttp.js")),
};
const second = {
    ...(await load("@modelcontextprotocol/client")),
    ...(await load("@modelcontextprotocol/client/stdio")),
};

const calls = JSON.parse(readFileSync(new URL("calls.json", import.meta.url)));
const template = "memory://{workspace}/{+key}";

async function tools(client) {
    const { tools } = await client.listTools();
    assert.deepEqual((await client.listTools()).tools, tools);
    const schemas = new Ajv({ strict: false });
    const called = new Set();
    for (const [name, args] of calls) {
        const tool = tools.find((tool) => tool.name === name);
        for (const hint of ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"]) {
            assert.equal(typeof tool.annotations[hint], "boolean", name);
        }
        assert(schemas.validate(tool.inputSchema, args), schemas.errorsText());
        const result = await client.callTool({ name, arguments: args });
        assert(!result.isError, JSON.stringify(result));
        assert(schemas.validate(tool.outputSchema, result.structuredContent), name + schemas.errorsText());
        called.add(name);
    }
    assert.deepEqual([...called].sort(), tools.map((tool) => tool.name).sort());
    const failed = await client.callTool({ name: "memory_recall", arguments: { key: 5 } });
    assert(failed.isError && failed.structuredContent === undefined, JSON.stringify(failed));
    await assert.rejects(client.callTool({ name: "memory_dance", arguments: {} }), (error) => error.code === -32602);
    return calls.length;
}

async function rest(client) {
    const { resources } = await client.listResources();
    for (const { uri } of resources) {
        assert((await client.readResource({ uri })).contents[0].text, uri);
    }
    const { resourceTemplates } = await client.listResourceTemplates();
    assert.deepEqual(resourceTemplates.map((one) => one.uriTemplate), [template, template + "?at={frame}"]);
    const old = await client.readResource({ uri: "memory:///user/name?at=1" });
    assert.equal(old.contents[0].text, "Ada");
    const { prompts } = await client.listPrompts();
    for (const { name } of prompts) {
        assert((await client.getPrompt({ name })).messages[0].content.text, name);
    }
    const { completion } = await client.complete({
        ref: { type: "ref/resource", uri: template },
        argument: { name: "key", value: "user/" },
    });
    assert.deepEqual(completion.values, ["user/name"]);
    return [resources.length + 1, prompts.length];
}

async function session(name, client, transport) {
    await client.connect(transport);
    assert.equal(client.getServerVersion().name, "mnemolog");
    const valid = await tools(client);
    const [read, got] = await rest(client);
    console.log(`  typescript, ${name}: ${valid} results valid, ${read} resources, ${got} prompts`);
    await client.close();
}

const [how, ...where] = process.argv.slice(2);
const versions = [
    ["sdk 1, initialize", first, {}],
    ["client 2, initialize", second, {}],
    ["client 2, 2026-07-28", second, { versionNegotiation: { mode: { pin: "2026-07-28" } } }],
];
for (const [name, library, options] of versions) {
    const client = new library.Client({ name: "tester", version: "1" }, options);
    if (how === "stdio") {
        const scratch = mkdtempSync(join(tmpdir(), "mnemolog-"));
        const [command, ...args] = where;
        const env = { ...process.env, MNEMOLOG_STORE: join(scratch, "store") };
        await session(name, client, new library.StdioClientTransport({ command, args, env, stderr: "ignore" }));
        rmSync(scratch, { recursive: true });
    } else {
        const [url, token] = where;
        const requestInit = { headers: { Authorization: `Bearer ${token}` } };
        await session(name, client, new library.StreamableHTTPClientTransport(new URL(url), { requestInit }));
    }
}
