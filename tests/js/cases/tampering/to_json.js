// a toJSON on Object.prototype spoils what the script writes, and nothing of ours
// deliver 1 error "no"
const seen = [];
Object.prototype.toJSON = function (key) {
  seen.push([key, Array.isArray(this)].join());
  return "spoilt";
};
text([1]);
text({ a: 1 });
text(new Map([[1, 2]]));
store("k", [1]);
text(load("k"));
image({ image_url: "https://host/" });
BigInt.prototype.toJSON = () => "big";
text({ n: 5n });
delete Object.prototype.toJSON;
Array.prototype.toJSON = () => "list";
text([1]);
text(new Map([["k", 1]]));
text({ set: new Set([1]) });
const call = tools.echo({ list: [1] });
String.prototype.toJSON = () => "string";
Number.prototype.toJSON = () => "number";
text(["a", 1, true]);
store("k", "a");
text(load("k"));
try {
  await call;
} catch (error) {
  Object.prototype.toJSON = () => "spoilt";
  throw Object.assign(error, { own: { a: 1 } });
}
