// How errors look: stacks with the places of the text that the caller sent and no frame of ours, and the description
// of anything that a script may throw.
(function (core) {
  "use strict";

  const {
    ArrayIsArray,
    CallSiteGetColumnNumber,
    CallSiteGetLineNumber,
    CallSiteGetScriptNameOrSourceURL,
    CallSiteIsAsync,
    CallSiteToString,
    Error,
    ErrorIsError,
    JSONStringify,
    MathMax,
    MathMin,
    ObjectFreeze,
    ReflectDefineProperty,
    ReflectGet,
    ReflectGetOwnPropertyDescriptor,
    ReflectOwnKeys,
    Set,
    SetPrototypeAdd,
    SetPrototypeGetSize,
    SetPrototypeHas,
    SharedArrayBufferPrototypeGetByteLength,
    StringPrototypeLastIndexOf,
    StringPrototypeSlice,
    StringPrototypeStartsWith,
    StringPrototypeToWellFormed,
    WeakMap,
    WeakMapPrototypeGet,
    WeakMapPrototypeSet,
  } = core.primordials;

  core.SCRIPT = "exec_main.mjs";
  core.LINES_BEFORE = 3; // of the function that 60_main.js makes around the body
  const MOST_TEXT = 32 * 1024; // characters of a message or stack kept at either end; the host bounds the whole
  const MOST_ERRORS = 24; // shown in full for one that was thrown: its causes, theirs and so on
  const MOST_MEMBERS = 8; // of an AggregateError

  const traces = new WeakMap(); // object → what V8 asked us to format for it: {stack, frames, line, column}

  // Hide the middle of a text that is too long to be read anyway.
  core.bounded = (string, most = MOST_TEXT) =>
    string.length <= 2 * most
      ? string
      : `${StringPrototypeSlice(string, 0, most)}…${string.length - 2 * most} characters omitted…${StringPrototypeSlice(string, -most)}`;

  const read = (object, key) => {
    try {
      return ReflectGet(object, key);
    } catch {
      return undefined;
    }
  };
  core.read = read;

  core.isArray = (value) => {
    try {
      return ArrayIsArray(value);
    } catch {
      return false; // a revoked Proxy
    }
  };

  const isOurs = (site) => {
    const script = CallSiteGetScriptNameOrSourceURL(site);
    return script === "<anonymous>" || (typeof script === "string" && StringPrototypeStartsWith(script, "codemode:"));
  };

  const isBuiltin = (site) => CallSiteGetLineNumber(site) === null && !CallSiteIsAsync(site);

  // What is ours, and a builtin that we have called.
  const isHidden = (sites, i) =>
    isOurs(sites[i]) || (i + 1 < sites.length && isBuiltin(sites[i]) && isOurs(sites[i + 1]));

  const frame = (site, trace) => {
    const script = CallSiteGetScriptNameOrSourceURL(site);
    const shown = CallSiteToString(site);
    if (script !== core.SCRIPT) return shown;
    const line = CallSiteGetLineNumber(site);
    const column = CallSiteGetColumnNumber(site);
    const place = `${core.SCRIPT}:${MathMax(1, line - core.LINES_BEFORE)}:${column}`;
    if (trace.line === null) {
      trace.line = MathMax(1, line - core.LINES_BEFORE);
      trace.column = column;
    }
    // V8 calls a function without a name "eval", since the body was compiled from a string.
    if (StringPrototypeStartsWith(shown, "eval (")) return place;
    if (StringPrototypeStartsWith(shown, "async eval (")) return `async ${place}`;
    if (StringPrototypeStartsWith(shown, "new eval (")) return `new <anonymous> (${place})`;
    const raw = `${core.SCRIPT}:${line}:${column}`;
    const at = StringPrototypeLastIndexOf(shown, raw);
    return at < 0 ? shown : StringPrototypeSlice(shown, 0, at) + place + StringPrototypeSlice(shown, at + raw.length);
  };

  const heading = (error) => {
    const name = read(error, "name");
    const message = read(error, "message");
    const shownName = name === undefined ? "Error" : core.show(name);
    const shownMessage = message === undefined ? "" : core.show(message);
    if (shownName === "") return shownMessage;
    return shownMessage === "" ? shownName : `${shownName}: ${shownMessage}`;
  };

  // The heading as V8 itself would write it, taken from a message of V8's, because that reads no getter and no Proxy.
  // While we format a stack, none of the script's code may run: of the stacks that it asked for, V8 would format the
  // inner ones without us, and show our frames.
  const complaintAbout = (value) => {
    try {
      return `${SharedArrayBufferPrototypeGetByteLength(value)}`; // no script has a SharedArrayBuffer
    } catch (problem) {
      return problem.message;
    }
  };
  const COMPLAINT = StringPrototypeSlice(complaintAbout(0), 0, -1);

  const plainHeading = (error) => {
    const complaint = complaintAbout(error);
    return StringPrototypeStartsWith(complaint, COMPLAINT)
      ? StringPrototypeSlice(complaint, COMPLAINT.length)
      : "Error";
  };

  const formatStack = ObjectFreeze((error, sites) => {
    const trace = { __proto__: null, stack: "", frames: "", line: null, column: null };
    for (let i = 0; i < sites.length; i++) {
      if (!isHidden(sites, i)) trace.frames += `\n    at ${frame(sites[i], trace)}`;
    }
    trace.stack = plainHeading(error) + trace.frames;
    WeakMapPrototypeSet(traces, error, trace);
    return trace.stack;
  });
  ReflectDefineProperty(Error, "prepareStackTrace", {
    __proto__: null,
    get: () => formatStack,
    set: () => undefined, // a script that wants its own format keeps ours
    enumerable: false,
    configurable: false,
  });

  // The stack of an error as text, with its name and message as they are now; what the script has put there instead.
  const stackOf = (error) => {
    const stack = read(error, "stack");
    const trace = WeakMapPrototypeGet(traces, error);
    if (trace !== undefined && stack === trace.stack) return core.bounded(heading(error) + trace.frames);
    return core.bounded(typeof stack === "string" && stack !== "" ? stack : heading(error));
  };
  core.stackOf = stackOf;

  const HIDDEN = { __proto__: null, name: true, message: true, stack: true, cause: true, errors: true };

  const ownProperties = (error) => {
    const found = { __proto__: null };
    const keys = ReflectOwnKeys(error);
    for (let i = 0; i < keys.length; i++) {
      if (typeof keys[i] !== "string" || HIDDEN[keys[i]]) continue;
      const property = ReflectGetOwnPropertyDescriptor(error, keys[i]);
      if (property === undefined || !property.enumerable) continue;
      found[keys[i]] = read(error, keys[i]);
    }
    const json = core.show(found);
    return json === "{}" ? "" : `\n${json}`;
  };

  // Each part is added as soon as it is known: whatever the next one does, what is there stays.
  const addRelated = (out, error, shown) => {
    const add = (label, value) => {
      out.text += `\n[${label}]: ${describe(value, shown)}`;
    };
    if (ReflectGetOwnPropertyDescriptor(error, "cause") !== undefined) add("cause", read(error, "cause"));
    const errors = read(error, "errors");
    if (core.isArray(errors)) {
      const most = MathMin(errors.length, MOST_MEMBERS);
      for (let i = 0; i < most; i++) add(`errors ${i}`, read(errors, `${i}`));
      if (errors.length > most) out.text += `\n[errors]: ${errors.length - most} more`;
    }
    if (ReflectGetOwnPropertyDescriptor(error, "suppressed") !== undefined) {
      add("error", read(error, "error"));
      add("suppressed", read(error, "suppressed"));
    }
    out.text += ownProperties(error);
  };

  const errorText = (error, shown) => {
    if (SetPrototypeHas(shown, error)) return `${core.bounded(heading(error))} (shown above)`;
    if (SetPrototypeGetSize(shown) >= MOST_ERRORS) return core.bounded(heading(error));
    SetPrototypeAdd(shown, error);
    const out = { __proto__: null, text: stackOf(error) };
    try {
      addRelated(out, error, shown);
    } catch {
      out.text += "\n[more that cannot be shown]";
    }
    return out.text;
  };

  const describe = (value, shown) => {
    try {
      return ErrorIsError(value) ? errorText(value, shown) : core.show(value);
    } catch {
      return "a value that cannot be shown";
    }
  };

  // What a script threw, as JSON for the host: it never throws, whatever the value does when it is looked at.
  core.describeThrown = (value) => {
    const written = (string) => StringPrototypeToWellFormed(core.bounded(string)); // the host's text has no place for halves
    const text = written(describe(value, new Set()));
    const told = { __proto__: null, name: null, message: text, text, line: null, column: null };
    if (ErrorIsError(value)) {
      const name = read(value, "name");
      const message = read(value, "message");
      const trace = WeakMapPrototypeGet(traces, value);
      told.name = name === undefined ? "Error" : written(core.show(name));
      told.message = message === undefined ? "" : written(core.show(message));
      if (trace !== undefined) {
        told.line = trace.line;
        told.column = trace.column;
      }
    }
    return JSONStringify(told);
  };
});
