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

  const isNode = (value) => typeof value === "object" && value !== null && typeof value.type === "string";

  const children = (node) =>
    Object.keys(node)
      .filter((key) => !NO_CHILDREN.includes(key))
      .flatMap((key) => node[key])
      .filter(isNode);

  const refusal = (message, { line, column }) => ({ message, line, column: column + 1 });

  // Blank what is to be blanked of one node; what is left to look at.
  const visit = (edits, node) => {
    if (types.isErased(node) || types.isErasedMember(node)) {
      edits.blankWhole(node.start, node.end);
      return [];
    }
    if (TYPES_ALONE.includes(node.type)) {
      edits.blank(node.start, node.end);
      return [];
    }
    types.blankers[node.type]?.(edits, node);
    const below = children(node);
    // What is a type itself stands nowhere else: the type of `as`, and what a class implements.
    if (node.type === "TSAsExpression" || node.type === "TSSatisfiesExpression") return [node.expression];
    return node.implements ? below.filter((child) => !node.implements.includes(child)) : below;
  };

  const blanked = (source) => {
    const file = types.parse(source, OPTIONS);
    const edits = new types.Edits(source, file.tokens);
    const left = [file.program];
    let first;
    while (left.length > 0) {
      const node = left.pop();
      const refused = types.isErased(node) ? undefined : types.unsupported(node);
      if (refused !== undefined && (first === undefined || refused.at.start < first.at.start)) first = refused;
      for (const child of visit(edits, node)) left.push(child);
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
      found = problem.loc === undefined ? {} : { failure: refusal(problem.message.replace(PLACE, ""), problem.loc) };
    }
    /(?:)/.exec(""); // the last match is a global that scripts can read
    return JSON.stringify(found);
  };
});
