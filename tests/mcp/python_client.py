"""The official Python client against a server: python_client.py (stdio COMMAND... | http URL TOKEN)

In both eras: lists everything, calls every tool of calls.json, validates every structured result against the schema
that the server declared, reads every resource, gets every prompt, completes a key.
"""

import asyncio
import json
import os
import sys
import tempfile
from pathlib import Path

import httpx2
import jsonschema
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ResourceTemplateReference

CALLS = json.loads(Path(__file__).with_name("calls.json").read_text())
TEMPLATE = "memory://{workspace}/{+key}"


async def tools(client):
    listed = (await client.list_tools()).tools
    again = (await client.list_tools(cache_mode="refresh")).tools
    assert listed == again, "the list is not always the same"
    called = set()
    validated = 0
    for name, arguments in CALLS:
        tool = next(tool for tool in listed if tool.name == name)
        hints = tool.annotations
        for hint in (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint):
            assert isinstance(hint, bool), tool
        jsonschema.validate(arguments, tool.input_schema, jsonschema.Draft202012Validator)
        result = await client.call_tool(name, arguments)
        assert not result.is_error, (name, result)
        jsonschema.validate(result.structured_content, tool.output_schema, jsonschema.Draft202012Validator)
        called.add(name)
        validated += 1
    assert called == {tool.name for tool in listed}, "a tool was not called"
    failed = await client.call_tool("memory_recall", {"key": 5})
    assert failed.is_error and failed.structured_content is None, failed
    try:
        await client.call_tool("memory_dance", {})
        raise AssertionError("an unknown tool was called")
    except MCPError as error:
        assert error.code == -32602, error
    return validated


async def rest(client):
    resources = (await client.list_resources()).resources
    assert len(resources) == 2, resources
    for resource in resources:
        assert (await client.read_resource(resource.uri)).contents[0].text, resource
    templates = (await client.list_resource_templates()).resource_templates
    assert [template.uri_template for template in templates] == [TEMPLATE, TEMPLATE + "?at={frame}"]
    old = await client.read_resource("memory:///user/name?at=1")
    assert old.contents[0].text == "Ada", old
    prompts = (await client.list_prompts()).prompts
    for prompt in prompts:
        assert (await client.get_prompt(prompt.name)).messages[0].content.text, prompt
    reference = ResourceTemplateReference(type="ref/resource", uri=TEMPLATE)
    completion = await client.complete(reference, {"name": "key", "value": "user/"})
    assert completion.completion.values == ["user/name"], completion
    return len(resources) + 1, len(prompts)


async def session(client, era):
    async with client:
        assert client.server_info.name == "mnemolog"
        assert client.protocol_version == ("2025-11-25" if era == "legacy" else "2026-07-28")
        validated = await tools(client)
        read, got = await rest(client)
        print(f"  python, {era} ({client.protocol_version}): {validated} results valid, {read} resources, {got} prompts")


async def main():
    how, *where = sys.argv[1:]
    for era in ("legacy", "auto"):
        with tempfile.TemporaryDirectory() as scratch:
            if how == "stdio":
                command, *args = where
                env = {**os.environ, "MNEMOLOG_STORE": f"{scratch}/store"}
                await session(Client(StdioServerParameters(command=command, args=args, env=env), mode=era), era)
            else:
                url, token = where
                headers = {"Authorization": f"Bearer {token}"}
                async with httpx2.AsyncClient(headers=headers, timeout=30) as http:
                    await session(Client(streamable_http_client(url, http_client=http), mode=era), era)


asyncio.run(main())
