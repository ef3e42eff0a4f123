// What is a type altogether and leaves nothing behind, and what of TypeScript needs code in its place, which nobody
// writes here.
(function (types) {
  "use strict";

  const isUninstantiated = (body) =>
    body.type === "TSModuleBlock" ? body.body.every(types.isErased) : types.isErased(body);

  // Whether a whole statement is about types alone.
  types.isErased = (node) => {
    switch (node.type) {
      case "TSInterfaceDeclaration":
      case "TSTypeAliasDeclaration":
      case "TSDeclareFunction": // an overload, too
      case "TSNamespaceExportDeclaration":
        return true;
      case "TSModuleDeclaration":
        return node.declare === true || !node.body || isUninstantiated(node.body);
      case "VariableDeclaration":
      case "ClassDeclaration":
      case "FunctionDeclaration":
      case "TSEnumDeclaration":
        return node.declare === true;
      case "ImportDeclaration":
      case "TSImportEqualsDeclaration":
        return node.importKind === "type";
      case "ExportNamedDeclaration":
        return node.exportKind === "type" || (Boolean(node.declaration) && types.isErased(node.declaration));
      case "ExportAllDeclaration":
        return node.exportKind === "type";
      case "ExportDefaultDeclaration":
        return types.isErased(node.declaration);
      default:
        return false;
    }
  };

  // Whether a member of a class is about types alone.
  types.isErasedMember = (node) =>
    node.type === "TSDeclareMethod" ||
    node.type === "TSIndexSignature" ||
    ((node.type === "ClassProperty" || node.type === "ClassPrivateProperty") && (node.declare || node.abstract));

  const UNSUPPORTED = {
    __proto__: null,
    ClassAccessorProperty: "an accessor field is not supported; write a getter and a setter",
    Decorator: "a decorator is not supported; call the function yourself",
    TSEnumDeclaration: "enum is not supported; use an object of constants",
    TSExportAssignment: "export = is not supported; there are no modules here",
    TSImportEqualsDeclaration: "import = is not supported; there are no modules here",
    TSModuleDeclaration: "a namespace with values is not supported; use an object",
    TSParameterProperty: "a parameter property is not supported; declare the field and assign it in the constructor",
    TSTypeAssertion: "the type assertion <T>value is not supported; write value as T",
  };

  const PRECEDENCE = { __proto__: null, "??": 1, "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5 };
  for (const operator of ["==", "!=", "===", "!=="]) PRECEDENCE[operator] = 6;
  for (const operator of ["<", ">", "<=", ">=", "in", "instanceof"]) PRECEDENCE[operator] = 7;
  for (const operator of ["<<", ">>", ">>>"]) PRECEDENCE[operator] = 8;
  for (const operator of ["+", "-"]) PRECEDENCE[operator] = 9;
  for (const operator of ["*", "/", "%"]) PRECEDENCE[operator] = 10;
  PRECEDENCE["**"] = 11;

  const isBare = (node, ...kinds) => kinds.includes(node.type) && !node.extra?.parenthesized;

  // `a < b as T + c` means `(a < b) + c`; without the type it would mean `a < (b + c)`.
  const isHeldTogether = (node) => {
    let left = node.left;
    if (!isBare(left, "TSAsExpression", "TSSatisfiesExpression")) return false;
    while (isBare(left, "TSAsExpression", "TSSatisfiesExpression")) left = left.expression;
    if (!isBare(left, "BinaryExpression", "LogicalExpression")) return false;
    return node.operator === "**" || PRECEDENCE[left.operator] < PRECEDENCE[node.operator];
  };

  // What cannot be done about a node, and which node to point at; undefined if nothing is wrong with it.
  types.unsupported = (node) => {
    if (node.type === "BinaryExpression" || node.type === "LogicalExpression") {
      if (!isHeldTogether(node)) return undefined;
      return { message: "a type between these operators is not supported; put parentheses around it", at: node.left };
    }
    const message = UNSUPPORTED[node.type];
    return message === undefined ? undefined : { message, at: node };
  };

  const NUMBERS = ["NumericLiteral", "BigIntLiteral"];

  // The same of what is in a type. The parser takes what stands below `-1` for more of the type if it can: a call there
  // would be blanked without a word.
  types.unsupportedType = (node) => {
    if (node.type !== "TSLiteralType" || node.literal.type !== "UnaryExpression") return undefined;
    if (NUMBERS.includes(node.literal.argument.type)) return undefined;
    return { message: "a negative number as a type is not supported here; end its line with a semicolon", at: node };
  };
});
