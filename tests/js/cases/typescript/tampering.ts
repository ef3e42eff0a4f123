// A text that would change the realm if it were let: it is refused before anything of it is.
// source: "}); function JSON(){} var x: number; ({"
// source: "}}; Array.prototype.push = () => text('mine'); const x: number = 1; {{"
// source: "*/ const x: number = 1"
// source: "`); text('mine'); (`${1 as any}"
// source: "const x: number = 1; //# sourceURL=codemode:runtime\nthrow new Error('e')"
// source: "\u2028const x: '\\ud83d' = '\\ud83d' as any; text(x)"
