// What has to be blanked of each node that is no type itself but has something of a type on it.
(function (types) {
  "use strict";

  const MODIFIERS = ["abstract", "declare", "override", "private", "protected", "public", "readonly"];
  const GOES_ON = ["(", "[", "`"]; // in the line below: JavaScript takes it for more of the expression above

  const blankIf = (edits, token, text) => {
    if (edits.text(token) === text) edits.blankToken(token);
  };

  // The `?` of an optional parameter; its annotation is a node of its own.
  const blankParameter = (edits, node) => {
    if (node.optional)
      blankIf(edits, edits.tokenAt(node.typeAnnotation ? node.typeAnnotation.start : node.end) - 1, "?");
  };

  // `this` as the first parameter is a type; the comma behind it goes with it.
  const blankThis = (edits, node) => {
    const first = node.params[0];
    if (first?.type !== "Identifier" || first.name !== "this") return;
    edits.blank(first.start, first.end);
    blankIf(edits, edits.tokenAt(first.end), ",");
  };

  // No line may end before `=>`, nor between `async` or `return` and what follows: the parentheses go to where the
  // types were.
  const blankArrow = (edits, node) => {
    const { typeParameters, returnType } = node;
    if (typeParameters && edits.hasLineEnd(node.start, edits.start(edits.tokenAt(typeParameters.end)))) {
      edits.blank(typeParameters.start, typeParameters.end, "(");
      edits.blankToken(edits.tokenAt(typeParameters.end));
    }
    if (returnType) {
      const close = edits.tokenAt(returnType.start) - 1;
      if (edits.hasLineEnd(edits.start(close), returnType.end)) {
        edits.blankToken(close);
        edits.blank(returnType.start, returnType.end, " ", ")");
      }
    }
  };

  const blankFunction = (edits, node) => {
    blankThis(edits, node);
    if (node.type === "ArrowFunctionExpression") blankArrow(edits, node);
  };

  // `value as T`: blanked from the word on. The text of a type never holds the word as a token of its own before its end.
  const blankCast = (edits, node) => {
    const word = node.type === "TSAsExpression" ? "as" : "satisfies";
    let token = edits.tokenAt(node.typeAnnotation.start) - 1;
    while (edits.text(token) !== word) token--;
    const end = node.end;
    edits.blank(edits.start(token), end, GOES_ON.includes(edits.textBehind(end)[0]) ? ";" : " ");
  };

  const blankModifiers = (edits, node) => {
    const end = edits.tokenAt(node.key.start);
    const first = edits.tokenAt(node.start);
    for (let token = first; token < end; token++) {
      if (!MODIFIERS.includes(edits.text(token))) continue;
      edits.blankToken(token, token === first && edits.isOpenBefore(node.start) ? ";" : " ");
    }
  };

  const blankMember = (edits, node) => {
    blankModifiers(edits, node);
    let behind = edits.tokenAt(node.key.end);
    if (node.computed) {
      while (edits.text(behind) !== "]") behind++;
      behind++;
    }
    const isMarked = ["?", "!"].includes(edits.text(behind));
    const isField = node.type === "ClassProperty" || node.type === "ClassPrivateProperty";
    if (isField && !node.value && (isMarked || node.typeAnnotation) && edits.textBefore(node.end) !== ";") {
      // A field named get, set, static or async would go on with the next member.
      edits.blank(edits.start(behind), node.end, ";");
    } else if (isMarked) edits.blankToken(behind);
  };

  const blankClass = (edits, node) => {
    const open = edits.tokenAt(node.start);
    if (node.abstract) blankIf(edits, open, "abstract");
    if (!node.implements?.length) return;
    const word = edits.tokenAt(node.implements[0].start) - 1;
    edits.blank(edits.start(word), node.implements.at(-1).end);
  };

  const blankDefinite = (edits, node) => {
    if (node.definite) blankIf(edits, edits.tokenAt(node.id.typeAnnotation?.start ?? node.id.end) - 1, "!");
  };

  types.blankers = {
    __proto__: null,
    ArrayPattern: blankParameter,
    ArrowFunctionExpression: blankFunction,
    AssignmentPattern: blankParameter,
    ClassDeclaration: blankClass,
    ClassExpression: blankClass,
    ClassMethod(edits, node) {
      blankMember(edits, node);
      blankFunction(edits, node);
    },
    ClassPrivateMethod(edits, node) {
      blankMember(edits, node);
      blankFunction(edits, node);
    },
    ClassPrivateProperty: blankMember,
    ClassProperty: blankMember,
    FunctionDeclaration: blankFunction,
    FunctionExpression: blankFunction,
    Identifier: blankParameter,
    ObjectMethod: blankFunction,
    ObjectPattern: blankParameter,
    RestElement: blankParameter,
    TSAsExpression: blankCast,
    TSNonNullExpression: (edits, node) => edits.blank(node.end - 1, node.end),
    TSSatisfiesExpression: blankCast,
    VariableDeclarator: blankDefinite,
  };
});
