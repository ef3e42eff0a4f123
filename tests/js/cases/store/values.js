// store() keeps JSON copies, load() gives a fresh one each time
// stored: {"before": {"n": [1, 2]}, "text": "t", "null": null}
text(load("before"));
text([load("text"), load("null"), load("missing") === undefined]);
const value = { list: [1], drop: undefined, f() {}, at: new Date(0), n: NaN };
text(String(store("k", value)));
value.list.push(2);
text(load("k"));
load("k").list.push(3);
text(load("k"));
text(load("k") === load("k"));
for (const item of ["", "s", 0, -0, 1.5, true, false, null, [], {}, [[]], "😀\ud800"]) {
  store("each", item);
  text([load("each")]);
}
store("k");
text(load("k") === undefined);
store("k", undefined);
store("before", undefined);
text(load("before") === undefined);
store("", "empty key");
text(load(""));
for (const key of ["__proto__", "constructor", "toString", "hasOwnProperty", "length", "a\nb", "\ud800", "😀"]) {
  text(load(key) === undefined);
  store(key, { of: key });
  text(load(key));
}
store("proto", JSON.parse('{"__proto__": {"x": 1}}'));
text([load("proto"), load("proto").x === undefined]);
store(5, "by number");
text([load("5"), load(5), load(5.0)]);
store(-0, 1);
text(load("0"));
store("set", new Map([[1, 2]]));
text(load("set"));
store("typed", new Uint8Array([1, 2]));
text(load("typed"));
store("json", { toJSON: () => ({ from: "toJSON" }) });
text(load("json"));
store("error", new Error("e"));
text(load("error"));
