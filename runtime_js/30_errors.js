// How errors look: stacks with the places of the text that the caller sent and no frame of ours, and the description
// of anything that a script may throw.
(function (core) {
  "use strict";

  const {
    CallSiteGetColumnNumber,
    CallSiteGetLineNumber,
    CallSiteGetScriptNameOrSourceURL,
    CallSiteToString,
    Error,
    ErrorIsError,
    JSONStringify,
    MathMax,
    ReflectDefineProperty,
    ReflectGet,
    ReflectGetOwnPropertyDescriptor,
    ReflectOwnKeys,
    StringPrototypeLastIndexOf,
    StringPrototypeSlice,
    StringPrototypeStartsWith,
    WeakMap,
    WeakMapPrototypeGet,
    WeakMapPrototypeSet,
  } = core.primordials;

  core.SCRIPT = "exec_main.mjs";
  core.LINES_BEFORE = 3; // of the function that 60_main.js makes around the body
  const MOST_TEXT = 32 * 1024; // characters of a message or stack kept at either end; the host bounds the whole
  const MOST_CAUSES = 8;

  const places = new WeakMap(); // error → the first place in the script that its stack names

  // Hide the middle of a text that is too long to be read anyway.
  core.bounded = (string) =>
    string.length <= 2 * MOST_TEXT
      ? string
      : `${StringPrototypeSlice(string, 0, MOST_TEXT)}…${string.length - 2 * MOST_TEXT} characters omitted…${StringPrototypeSlice(string, -MOST_TEXT)}`;

  const read = (object, key) => {
    try {
      return ReflectGet(object, key);
    } catch {
      return undefined;
    }
  };
  core.read = read;

  const frame = (site, error) => {
    const script = CallSiteGetScriptNameOrSourceURL(site);
    if (script === "<anonymous>" || (typeof script === "string" && StringPrototypeStartsWith(script, "codemode:"))) {
      return undefined;
    }
    const shown = CallSiteToString(site);
    if (script !== core.SCRIPT) return shown;
    const line = CallSiteGetLineNumber(site);
    const column = CallSiteGetColumnNumber(site);
    const place = `${core.SCRIPT}:${MathMax(1, line - core.LINES_BEFORE)}:${column}`;
    if (WeakMapPrototypeGet(places, error) === undefined) {
      WeakMapPrototypeSet(places, error, { __proto__: null, line: MathMax(1, line - core.LINES_BEFORE), column });
    }
    // V8 calls a function without a name "eval", since the body was compiled from a string.
    if (StringPrototypeStartsWith(shown, "eval (")) return place;
    if (StringPrototypeStartsWith(shown, "async eval (")) return `async ${place}`;
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

  const formatStack = (error, sites) => {
    let text = heading(error);
    for (let i = 0; i < sites.length; i++) {
      const line = frame(sites[i], error);
      if (line !== undefined) text += `\n    at ${line}`;
    }
    return text;
  };
  ReflectDefineProperty(Error, "prepareStackTrace", {
    __proto__: null,
    get: () => formatStack,
    set: () => undefined, // a script that wants its own format keeps ours
    enumerable: false,
    configurable: false,
  });

  // The stack of an error as text; what the error has instead of one, if a script has tampered with it.
  const stackOf = (error) => {
    const stack = read(error, "stack");
    return core.bounded(typeof stack === "string" && stack !== "" ? stack : heading(error));
  };
  core.stackOf = stackOf;

  const HIDDEN = { __proto__: null, name: true, message: true, stack: true, cause: true, errors: true };

  const ownProperties = (error) => {
    const found = { __proto__: null };
    let some = false;
    const keys = ReflectOwnKeys(error);
    for (let i = 0; i < keys.length; i++) {
      if (typeof keys[i] !== "string" || HIDDEN[keys[i]]) continue;
      const property = ReflectGetOwnPropertyDescriptor(error, keys[i]);
      if (property === undefined || !property.enumerable) continue;
      found[keys[i]] = read(error, keys[i]);
      some = true;
    }
    return some ? `\n${core.show(found)}` : "";
  };

  const errorText = (error, depth) => {
    let text = stackOf(error);
    if (depth >= MOST_CAUSES) return text;
    const related = (key, value) => {
      text += `\n[${key}]: ${describe(value, depth + 1)}`;
    };
    if (ReflectGetOwnPropertyDescriptor(error, "cause") !== undefined) related("cause", read(error, "cause"));
    const errors = read(error, "errors");
    if (core.primordials.ArrayIsArray(errors)) {
      for (let i = 0; i < errors.length && i < MOST_CAUSES; i++) related(`errors ${i}`, read(errors, `${i}`));
    }
    if (ReflectGetOwnPropertyDescriptor(error, "suppressed") !== undefined) {
      related("error", read(error, "error"));
      related("suppressed", read(error, "suppressed"));
    }
    return text + ownProperties(error);
  };

  const describe = (value, depth) => {
    try {
      return ErrorIsError(value) ? errorText(value, depth) : core.show(value);
    } catch {
      return "a value that cannot be shown";
    }
  };

  // What a script threw, as JSON for the host: it never throws, whatever the value does when it is looked at.
  core.describeThrown = (value) => {
    const text = core.bounded(describe(value, 0));
    if (!ErrorIsError(value)) {
      return JSONStringify({ __proto__: null, name: null, message: text, text, line: null, column: null });
    }
    const place = WeakMapPrototypeGet(places, value);
    const name = read(value, "name");
    const message = read(value, "message");
    return JSONStringify({
      __proto__: null,
      name: core.bounded(name === undefined ? "Error" : core.show(name)),
      message: core.bounded(message === undefined ? "" : core.show(message)),
      text,
      line: place === undefined ? null : place.line,
      column: place === undefined ? null : place.column,
    });
  };
});
