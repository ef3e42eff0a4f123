// what is called by us shows the script's frames alone
// tools: echo
// echo all
// fire all
const stack = () =>
  new Error("here").stack
    .split("\n")
    .slice(1)
    .map((line) => line.trim())
    .join(" ");
setTimeout(function timer() {
  text(stack());
}, 10);
text({ toJSON: () => stack() });
text(new Map([["k", { toJSON: () => stack() }]]));
tools.echo({ toJSON: () => ({ stack: stack() }) }).then(function fulfilled() {
  text(stack());
});
tools.echo(1).catch(function refused(error) {
  text(stack());
  text(error);
});
for await (const { value } of as_settled([{ then: (go) => go(stack()) }])) text(value);
await new Promise((go) => setTimeout(go, 20));
text(stack());
