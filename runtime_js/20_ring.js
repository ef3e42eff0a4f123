// The way out: a ring of bytes in shared memory. The host reads it at any time without entering the isolate, so what a
// script wrote before a busy loop is seen at once; when the ring is full the writer waits, which is backpressure.
//
// Layout, in 32-bit words: [0] bytes ever written, [1] bytes ever read (both wrap), 2 to 15 unused; then the ring. A
// record is [kind | WIDE | MORE] [payload bytes] payload, padded to 8. WIDE: UTF-16 units, else Latin-1.
// MORE: the next record continues this one. codemode/isolation/ring.py reads this.
(function (core) {
  "use strict";

  const {
    AtomicsLoad,
    AtomicsStore,
    AtomicsWait,
    Int32Array,
    MathMin,
    ReflectApply,
    SharedArrayBuffer,
    StringPrototypeCharCodeAt,
    TypeError,
    Uint16Array,
    Uint8Array,
  } = core.primordials;

  const HEADER = 64;
  const CAPACITY = 1 << 20;
  const MASK = CAPACITY - 1;
  const WIDE_MASK = MASK >> 1;
  const CHUNK = 1 << 16; // units of a record: a quarter of the ring at most, so that reader and writer overlap
  const WRITTEN = 0;
  const READ = 1;
  const WIDE = 0x100;
  const MORE = 0x200;
  const WAIT_MS = 1;
  const ROOM = 8192; // words of stack, more than anything that core.needStack() guards was seen to take

  const ring = new SharedArrayBuffer(HEADER + CAPACITY);
  const control = new Int32Array(ring, 0, HEADER / 4);
  const words = new Int32Array(ring, HEADER);
  const units = new Uint16Array(ring, HEADER);
  const bytes = new Uint8Array(ring, HEADER);
  let written = 0;
  let isRead = true; // the host is waiting for this turn to end, and reads the ring meanwhile

  // Between two turns the engine calls back of itself: what a script has given to a FinalizationRegistry. The host may be
  // waiting for the isolate to be idle then, so that who waited for the host would wait for ever.
  core.turn = (hasBegun) => {
    isRead = hasBegun;
  };

  const refuseIfFull = (string) => {
    const needed = 2 * string.length + 32 * (2 + string.length / CHUNK);
    if (CAPACITY - ((written - AtomicsLoad(control, READ)) | 0) < needed) {
      throw new TypeError("too much output at once from the callback of a FinalizationRegistry");
    }
  };

  const waitForRoom = (needed) => {
    for (;;) {
      const read = AtomicsLoad(control, READ);
      if (CAPACITY - ((written - read) | 0) >= needed) return;
      AtomicsWait(control, READ, read, WAIT_MS);
    }
  };

  const publish = (kind, size) => {
    words[(written & MASK) >> 2] = kind;
    words[((written + 4) & MASK) >> 2] = size;
    const next = (written + 8 + ((size + 7) & ~7)) | 0;
    AtomicsStore(control, WRITTEN, next);
    written = next; // behind the call, which is refused where the stack ends: a record is in the ring or it is not
  };

  const writeWide = (kind, string, from, to) => {
    waitForRoom(16 + 2 * (to - from));
    const base = ((written + 8) & MASK) >> 1;
    for (let i = from; i < to; i++) units[(base + i - from) & WIDE_MASK] = StringPrototypeCharCodeAt(string, i);
    publish(kind | WIDE, 2 * (to - from));
  };

  const writeChunk = (kind, string, from, to) => {
    waitForRoom(16 + (to - from));
    const base = (written + 8) & MASK;
    for (let i = from; i < to; i++) {
      const unit = StringPrototypeCharCodeAt(string, i);
      if (unit > 255) return writeWide(kind, string, from, to); // nothing is published yet: write it again, wide
      bytes[(base + i - from) & MASK] = unit;
    }
    publish(kind, to - from);
  };

  const room = core.list(); // filled when it is first needed: that takes longer than loading all of this
  const nothing = () => undefined;

  // Throw V8's RangeError now if the stack will not do for what follows, which must not stop halfway: a script may call
  // us just above its end. All arguments of a call need their place at once, however V8 has compiled it.
  core.needStack = () => {
    while (room.length < ROOM) room[room.length] = 0;
    ReflectApply(nothing, undefined, room);
  };

  const isHighSurrogate = (unit) => unit >= 0xd800 && unit <= 0xdbff;

  // Write one record; returns when all of it is in the ring.
  core.send = (kind, string) => {
    if (!isRead) refuseIfFull(string);
    if (string.length > CHUNK) core.needStack(); // the next record would be taken for the rest of one left without its end
    let from = 0;
    for (;;) {
      let to = MathMin(string.length, from + CHUNK);
      if (to < string.length && isHighSurrogate(StringPrototypeCharCodeAt(string, to - 1))) to--;
      const last = to === string.length;
      writeChunk(last ? kind : kind | MORE, string, from, to);
      if (last) return;
      from = to;
    }
  };

  // Block this thread for ever; the host ends the process.
  core.halt = () => {
    for (;;) AtomicsWait(control, 2, 0);
  };

  core.kinds = {
    __proto__: null,
    TEXT: 1,
    ITEM: 2,
    CALL: 3,
    NOTIFY: 4,
    YIELD: 5,
    STORE: 6,
    WARN: 7,
    DONE: 8,
    SYNTAX: 9,
  };
  core.ring = ring;
});
