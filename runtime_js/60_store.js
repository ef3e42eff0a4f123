// store() and load(): JSON values that the session keeps. A script sees the values as of its start and its own writes;
// each write goes out at once and the host merges them when the cell ends.
(function (core) {
  "use strict";

  const {
    JSONParse,
    JSONStringify,
    Map,
    MapPrototypeDelete,
    MapPrototypeGet,
    MapPrototypeSet,
    ReflectOwnKeys,
    TypeError,
  } = core.primordials;
  const { kinds, send } = core;

  let values = new Map(); // key → JSON text
  let size = 0;

  core.resetStore = (stored) => {
    values = new Map();
    size = 0;
    const keys = ReflectOwnKeys(stored);
    for (let i = 0; i < keys.length; i++) put(keys[i], stored[keys[i]]);
  };

  const sizeOf = (key, json) => (json === undefined ? 0 : key.length + json.length);

  const put = (key, json) => {
    size += sizeOf(key, json) - sizeOf(key, MapPrototypeGet(values, key));
    if (json === undefined) MapPrototypeDelete(values, key);
    else MapPrototypeSet(values, key, json);
  };

  const checkedKey = (helper, key) => {
    if (typeof key === "string") return key;
    if (typeof key === "number") return `${key}`;
    throw new TypeError(`${helper}: expected a string as the key`);
  };

  const encode = (value) => {
    if (value === undefined) return undefined;
    const json = JSONStringify(value);
    if (json === undefined) throw new TypeError(`store: a ${typeof value} has no JSON`);
    return json;
  };

  core.storeGlobals = {
    __proto__: null,
    store(key, value) {
      const name = checkedKey("store", key);
      const json = encode(value);
      const grown = size + sizeOf(name, json) - sizeOf(name, MapPrototypeGet(values, name));
      const most = core.limits.max_store_bytes;
      if (json !== undefined && grown > most) {
        throw new TypeError(`store: the session's values would take ${grown} bytes, at most ${most} are kept`);
      }
      send(kinds.STORE, `${JSONStringify(name)}\n${json === undefined ? "" : json}`);
      put(name, json); // behind what throws where the stack ends, so that host and script agree
    },
    load(key) {
      const json = MapPrototypeGet(values, checkedKey("load", key));
      return json === undefined ? undefined : JSONParse(json);
    },
  };
});
