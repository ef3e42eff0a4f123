// calls left behind are sent all the same, and those of the microtasks that run on
// source: "tools.echo({a: 1}); tools.echo({b: 2}); text('end')"
// source: "Promise.resolve().then(() => tools.echo({late: true})); return 1"
// source: "tools.echo({}).then(text); exit()"
// source: "tools.echo({a: 1}); throw new Error('thrown')"
// source: "await tools.echo({}).finally(() => text('finally'))"
