// text() of 100 000 levels is some text, and the script goes on
const nest = (make) => {
  let value = 0;
  for (let i = 0; i < 100000; i++) value = make(value);
  return value;
};
text(nest((value) => [value]));
text(nest((value) => ({ value })));
text(nest((value) => new Map([[0, value]])));
text(nest((value) => new Set([value])));
text(nest((value) => ({ toJSON: () => value })));
text("still here");
let levels = 0;
for (let i = 0; i < 1000; i++) levels = [levels];
text(levels);
