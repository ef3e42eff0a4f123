// the status that the host reads is not asked for a toJSON, so no script writes it
// deliver 1 ok {}
// fire all
for (const prototype of [Object.prototype, Array.prototype, Number.prototype, String.prototype]) {
  prototype.toJSON = () => ({ forged: true });
}
setTimeout(() => text("timer"), 5);
const call = tools.echo();
await call;
text("went on");
await new Promise((go) => setTimeout(go, 10));
