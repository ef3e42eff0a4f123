// text() shows an object that stands at several places at each of them: that is no cycle
const shared = { s: 1 };
text([shared, shared, { shared }]);
const cycle = {};
cycle.self = cycle;
text({ first: shared, cycle, last: shared, again: [shared, [shared]] });
text({ cycle, other: cycle });
const map = new Map([["k", shared]]);
text({ one: map, two: map, cycle });
const list = [];
text({ a: list, b: [list, list], cycle });
const diamond = { left: { shared }, right: { shared } };
diamond.top = diamond;
text(diamond);
text(
  new Map([
    [shared, shared],
    [map, map],
    ["c", cycle],
  ]),
);
