// What is run while one builtin is replaced: everything of ours, and of the language as little as can be.
text("start");
text({ list: [1, [2]], map: new Map(), set: new Set(), big: 5n, f() {} });
const cycle = { deep: [] };
cycle.self = cycle;
text(cycle);
store("k", { v: [1] });
text(load("k"));
notify("note");
image("https://host/a.png", "low");
content([{ type: "text", text: "block" }]);
setTimeout((argument) => text(argument), 1, "timer");
const cleared = setTimeout(() => text("never"), 1);
clearTimeout(cleared);
yield_control();
text(await tools.echo({ n: 1 }));
try {
  await tools.echo(5);
} catch (error) {
  text(error);
}
try {
  null.x;
} catch (error) {
  text(error);
}
tools.echo({ n: 2 }).then((value) => text(value));
for await (const result of as_settled([tools.echo({ n: 3 }), 4])) text(result);
const iterator = as_settled([5]);
text(await iterator.next());
const inner = async () => await tools.echo({ n: 4 });
text(await inner());
tools.echo({ n: 5 });
if (load("ends by exit")) exit();
throw { thrown: [1] };
