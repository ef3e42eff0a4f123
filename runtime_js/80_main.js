// Starts a script, follows it to its end, and gives the host its five ways in: start, startAgain, deliver, fire, status.
(function (core) {
  "use strict";

  const {
    AsyncFunction,
    JSONParse,
    ObjectFreeze,
    Promise,
    ReflectApply,
    ReflectDefineProperty,
    ReflectOwnKeys,
    StringPrototypeSlice,
    StringPrototypeStartsWith,
  } = core.primordials;
  const { kinds, send } = core;

  let outcome; // of the script: undefined while it runs, then JSON for the host
  let reported = false;

  const end = (status, thrown) => {
    if (outcome !== undefined) return;
    const error = status === "failed" ? core.describeThrown(thrown) : "null";
    outcome = `{"status":"${status}","error":${error},"timers":`;
    core.watchRejections();
  };

  // `halted`: the isolate will answer no more, because exit() stands in the middle of the script.
  const report = (halted) => {
    if (reported) return;
    core.warnOfRejections();
    core.sendWrites();
    send(kinds.DONE, `${outcome}${core.pendingTimers()},"halted":${halted}}`);
    reported = true;
  };

  const guarded = (action) => {
    try {
      action();
    } catch (thrown) {
      end("failed", thrown);
    }
  };

  const run = async (body) => {
    try {
      const promise = ReflectApply(body, undefined, []);
      // So that `await` takes it as it is, whatever the script has done to Promise.prototype.
      ReflectDefineProperty(promise, "constructor", { __proto__: null, value: Promise });
      const value = await promise;
      if (value !== undefined) core.emitText(value);
      end("completed");
    } catch (thrown) {
      end("failed", thrown);
    }
  };

  // The body is parsed on its own, as that of a function, so it cannot close anything of ours. LINES_BEFORE counts the
  // lines that precede it: two of the function's head and one of the directive.
  const compile = (source) => {
    const text = StringPrototypeStartsWith(source, "#!") ? `//${StringPrototypeSlice(source, 2)}` : source;
    return new AsyncFunction(`"use strict";\n${text}\n//# sourceURL=${core.SCRIPT}`);
  };

  const defineAll = (globals, configurable) => {
    const names = ReflectOwnKeys(globals);
    for (let i = 0; i < names.length; i++) {
      core.defineGlobal(names[i], ObjectFreeze(globals[names[i]]), configurable);
    }
  };

  defineAll(core.outputGlobals);
  defineAll(core.storeGlobals);
  defineAll(core.timerGlobals);
  defineAll({
    __proto__: null,
    exit() {
      core.needStack(); // or the script would go on behind its end
      end("completed");
      report(true);
      core.halt();
    },
  });

  const begin = (config) => {
    outcome = undefined;
    reported = false;
    core.limits = config.limits;
    core.resetCalls();
    core.resetTimers();
    core.resetStore(config.stored);
    const { tools, all } = core.makeTools(config.tools);
    core.defineGlobal("tools", tools, config.rehearsal);
    core.defineGlobal("ALL_TOOLS", all, config.rehearsal);
  };

  const launch = (source) => {
    let body;
    try {
      body = compile(source);
    } catch (problem) {
      send(kinds.SYNTAX, core.describeThrown(problem));
      return;
    }
    run(body);
  };

  core.host = ObjectFreeze({
    __proto__: null,
    ring: core.ring,

    // Run the script of a configuration; a source that does not parse is reported as a SYNTAX record.
    start(now, json) {
      core.enter(now);
      const config = JSONParse(json);
      begin(config);
      launch(config.source);
    },

    // Run another text in its place, when it did not parse.
    startAgain(now, source) {
      core.enter(now);
      launch(source);
    },

    deliver(now, number, well, payload) {
      core.enter(now);
      guarded(() => core.deliver(number, well, payload));
    },

    fire(now) {
      core.enter(now);
      guarded(core.fireTimer);
    },

    // Asked when the microtask queue is empty: "ended", or "CALLS" in flight and the time of the next timer.
    status() {
      if (outcome !== undefined) report(false);
      core.turn(false);
      if (outcome !== undefined) return "ended";
      const due = core.nextTimer();
      return `[${core.callsInFlight()},${due === undefined ? null : due}]`; // no JSON.stringify: it asks for toJSON
    },
  });
});
