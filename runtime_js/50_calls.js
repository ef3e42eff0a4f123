// Nested calls: the global `tools`. A call goes out as a record; its result comes back through core.deliver. Nothing
// throws synchronously, and a failed call rejects with an Error whose stack names the line that made the call.
(function (core) {
  "use strict";

  const {
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
    StringPrototypeIndexOf,
    StringPrototypeSlice,
  } = core.primordials;
  const { kinds, list, send } = core;

  class ToolError extends Error {}
  ReflectDefineProperty(ToolError.prototype, "name", { __proto__: null, value: "ToolError", writable: true });
  ObjectFreeze(ToolError); // every error leads to it, and a new one asks it for its parent

  const MOST_WARNINGS = 100; // more than the host keeps

  const pending = new Map(); // runtime call number → call
  let made = 0;
  let rejected = list(); // calls whose promise was rejected
  let watching = false; // the script has ended: only the microtasks that it left are still to run

  const hide = (object, key, value) =>
    ReflectDefineProperty(object, key, { __proto__: null, value, writable: true, configurable: true });

  const newError = (name, wrapper) => {
    const error = new ToolError();
    ErrorCaptureStackTrace(error, wrapper);
    hide(error, "tool", name);
    hide(error, "runtime_tool_call_id", null);
    return error;
  };

  // V8 does not tell an embedder of ours which rejections nobody handled. So the promise of a call, and what is derived
  // from it, sees its own reactions: `constructor` undefined makes `await` and the combinators go through `then`, and
  // `then` takes note. What becomes of a derived one is asked only at the end (`watch`): V8's stacks show the functions
  // that await a promise as long as it has one reaction.
  const track = (promise, call) => {
    const link = { __proto__: null, promise, handled: false, rejected: call.links.length === 0 };
    call.links[call.links.length] = link;
    const then = (fulfilled, failed) => {
      link.handled = true;
      return track(PromisePrototypeThen(promise, fulfilled, failed), call);
    };
    ReflectDefineProperty(promise, "constructor", { __proto__: null, value: undefined });
    ReflectDefineProperty(promise, "then", { __proto__: null, value: then });
    if (watching) watch(link);
    return promise;
  };

  const watch = (link) => {
    PromisePrototypeThen(link.promise, undefined, () => {
      link.rejected = true;
    });
  };

  const fail = (call, message, code = "invalid_input") => {
    call.message = message; // the one of the error is the script's to change
    hide(call.error, "code", code);
    hide(call.error, "message", message);
    rejected[rejected.length] = call;
    const { reject } = call;
    reject(call.error);
  };

  const refuse = (call, expected) => fail(call, `${call.name}: expected ${expected} as the argument`);

  const encodeObject = (call, input) => {
    try {
      const json = core.isArray(input) ? undefined : JSONStringify(input);
      if (json !== undefined && json[0] === "{") return json;
    } catch (problem) {
      return fail(
        call,
        `${call.name}: the input cannot be written as JSON: ${core.show(core.read(problem, "message"))}`,
      );
    }
    return refuse(call, "one object, or nothing");
  };

  // The JSON of an input, or undefined when it was refused.
  const encode = (call, kind, input) => {
    if (kind === "freeform") return typeof input === "string" ? JSONStringify(input) : refuse(call, "one string");
    if (input === undefined) return "{}";
    if (typeof input !== "object" || input === null) return refuse(call, "one object, or nothing");
    return encodeObject(call, input);
  };

  const checked = (call, kind, input) => {
    const json = encode(call, kind, input);
    const most = core.limits.max_tool_input_bytes;
    if (json === undefined || json.length <= most) return json;
    return fail(call, `${call.name}: the input is longer than ${most} bytes`);
  };

  // Behind the record there is nothing that could throw where the stack ends: a call is made and known, or neither.
  const dispatch = (call, index, json) => {
    const number = made + 1;
    hide(call.error, "runtime_tool_call_id", `call-${number}`);
    MapPrototypeSet(pending, number, call);
    try {
      send(kinds.CALL, `${number} ${index} ${json}`);
    } catch (problem) {
      MapPrototypeDelete(pending, number);
      throw problem;
    }
    made = number;
  };

  const invoke = (index, name, kind, input, wrapper) => {
    const call = { __proto__: null, name, links: list(), error: null, message: "", resolve: null, reject: null };
    call.error = newError(name, wrapper);
    const promise = new Promise((resolve, reject) => {
      call.resolve = resolve;
      call.reject = reject;
    });
    track(promise, call);
    const json = checked(call, kind, input);
    if (json !== undefined) dispatch(call, index, json);
    return promise;
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

  // The result of call `number`: JSON text if it went well, else the error's code and, on the next line, its text.
  core.deliver = (number, well, payload) => {
    const call = MapPrototypeGet(pending, number);
    if (call === undefined) return;
    MapPrototypeDelete(pending, number);
    const { resolve } = call;
    if (well) resolve(JSONParse(payload));
    else {
      const end = StringPrototypeIndexOf(payload, "\n");
      fail(call, StringPrototypeSlice(payload, end + 1), StringPrototypeSlice(payload, 0, end));
    }
  };

  core.callsInFlight = () => MapPrototypeGetSize(pending);

  const nobodyHandled = (call) => {
    for (let i = 0; i < call.links.length; i++) if (call.links[i].rejected && !call.links[i].handled) return true;
    return false;
  };

  // Called when the script has ended, while microtasks still run.
  core.watchRejections = () => {
    watching = true;
    for (let i = 0; i < rejected.length; i++) {
      const { links } = rejected[i];
      for (let j = 1; j < links.length; j++) if (!links[j].handled) watch(links[j]);
    }
  };

  core.warnOfRejections = () => {
    let left = MOST_WARNINGS;
    for (let i = 0; i < rejected.length && left > 0; i++) {
      if (!nobodyHandled(rejected[i])) continue;
      const { name, message } = rejected[i];
      send(kinds.WARN, `a call of ${name} failed and nobody handled it: ${core.bounded(core.show(message), 500)}`);
      left -= 1;
    }
  };

  core.resetCalls = () => {
    made = 0;
    rejected = list();
    watching = false;
  };
});
