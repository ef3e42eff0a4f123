// Promise.prototype.then replaced: calls, as_settled, timers and the end of the script do without it
// echo all
// fire all
// echo all
const recorded = [];
const { then } = Promise.prototype;
const { apply } = Reflect;
Promise.prototype.then = function (...args) {
  recorded.push(args.map((arg) => typeof arg).join());
  return apply(then, this, args);
};
Promise.prototype.catch = Promise.prototype.finally = null;
text(await tools.echo({ n: 1 }));
for await (const { value } of as_settled([tools.echo({ n: 2 }), Promise.resolve(3), (async () => 4)()])) text(value);
await new Promise((go) => setTimeout(go, 1));
text(recorded);
Promise.prototype.then = () => {
  throw new Error("replaced");
};
text(await tools.echo({ n: 5 }));
Promise.prototype.then = undefined;
text(await Promise.resolve(6));
Promise.prototype.then = then;
Promise.prototype.constructor = undefined;
text(await tools.echo({ n: 7 }));
for await (const { value } of as_settled([tools.echo({ n: 8 })])) text(value);
text(9);
