// calls go out at once and in order; results come in any order and each finds its own
// deliver 3 ok "c"
// deliver 1 ok "a"
// deliver 2 ok "b"
text("before");
const calls = ["a", "b", "c"].map((name) => tools.echo({ name }).then((value) => text(`${name} got ${value}`)));
text("between");
await Promise.all(calls);
text("after");
