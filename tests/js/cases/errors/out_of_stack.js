// an endless recursion is an Error as any other, whatever the script was doing
const forever = () => forever();
const caught = (f) => {
  try {
    f();
  } catch (error) {
    text(`${error.name}: ${error.message}`);
  }
};
caught(forever);
caught(() => {
  const deep = { toJSON: () => deep.toJSON() };
  JSON.stringify(deep);
});
const asked = {
  get message() {
    return this.message;
  },
};
text(Object.defineProperty(new Error(), "message", Object.getOwnPropertyDescriptor(asked, "message")));
const chain = (n) => (n === 0 ? new Error("root") : new Error(`${n}`, { cause: chain(n - 1) }));
caught(() => {
  throw chain(100);
});
throw chain(30);
