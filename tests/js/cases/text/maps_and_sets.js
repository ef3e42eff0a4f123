// text() of a Map is a list of pairs, of a Set a list of members, wherever they stand
text(new Map());
text(new Set());
text(
  new Map([
    [1, 2],
    ["k", { v: 1 }],
    [{ o: 1 }, [2]],
  ]),
);
text(new Set([3, "s", null, undefined, NaN, -0]));
text({ map: new Map([["a", new Map([["b", new Set([new Map()])]])]]), set: [new Set([1])] });
text(new Map([[Symbol("k"), () => 1]]));
text(new Map([[1n, 2n]]));
text(new Map([[new Error("key").message, new RangeError("value").message]]));
class Registry extends Map {
  extra = 1;
}
text(new Registry([["sub", "class"]]));
class Labelled extends Set {
  toJSON() {
    return "its own";
  }
}
text([new Labelled([1])]);
text(new Labelled([1]));
text([Object.create(Map.prototype), Object.create(Set.prototype)]);
text(Object.setPrototypeOf(new Map([[1, 2]]), null));
text(Object.setPrototypeOf(new Set([1]), Map.prototype));
text(new Proxy(new Map([[1, 2]]), {}));
text(Map.prototype);
const map = new Map([["first", 1]]);
text(map);
map.set("second", 2);
text(map);
text(new WeakMap([[{}, 1]]));
