// Nested calls: the global `tools`. A call goes out as a record; its result comes back through core.deliver. Nothing
// throws synchronously, and a failed call rejects with an Error whose stack names the line that made the call.
(function (core) {
  "use strict";

  const {
    ArrayIsArray,
    Error,
    ErrorCaptureStackTrace,
    JSONParse,
    JSONStringify,
    Map,
    MapPrototypeDelete,
    MapPrototypeGet,
    MapPrototypeGetSize,
    MapPrototypeSet,
    ObjectCreate,
    ObjectFreeze,
    Promise,
    PromisePrototypeThen,
    ReflectDefineProperty,
  } = core.primordials;
  const { kinds, list, send } = core;

  class ToolError extends Error {}
  ReflectDefineProperty(ToolError.prototype, "name", { __proto__: null, value: "ToolError", writable: true });

  const pending = new Map(); // runtime call number → call
  let made = 0;
  let rejected = list(); // calls whose promise was rejected

  const hide = (object, key, value) =>
    ReflectDefineProperty(object, key, { __proto__: null, value, writable: true, configurable: true });

  const newError = (name, wrapper) => {
    const error = new ToolError();
    ErrorCaptureStackTrace(error, wrapper);
    hide(error, "tool", name);
    hide(error, "runtime_tool_call_id", null);
    return error;
  };

  // V8 does not tell an embedder of ours which rejections nobody handled. So the promise of a call sees its own
  // reactions: `constructor` undefined makes `await` and the combinators go through `then`, and `then` takes note.
  const track = (promise, call) => {
    const link = { __proto__: null, handled: false };
    call.links[call.links.length] = link;
    const then = (fulfilled, failed) => {
      link.handled = true;
      const derived = PromisePrototypeThen(promise, fulfilled, failed);
      return typeof failed === "function" ? derived : track(derived, call);
    };
    ReflectDefineProperty(promise, "constructor", { __proto__: null, value: undefined });
    ReflectDefineProperty(promise, "then", { __proto__: null, value: then });
    return promise;
  };

  // The JSON of an input, or a text that says what was wrong with it.
  const encode = (call, kind, input) => {
    const { name } = call;
    if (kind === "freeform") return typeof input === "string" ? JSONStringify(input) : refuse(call, "one string");
    if (input === undefined) return "{}";
    if (typeof input !== "object" || input === null || ArrayIsArray(input)) return refuse(call, "one object, or nothing");
    let json;
    try {
      json = JSONStringify(input);
    } catch (problem) {
      return fail(call, `${name}: the input cannot be written as JSON: ${core.show(core.read(problem, "message"))}`);
    }
    return json !== undefined && json[0] === "{" ? json : refuse(call, "one object, or nothing");
  };

  const fail = (call, message) => {
    hide(call.error, "message", message);
    rejected[rejected.length] = call;
    call.reject(call.error);
  };

  const refuse = (call, expected) => fail(call, `${call.name}: expected ${expected} as the argument`);

  const checked = (call, kind, input) => {
    const json = encode(call, kind, input);
    const most = core.limits.max_tool_input_bytes;
    if (json === undefined || json.length <= most) return json;
    return fail(call, `${call.name}: the input is longer than ${most} bytes`);
  };

  const invoke = (index, name, kind, input, wrapper) => {
    const call = { __proto__: null, name, links: list(), error: newError(name, wrapper), resolve: null, reject: null };
    const promise = new Promise((resolve, reject) => {
      call.resolve = resolve;
      call.reject = reject;
    });
    const json = checked(call, kind, input);
    if (json !== undefined) {
      made += 1;
      hide(call.error, "runtime_tool_call_id", `call-${made}`);
      MapPrototypeSet(pending, made, call);
      send(kinds.CALL, `${made} ${index} ${json}`);
    }
    return track(promise, call);
  };

  const makeTool = (index, name, kind) => {
    const holder = {
      [name](input) {
        return invoke(index, name, kind, input, holder[name]);
      },
    };
    return ObjectFreeze(holder[name]);
  };

  // The globals `tools` and `ALL_TOOLS` of a script, from [[name, kind, description], …].
  core.makeTools = (declared) => {
    const tools = ObjectCreate(null);
    const all = [];
    for (let i = 0; i < declared.length; i++) {
      const name = declared[i][0];
      ReflectDefineProperty(tools, name, {
        __proto__: null,
        value: makeTool(i, name, declared[i][1]),
        enumerable: true,
      });
      const entry = ObjectFreeze({ name, description: declared[i][2] });
      ReflectDefineProperty(all, `${i}`, { __proto__: null, value: entry, enumerable: true });
    }
    return { __proto__: null, tools: ObjectFreeze(tools), all: ObjectFreeze(all) };
  };

  // The result of call `number`: JSON text if it went well, else the error's text.
  core.deliver = (number, well, payload) => {
    const call = MapPrototypeGet(pending, number);
    if (call === undefined) return;
    MapPrototypeDelete(pending, number);
    if (well) call.resolve(JSONParse(payload));
    else fail(call, payload);
  };

  core.callsInFlight = () => MapPrototypeGetSize(pending);

  const nobodyHandled = (call) => {
    for (let i = 0; i < call.links.length; i++) if (!call.links[i].handled) return true;
    return false;
  };

  core.warnOfRejections = () => {
    for (let i = 0; i < rejected.length; i++) {
      const { name, error } = rejected[i];
      if (nobodyHandled(rejected[i])) {
        send(kinds.WARN, `a call of ${name} failed and nobody handled it: ${core.show(core.read(error, "message"))}`);
      }
    }
  };

  core.resetCalls = () => {
    made = 0;
    rejected = list();
  };
});
