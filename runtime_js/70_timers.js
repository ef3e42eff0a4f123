// setTimeout(), clearTimeout() and as_settled(). Timers are kept here; the host says what time it is whenever it enters
// the isolate, and asks when the next one is due. Times are milliseconds of the host's monotonic clock.
(function (core) {
  "use strict";

  const {
    ArrayFrom,
    ArrayIsArray,
    DateNow,
    Map,
    MapPrototypeDelete,
    MapPrototypeGet,
    MapPrototypeGetSize,
    MapPrototypeSet,
    MathMax,
    Promise,
    PromiseResolve,
    ReflectApply,
    SymbolAsyncIterator,
    TypeError,
  } = core.primordials;
  const { list } = core;

  let heap = list(); // a binary heap of timers by (due, id); cleared ones stay until they surface
  let live = new Map(); // id → timer
  let lastId = 0;
  let hostTime = 0;
  let wallTime = 0;

  let doubtful = list(); // timers set in this turn at a time that only Date.now() tells
  let soonest; // when the first of them is due if that clock has jumped meanwhile

  core.enter = (now) => {
    core.turn(true);
    hostTime = now;
    wallTime = DateNow();
    const set = doubtful;
    doubtful = list();
    soonest = undefined;
    for (let i = 0; i < set.length; i++) correct(set[i]);
  };

  // None was set later than now: the wall clock has jumped, by hours perhaps.
  const correct = (timer) => {
    if (timer.set <= hostTime || MapPrototypeGet(live, timer.id) !== timer) return;
    const { id, delay, callback, args } = timer;
    const corrected = { __proto__: null, id, set: hostTime, delay, due: hostTime + delay, callback, args };
    push(corrected); // the other one stays in the heap until it surfaces
    MapPrototypeSet(live, id, corrected);
  };

  // One less, since Date.now() counts whole milliseconds: a time ahead of the host's would put what is made in this turn
  // behind what is made in the next.
  const now = () => hostTime + MathMax(0, DateNow() - wallTime - 1);

  const before = (a, b) => a.due < b.due || (a.due === b.due && a.id < b.id);

  const push = (timer) => {
    let at = heap.length;
    while (at > 0) {
      const parent = (at - 1) >> 1;
      if (!before(timer, heap[parent])) break;
      heap[at] = heap[parent];
      at = parent;
    }
    heap[at] = timer;
  };

  const pop = () => {
    const first = heap[0];
    const last = heap[heap.length - 1];
    heap.length--;
    let at = 0;
    while (2 * at + 1 < heap.length) {
      let child = 2 * at + 1;
      if (child + 1 < heap.length && before(heap[child + 1], heap[child])) child++;
      if (!before(heap[child], last)) break;
      heap[at] = heap[child];
      at = child;
    }
    if (heap.length > 0) heap[at] = last;
    return first;
  };

  const nextTimer = () => {
    while (heap.length > 0 && MapPrototypeGet(live, heap[0].id) !== heap[0]) pop();
    return heap.length > 0 ? heap[0].due : undefined;
  };

  // When the next timer may be due; undefined if there is none.
  core.nextTimer = () => {
    const due = nextTimer();
    return due !== undefined && soonest < due ? soonest : due;
  };

  core.pendingTimers = () => MapPrototypeGetSize(live);

  // Run the first timer, if it is due. Its exception is the caller's.
  core.fireTimer = () => {
    const due = nextTimer();
    if (due === undefined || due > hostTime) return;
    const timer = pop();
    MapPrototypeDelete(live, timer.id);
    ReflectApply(timer.callback, undefined, timer.args);
  };

  core.resetTimers = () => {
    heap = list();
    live = new Map();
    lastId = 0;
    doubtful = list();
    soonest = undefined;
  };

  const MOST_DELAY = 2 ** 31 - 1; // as in browsers: what is longer, or no number, is 0

  const delayOf = (given) => {
    const delay = +given;
    return delay > 0 && delay <= MOST_DELAY ? delay : 0;
  };

  // A copy, made without iterators for a true array; the script may change its own while we wait.
  const copyOf = (given) => {
    const source = ArrayIsArray(given) ? given : ArrayFrom(given);
    const copy = list();
    for (let i = 0; i < source.length; i++) copy[i] = source[i];
    return copy;
  };

  const settle = (promises) => {
    const waiting = list(); // resolvers of next() calls that came before a result
    const settled = list();
    let served = 0;
    let ended = false;
    const add = (result) => {
      if (served < waiting.length) {
        const resolve = waiting[served++];
        resolve({ value: result, done: false });
      } else settled[settled.length] = result;
    };
    // `await`, because unlike `then` it asks no promise for its species.
    const watch = async (promise, index) => {
      try {
        const value = await promise;
        add({ index, status: "fulfilled", value });
      } catch (reason) {
        add({ index, status: "rejected", reason });
      }
    };
    for (let index = 0; index < promises.length; index++) watch(promises[index], index);
    let asked = 0;
    let left = 0; // of `settled`, already handed over
    const iterator = {
      __proto__: null,
      next() {
        return new Promise((resolve) => {
          if (ended || asked >= promises.length) return resolve({ value: undefined, done: true });
          asked++;
          if (left < settled.length) return resolve({ value: settled[left++], done: false });
          waiting[waiting.length] = resolve;
          return undefined;
        });
      },
      return(value) {
        ended = true;
        return PromiseResolve({ value, done: true });
      },
    };
    iterator[SymbolAsyncIterator] = () => iterator;
    return iterator;
  };

  core.timerGlobals = {
    __proto__: null,
    setTimeout(callback, delay, ...args) {
      if (typeof callback !== "function") throw new TypeError("setTimeout: expected a function");
      const id = ++lastId;
      const set = now();
      const wait = delayOf(delay); // which may run code of the script, that sets timers too
      const timer = { __proto__: null, id, set, delay: wait, due: set + wait, callback, args };
      push(timer);
      if (set > hostTime) {
        doubtful[doubtful.length] = timer;
        if (soonest === undefined || hostTime + wait < soonest) soonest = hostTime + wait;
      }
      MapPrototypeSet(live, timer.id, timer); // last: what is in the heap alone does not count
      return timer.id;
    },
    clearTimeout(id) {
      const timer = MapPrototypeGet(live, id);
      if (timer === undefined) return;
      MapPrototypeDelete(live, id);
      timer.callback = timer.args = null; // it may stay in the heap for long, what it holds need not
    },
    as_settled(promises) {
      return settle(copyOf(promises));
    },
  };
});
