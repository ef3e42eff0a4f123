// the frames of generators and async generators
const show = async (f) => {
  try {
    text(await f());
  } catch (error) {
    text(error);
  }
};
const no = () => {
  throw new Error("no");
};
function* numbers() {
  yield 1;
  no();
}
await show(() => [...numbers()]);
await show(() => {
  for (const n of numbers()) text(n);
});
function* outer() {
  yield* numbers();
}
await show(() => Array.from(outer()));
await show(() => outer().throw(new Error("thrown in")));
await show(() => {
  const running = outer();
  running.next();
  running.return();
  return running.next().done;
});
async function* later() {
  yield 1;
  await null;
  no();
}
await show(async () => {
  for await (const n of later()) text(n);
});
async function* around() {
  yield* later();
}
await show(async () => {
  for await (const n of around()) text(n);
});
await show(async () => {
  const running = later();
  await running.next();
  await running.next();
});
await show(() => Array.fromAsync(later()));
await show(() => numbers().map(no).toArray());
await show(() => Iterator.from({ next: no }).take(1).toArray());
for await (const n of later()) text(n);
