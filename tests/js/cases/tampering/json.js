// JSON replaced as a whole and in parts
// echo all
const { stringify, parse } = JSON;
const seen = [];
JSON.stringify = (...args) => seen.push(args.length) && "replaced";
JSON.parse = (...args) => seen.push(args.length) && "replaced";
JSON.rawJSON = () => seen.push("raw");
text({ a: [1n] });
store("k", { a: 1 });
text(load("k"));
text(await tools.echo({ n: 1 }));
globalThis.JSON = null;
text({ b: 2 });
text(await tools.echo({ n: 2 }));
text(seen);
text([stringify([1]), parse("[2]")]);
throw { thrown: [1] };
