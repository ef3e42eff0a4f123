// as_settled() hands over results in the order in which they settle, plain values and thenables too
// deliver 2 ok {"second": true}
// deliver 3 error "third"
// deliver 1 ok {"first": true}
// fire all
const calls = [1, 2, 3].map((n) => tools.echo({ n }));
for await (const result of as_settled(calls)) {
  text(result.reason ? { ...result, reason: String(result.reason) } : result);
}
const later = (value, delay) => new Promise((go) => setTimeout(go, delay, value));
const mixed = [
  later("slow", 200000),
  later("quick", 100000),
  "plain",
  undefined,
  Promise.resolve("kept"),
  Promise.reject(new Error("rejected")),
  { then: (go) => go("thenable") },
  { then: (_, no) => no("thenable that rejects") },
  {
    then() {
      throw new Error("thenable that throws");
    },
  },
  {
    get then() {
      throw new Error("a getter that throws");
    },
  },
  { then: 5 },
];
for await (const { index, status, value, reason } of as_settled(mixed)) {
  text([index, status, status === "rejected" ? String(reason) : value]);
}
text("end");
