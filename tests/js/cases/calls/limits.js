// an input over the limit is refused and named, the next call goes on; numbers count what was sent
// limits: {"max_tool_input_bytes": 100}
// tools: echo, note:freeform
// deliver 1 ok "fine"
// deliver 2 ok "note"
await tools.echo({ long: "x".repeat(100) }).catch((error) => text(error));
text(await tools.echo({ short: "x".repeat(80) }));
await tools.note("y".repeat(99)).catch((error) => text(error.message));
text(await tools.note("y".repeat(98)));
await tools.note("y".repeat(70000)).catch((error) => text(error.message));
