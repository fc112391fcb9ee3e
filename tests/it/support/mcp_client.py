"""Takes steps with a server of MCP by the official Python client; prints what came of each.

Reads {mode, url, key} or {mode, command, args, env}, and {steps}, as JSON from standard input.
"""

import asyncio
import json
import sys

import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


def shown(result):
    return result.model_dump(mode="json", by_alias=True, exclude_none=True)


async def called(client, step):
    heard = []

    async def progress(done, total, message):
        heard.append([done, total, message])

    listening = progress if step.get("progress") else None
    call = client.call_tool(step["name"], step["arguments"], progress_callback=listening)
    return {**shown(await call), "progress": heard}


async def abandoned(client):
    begun = asyncio.Event()

    async def progress(*_):
        begun.set()

    async def wait(seconds, listening=None):
        arguments = {"seconds": seconds}
        return shown(await client.call_tool("wait_for_message", arguments, progress_callback=listening))

    waiting = asyncio.create_task(wait(300, progress))
    await begun.wait()
    meanwhile = await wait(1)
    waiting.cancel()
    # Less than a turn of the wait, in which it gives its place back by itself.
    async with asyncio.timeout(15):
        while (free := await wait(1))["isError"]:
            pass
    return {"meanwhile": meanwhile, "free": free}


async def take(client, step):
    match step["do"]:
        case "call":
            return await called(client, step)
        case "abandon":
            return await abandoned(client)
        case "tools":
            return shown(await client.list_tools())
        case "resources":
            return shown(await client.list_resources(cursor=step.get("cursor")))
        case "templates":
            return shown(await client.list_resource_templates())
        case "read":
            return shown(await client.read_resource(step["uri"]))


async def main():
    asked = json.load(sys.stdin)
    if "command" in asked:
        command = {name: asked[name] for name in ("command", "args", "env")}
        server = StdioServerParameters(**command)
    else:
        bearer = {"Authorization": f"Bearer {asked['key']}"}
        http = httpx2.AsyncClient(headers=bearer, timeout=60)
        server = streamable_http_client(asked["url"], http_client=http)
    came = []
    async with Client(server, mode=asked["mode"]) as client:
        for step in asked["steps"]:
            try:
                came.append(await take(client, step))
            except MCPError as error:
                came.append({"code": error.code, "message": error.message})
        said = {"version": client.protocol_version, "instructions": client.instructions}
        print(json.dumps({**said, "came": came}))


asyncio.run(main())
