// each write goes out at once, in order, whatever the script does afterwards
store("a", 1);
store("b", 2);
store("a", 3);
store("b", undefined);
await null;
store("c", { deep: ["x"] });
Promise.resolve().then(() => store("late", 4));
throw new Error("thrown");
