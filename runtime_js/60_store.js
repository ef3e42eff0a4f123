// store() and load(): JSON values that the session keeps. A script sees the values as of its start and its own writes;
// the last write to each key goes out just before the end, and the host merges them.
(function (core) {
  "use strict";

  const {
    JSONParse,
    JSONStringify,
    Map,
    MapPrototypeDelete,
    MapPrototypeForEach,
    MapPrototypeGet,
    MapPrototypeSet,
    ReflectOwnKeys,
    StringPrototypeCharCodeAt,
    StringPrototypeToWellFormed,
    TypeError,
  } = core.primordials;
  const { kinds, send } = core;

  let values = new Map(); // key → {json, size}
  let size = 0; // of all of them, counted as the host does
  let written = new Map(); // key → the last entry written, undefined for a deletion

  core.resetStore = (stored) => {
    values = new Map();
    written = new Map();
    size = 0;
    const keys = ReflectOwnKeys(stored);
    for (let i = 0; i < keys.length; i++) put(keys[i], sized(keys[i], stored[keys[i]]));
  };

  // Length of a string as UTF-8.
  const bytesOf = (string) => {
    let bytes = string.length;
    for (let i = 0; i < string.length; i++) {
      const unit = StringPrototypeCharCodeAt(string, i);
      if (unit > 0x7f) bytes += unit < 0x800 || (unit >= 0xd800 && unit <= 0xdfff) ? 1 : 2; // a pair has four in all
    }
    return bytes;
  };

  // What a value counts beside its key and text: a script could store hundreds of thousands of tiny ones otherwise.
  const VALUE_BYTES = 64;

  const sized = (key, json) =>
    json === undefined ? undefined : { __proto__: null, json, size: VALUE_BYTES + bytesOf(key) + bytesOf(json) };

  const grown = (key, entry) => {
    const before = MapPrototypeGet(values, key);
    return size + (entry === undefined ? 0 : entry.size) - (before === undefined ? 0 : before.size);
  };

  const put = (key, entry) => {
    size = grown(key, entry);
    if (entry === undefined) MapPrototypeDelete(values, key);
    else MapPrototypeSet(values, key, entry);
  };

  const checkedKey = (helper, key) => {
    if (typeof key === "string") return StringPrototypeToWellFormed(key); // as it is kept
    if (typeof key === "number") return `${key}`;
    throw new TypeError(`${helper}: expected a string as the key`);
  };

  const encode = (value) => {
    if (value === undefined) return undefined;
    const json = JSONStringify(value);
    if (json === undefined) throw new TypeError(`store: this value has no JSON; its type is ${typeof value}`);
    return json;
  };

  core.sendWrites = () => {
    MapPrototypeForEach(written, (entry, name) => {
      send(kinds.STORE, `${JSONStringify(name)}\n${entry === undefined ? "" : entry.json}`);
    });
  };

  core.storeGlobals = {
    __proto__: null,
    store(key, value) {
      const name = checkedKey("store", key);
      const entry = sized(name, encode(value));
      const most = core.limits.max_store_bytes;
      const total = grown(name, entry);
      if (total > most && total > size) {
        throw new TypeError(`store: the session's values would take ${total} bytes, at most ${most} are kept`);
      }
      core.needStack(); // for both or none
      MapPrototypeSet(written, name, entry);
      put(name, entry);
    },
    load(key) {
      const entry = MapPrototypeGet(values, checkedKey("load", key));
      return entry === undefined ? undefined : JSONParse(entry.json);
    },
  };
});
