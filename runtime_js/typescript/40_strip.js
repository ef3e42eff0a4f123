// Takes the types out of a source. Runs in the isolate of the script, before anything of the script has: what it finds is
// still as the engine made it. Nothing of it stays behind.
(function (types) {
  "use strict";

  const OPTIONS = {
    sourceType: "module", // strict, and `await` at the top level; the engine has the last word on everything
    allowReturnOutsideFunction: true,
    allowNewTargetOutsideFunction: true,
    allowUndeclaredExports: true,
    attachComment: false,
    errorRecovery: true,
    tokens: true,
    plugins: ["typescript", "decorators", "decoratorAutoAccessors"], // the last two to be named as not supported
  };

  const TYPES_ALONE = ["TSTypeAnnotation", "TSTypeParameterDeclaration", "TSTypeParameterInstantiation"];
  const NO_CHILDREN = ["loc", "extra", "tokens", "comments", "errors"];
  const PLACE = / \(\d+:\d+\)$/; // at the end of the parser's messages
  const TOKEN = /^(?:[\p{ID_Continue}$#]+|=>|[^\s])/u;

  const isNode = (value) => typeof value === "object" && value !== null && typeof value.type === "string";

  const children = (node) =>
    Object.keys(node)
      .filter((key) => !NO_CHILDREN.includes(key))
      .flatMap((key) => node[key])
      .filter(isNode);

  const refusal = (message, { line, column }) => ({ message, line, column: column + 1 });

  // In the engine's words, as far as they are known.
  const explained = (problem, source) => {
    const message = problem.message.replace(PLACE, "");
    if (message !== "Unexpected token") return message;
    const token = TOKEN.exec(source.slice(problem.loc.index));
    return token === null ? "Unexpected end of input" : `Unexpected token '${token[0]}'`;
  };

  // Blank what is to be blanked of one node. Of what is below it, `code` is to be looked at as well, `erased` is gone.
  const visit = (edits, node) => {
    if (types.isErased(node) || types.isErasedMember(node)) {
      edits.blankWhole(node.start, node.end);
      return { code: [], erased: children(node) };
    }
    if (TYPES_ALONE.includes(node.type)) {
      edits.blank(node.start, node.end);
      return { code: [], erased: children(node) };
    }
    types.blankers[node.type]?.(edits, node);
    // What is a type itself stands nowhere else: the type of `as`, and what a class implements.
    const isCast = node.type === "TSAsExpression" || node.type === "TSSatisfiesExpression";
    const erased = isCast ? [node.typeAnnotation] : (node.implements ?? []);
    return { code: children(node).filter((child) => !erased.includes(child)), erased };
  };

  const blanked = (source) => {
    const file = types.parse(source, OPTIONS);
    const edits = new types.Edits(source, file.tokens);
    const code = [file.program];
    const erased = [];
    let first;
    const see = (refused) => {
      if (refused !== undefined && (first === undefined || refused.at.start < first.at.start)) first = refused;
    };
    while (code.length > 0) {
      const node = code.pop();
      if (!types.isErased(node)) see(types.unsupported(node));
      const below = visit(edits, node);
      for (const child of below.code) code.push(child);
      for (const child of below.erased) erased.push(child);
    }
    while (erased.length > 0) {
      const node = erased.pop();
      see(types.unsupportedType(node));
      for (const child of children(node)) erased.push(child);
    }
    if (first !== undefined) return { unsupported: refusal(first.message, first.at.loc.start) };
    return edits.isEmpty ? {} : { text: edits.result() };
  };

  // As JSON: `text` without types, or what is `unsupported`, or a `failure` to parse, each with its place; none of them
  // if there are no types, or the text is nested too deeply.
  types.strip = (source) => {
    let found;
    try {
      found = blanked(source);
    } catch (problem) {
      found = problem.loc === undefined ? {} : { failure: refusal(explained(problem, source), problem.loc) };
    }
    /(?:)/.exec(""); // the last match is a global that scripts can read
    return JSON.stringify(found);
  };
});
