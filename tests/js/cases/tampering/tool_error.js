// the class of a failed call's error leads nowhere: its parent is fixed, and later errors are made without the script
// deliver 1 error "one"
// deliver 2 error "two"
const error = await tools.echo({}).catch((problem) => problem);
const ToolError = error.constructor;
text([ToolError.name, error instanceof Error, Object.isFrozen(ToolError)]);
class Evil {
  constructor() {
    text("made by the script");
    return new Proxy({}, { defineProperty: () => text("defined on the script's object") });
  }
}
text(Reflect.setPrototypeOf(ToolError, Evil));
for (const change of [() => (ToolError.prototype = Evil.prototype), () => (ToolError[Symbol.hasInstance] = 1)]) {
  try {
    change();
  } catch (problem) {
    text(problem.message);
  }
}
globalThis.Error = Evil;
ToolError.prototype.constructor = Evil;
ToolError.prototype.name = "Renamed";
const second = await tools.echo({}).catch((problem) => problem);
text([second.name, second.message, second.tool, second.runtime_tool_call_id, second.constructor === Evil]);
text(new ToolError("by hand").message);
await tools.echo(5);
