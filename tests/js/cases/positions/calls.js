// the stack of a failed call names the line that made the call, and who waited
// tools: echo, note:freeform
// deliver 1 error "first"
// deliver 2 error "second"
// deliver 3 error "third"
// deliver 4 error "fourth"
// deliver 5 error "in a list"
const get = async (id) => {
  return await tools.echo({ id });
};
try {
  await get(1);
} catch (error) {
  text(error);
}
const outer = async () => {
  await null;
  await get(2);
};
try {
  await outer();
} catch (error) {
  text(error);
}
await tools.note("x").catch(text);
class Client {
  async fetch() {
    try {
      await tools.echo();
    } catch (error) {
      throw new Error("wrapped", { cause: error });
    }
  }
}
await new Client().fetch().catch((error) => {
  text(error);
  text(error.cause);
});
await Promise.all([1, 2].map((id) => tools.echo({ id })));
