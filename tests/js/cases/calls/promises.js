// a call is a promise like any other, to await, chain and combine
// deliver 1 ok 1
// deliver 3 error "three"
// deliver 2 ok 2
// deliver 4 ok 4
// deliver 6 ok 6
// deliver 5 error "five"
// deliver 7 ok 7
// deliver 8 error "eight"
// deliver 9 ok 9
// deliver 10 error "ten"
// deliver 11 ok 11
const call = () => tools.echo({});
const promise = call();
text([promise instanceof Promise, Object.prototype.toString.call(promise), String(promise), JSON.stringify(promise)]);
text(await promise);
text([await promise, await promise]);
text(
  await Promise.allSettled([call(), call()]).then((all) =>
    all.map(({ status, value, reason }) => [status, value ?? reason.message]),
  ),
);
text(await Promise.race([call(), new Promise(() => {})]));
text(await Promise.any([call(), call()]));
text(await Promise.all([call(), 5, Promise.resolve(6)]));
text(
  await call().then(
    (value) => value,
    (error) => `handled ${error.message}`,
  ),
);
text(
  await call()
    .then()
    .then(null, null)
    .finally(() => text("finally"))
    .then((value) => [value]),
);
text(await call().catch((error) => `caught ${error.message}`));
text(await new Promise((resolve) => resolve(call())));
text(await Promise.resolve(promise));
text(Promise.resolve(promise) === promise);
class Mine extends Promise {}
text((await Mine.resolve(promise)) === 1);
text(promise.then(() => {}) instanceof Promise);
text(promise.catch(() => {}).constructor);
const order = [];
promise.then(() => order.push("first"));
promise.then(() => order.push("second"));
promise.finally(() => order.push("third"));
await null;
await null;
await null;
text(order);
