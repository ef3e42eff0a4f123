// behind an await the functions that wait are in the stack, through the combinators too
const no = async () => {
  await null;
  throw new Error("no");
};
const show = async (f) => {
  try {
    text(await f());
  } catch (error) {
    text(error);
  }
};
const middle = async () => {
  await no();
};
await show(middle);
await show(async () => {
  return await middle();
});
await show(() => middle());
await show(async () => middle());
await show(async () => {
  await Promise.all([1, no()]);
});
await show(async () => {
  await Promise.any([no()]);
});
await show(async () => {
  await Promise.race([no()]);
});
await show(async () => {
  const [result] = await Promise.allSettled([no()]);
  throw result.reason;
});
await show(async () => {
  await Promise.resolve().then(() => no());
});
await show(async () => {
  await Promise.reject(new Error("made here")).catch((error) => {
    throw new Error("wrapped", { cause: error });
  });
});
await show(async () => {
  await Promise.resolve().finally(() => {
    throw new Error("finally");
  });
});
await show(async () => {
  await new Promise((resolve, reject) => {
    reject(new Error("rejected"));
  });
});
await show(async () => {
  await new Promise(() => {
    throw new Error("in an executor");
  });
});
await show(async () => {
  await {
    then() {
      throw new Error("in then");
    },
  };
});
await show(() => Promise.try(no));
await show(async () => {
  await using resource = {
    async [Symbol.asyncDispose]() {
      await null;
      throw new Error("dispose");
    },
  };
  text(typeof resource);
});
const late = Promise.withResolvers();
late.promise.catch(() => {});
late.reject(new Error("with resolvers"));
await show(() => late.promise);
for await (const { reason } of as_settled([Promise.all([no()])])) text(reason);
await middle();
