// a loop may be left early, and the iterator used by hand, ahead of the results
// deliver 2 error "two"
// deliver 1 ok 1
// deliver 3 ok 3
// deliver 4 ok 4
const first = tools.echo({ n: 1 });
for await (const { index } of as_settled([first, tools.echo({ n: 2 })])) {
  text(`first to settle: ${index}`);
  break;
}
text(await first);
const iterator = as_settled([tools.echo({ n: 3 }), tools.echo({ n: 4 })]);
const ahead = [iterator.next(), iterator.next(), iterator.next(), iterator.next()];
text(await Promise.all(ahead));
text(await iterator.next());
const other = as_settled(["a", "b"]);
text(await other.next());
text(await other.return("left"));
text(await other.next());
const list = [Promise.resolve("kept")];
const copied = as_settled(list);
list.length = 0;
list.push("not seen", "not seen");
for await (const { value } of copied) text(value);
try {
  for await (const { value } of as_settled([1, 2])) throw new Error(`thrown at ${value}`);
} catch (error) {
  text(error.message);
}
