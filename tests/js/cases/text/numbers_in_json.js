// text() of numbers inside objects: what JSON can say, and digits for a BigInt
text([0, -0, 1.5, NaN, Infinity, 2 ** 53 + 1, 1e300, 5e-324]);
text({ big: 12345678901234567890n, list: [1n, -1n, 0n] });
text([Object(1), Object("s"), Object(true), Object(5n)]);
text(Object(Symbol("boxed")));
text(Object(7n));
text(new Number(-0));
