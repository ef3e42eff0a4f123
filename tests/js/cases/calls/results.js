// the result of a call is the value of its JSON, whatever that is; an error's text becomes a ToolError
// deliver 1 ok {"a": [1, {"b": null}], "__proto__": {"x": 1}, "constructor": 5}
// deliver 2 ok null
// deliver 3 ok "text \ud800 \u2028"
// deliver 4 ok -0.5e3
// deliver 5 ok [[[]]]
// deliver 6 ok {"then": "no function", "toJSON": 1, "length": 7}
// deliver 7 ok {"isError": true, "content": []}
// deliver 8 error "a text\nof two lines"
// deliver 9 error ""
// deliver 10 error "\ud83d half"
// deliver 11 ok {"dup": 1, "dup": 2}
const get = () => tools.echo();
const first = await get();
text(first);
text([Object.keys(first), first.x === undefined, Object.getPrototypeOf(first) === Object.prototype]);
for (let i = 0; i < 6; i++) text([await get()]);
for (let i = 0; i < 3; i++) {
  try {
    await get();
  } catch (error) {
    text(error);
    text([error.name, error.message, error.tool, error.runtime_tool_call_id, Object.keys(error), String(error)]);
  }
}
text(await get());
