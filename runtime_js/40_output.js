// What a script hands over: text(), image(), audio(), content(), notify(), and how a value becomes text.
(function (core) {
  "use strict";

  const {
    ArrayIsArray,
    ErrorIsError,
    FunctionPrototypeHasInstance,
    JSONRawJSON,
    JSONStringify,
    Map,
    MapPrototypeForEach,
    MapPrototypeGetSize,
    ReflectGetOwnPropertyDescriptor,
    Set,
    SetPrototypeAdd,
    SetPrototypeDelete,
    SetPrototypeForEach,
    SetPrototypeGetSize,
    SetPrototypeHas,
    StringPrototypeSlice,
    StringPrototypeStartsWith,
    StringPrototypeToLowerCase,
    StringPrototypeToWellFormed,
    StringPrototypeTrim,
    SymbolPrototypeToString,
    TypeError,
  } = core.primordials;
  const { kinds, list, send } = core;

  const entriesOf = (map) => {
    const entries = list();
    MapPrototypeForEach(map, (value, key) => {
      const entry = list();
      entry[0] = key;
      entry[1] = value;
      entries[entries.length] = entry;
    });
    return entries;
  };

  const membersOf = (set) => {
    const members = list();
    SetPrototypeForEach(set, (value) => {
      members[members.length] = value;
    });
    return members;
  };

  const isOne = (getSize, value) => {
    try {
      getSize(value);
      return true;
    } catch {
      return false; // it only inherits from the prototype
    }
  };

  // JSON has no place for these; everything else goes through untouched.
  const replaced = (value) => {
    if (typeof value === "bigint") return JSONRawJSON(`${value}`);
    if (typeof value !== "object" || value === null || ArrayIsArray(value)) return value;
    if (ErrorIsError(value)) return core.stackOf(value);
    if (FunctionPrototypeHasInstance(Map, value) && isOne(MapPrototypeGetSize, value)) return entriesOf(value);
    return FunctionPrototypeHasInstance(Set, value) && isOne(SetPrototypeGetSize, value) ? membersOf(value) : value;
  };

  // The same with cycles cut. A holder is the object whose member is being written; `given` and `shown` are the objects
  // on the way down to it, before and after the replacement.
  const withoutCycles = () => {
    const given = list();
    const shown = list();
    const above = new Set();
    return function (_key, value) {
      while (shown.length > 0 && shown[shown.length - 1] !== this) {
        SetPrototypeDelete(above, given[given.length - 1]);
        given.length--;
        shown.length--;
      }
      const replacement = replaced(value);
      if (typeof replacement !== "object" || replacement === null) return replacement;
      if (SetPrototypeHas(above, value)) return "[Circular]";
      SetPrototypeAdd(above, value);
      given[given.length] = value;
      shown[shown.length] = replacement;
      return replacement;
    };
  };

  const replace = (_key, value) => replaced(value);

  const asJson = (value) => {
    try {
      return JSONStringify(value, replace);
    } catch {
      return JSONStringify(value, withoutCycles());
    }
  };

  const nameOf = (callable) => {
    const property = ReflectGetOwnPropertyDescriptor(callable, "name");
    const name = property === undefined ? undefined : property.value;
    return typeof name === "string" && name !== "" ? name : "anonymous";
  };

  const showObject = (value) => {
    try {
      if (typeof value === "function") return nameOf(value);
      if (ErrorIsError(value)) return core.stackOf(value);
      const json = asJson(value);
      return json === undefined ? "undefined" : json;
    } catch {
      return "[a value that cannot be shown as JSON]";
    }
  };

  // Any value as text. It never throws.
  core.show = (value) => {
    if (typeof value === "string") return StringPrototypeToWellFormed(value);
    if (typeof value === "symbol") return StringPrototypeToWellFormed(SymbolPrototypeToString(value));
    if ((typeof value === "object" && value !== null) || typeof value === "function") return showObject(value);
    return `${value}`;
  };

  core.emitText = (value) => {
    const shown = core.show(value);
    if (shown !== "") send(kinds.TEXT, shown);
  };

  const DETAILS = { __proto__: null, auto: true, low: true, high: true, original: true };
  const MEDIA = { __proto__: null, image: "image_url", audio: "audio_url" };

  const checkedUrl = (media, url) => {
    if (typeof url !== "string" || url === "") throw new TypeError(`${media}: expected a URL that is not empty`);
    const start = StringPrototypeToLowerCase(StringPrototypeSlice(url, 0, 16));
    if (StringPrototypeStartsWith(start, `data:${media}/`)) return StringPrototypeToWellFormed(url);
    if (StringPrototypeStartsWith(start, "https://") && url.length > 8) return StringPrototypeToWellFormed(url);
    throw new TypeError(`${media}: expected a data:${media}/… or https:// URL`);
  };

  const blockUrl = (media, block) => {
    const { data, mimeType } = block;
    if (typeof data !== "string" || data === "") throw new TypeError(`${media}: the block has no base64 data`);
    if (typeof mimeType !== "string") throw new TypeError(`${media}: the block has no mimeType`);
    return checkedUrl(media, `data:${mimeType};base64,${data}`);
  };

  const mediaUrl = (media, given) => {
    if (typeof given !== "object" || given === null) return checkedUrl(media, given);
    return given.type === media && given[MEDIA[media]] === undefined
      ? blockUrl(media, given)
      : checkedUrl(media, given[MEDIA[media]]);
  };

  const mediaItem = (media, given, detail) => {
    const item = { __proto__: null, type: media };
    item[MEDIA[media]] = mediaUrl(media, given);
    if (media === "audio") return item;
    let wanted = detail;
    if (wanted === undefined && typeof given === "object") wanted = given.detail;
    if (wanted !== undefined && wanted !== null && !(typeof wanted === "string" && DETAILS[wanted])) {
      throw new TypeError('image: detail is one of "auto", "low", "high", "original"');
    }
    item.detail = wanted === undefined ? null : wanted;
    return item;
  };

  const emitItem = (item) => send(kinds.ITEM, JSONStringify(item));

  const contentItem = (block) => {
    const type = typeof block === "object" && block !== null ? block.type : undefined;
    if (type === "text") {
      const { text } = block;
      if (typeof text !== "string") throw new TypeError("content: a text block has no text");
      return text;
    }
    if (type === "image" || type === "audio") return mediaItem(type, block);
    if (type === "resource_link" || type === "resource") {
      const json = JSONStringify(block);
      if (json !== undefined) return json; // its own toJSON can say undefined
    }
    throw new TypeError("content: expected MCP content blocks; for a tool's result pass result.content");
  };

  const emitContent = (blocks) => {
    const items = list();
    if (ArrayIsArray(blocks)) {
      for (let i = 0; i < blocks.length; i++) items[i] = contentItem(blocks[i]);
    } else {
      items[0] = contentItem(blocks);
    }
    for (let i = 0; i < items.length; i++) {
      if (typeof items[i] === "string") core.emitText(items[i]);
      else emitItem(items[i]);
    }
  };

  core.outputGlobals = {
    __proto__: null,
    text(value) {
      core.emitText(value);
    },
    image(value, detail) {
      emitItem(mediaItem("image", value, detail));
    },
    audio(value) {
      emitItem(mediaItem("audio", value));
    },
    content(blocks) {
      emitContent(blocks);
    },
    notify(value) {
      const shown = core.show(value);
      if (StringPrototypeTrim(shown) === "") throw new TypeError("notify: expected text that is not blank");
      send(kinds.NOTIFY, shown);
    },
    yield_control() {
      send(kinds.YIELD, "");
    },
  };
});
