// as_settled() of many calls, some that fail, in whatever order they come back
// echo all
const calls = Array.from({ length: 20 }, (_, n) => (n % 10 ? tools.echo({ n }) : tools.echo(n)));
const seen = [];
let failed = 0;
for await (const { index, status } of as_settled(calls)) {
  seen.push(index);
  if (status === "rejected") failed++;
}
text([seen.length, new Set(seen).size, failed]);
