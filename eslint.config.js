// The rules for the JavaScript of this project. Those for runtime_js/ are there because it shares its realm with hostile
// scripts: whatever it looks up on a prototype or on the global object while a script runs may be the script's own.
import js from "@eslint/js";
import globals from "globals";

// Constants that no script can change.
const FIXED_GLOBALS = ["Infinity", "NaN", "undefined"];

const INTRINSICS = [...Object.keys(globals.builtin), "Temporal"].filter((name) => !FIXED_GLOBALS.includes(name));

// What a script finds besides ECMAScript and Intl.
const SCRIPT_GLOBALS = [
  ...["ALL_TOOLS", "as_settled", "audio", "clearTimeout", "content", "exit", "image", "load"],
  ...["notify", "setTimeout", "store", "text", "tools", "yield_control"],
];

// `core` and its primordials are ours alone and out of a script's sight.
const OWN_OBJECT = ":matches([object.name='core'], [object.object.name='core'][object.property.name='primordials'])";

const COMMON_RULES = {
  eqeqeq: "error",
  "no-implicit-coercion": ["error", { allow: ["!!", "+"] }],
  "no-shadow": "error",
  "no-undef": "error",
  "no-unused-vars": ["error", { argsIgnorePattern: "^_", caughtErrorsIgnorePattern: "^_" }],
  "no-var": "error",
  "object-shorthand": "error",
  "prefer-const": "error",
};

const TAMPERING_RULES = {
  "no-restricted-globals": [
    "error",
    ...INTRINSICS.map((name) => ({ name, message: "A script can replace it: take it from core.primordials." })),
  ],
  "no-restricted-syntax": [
    "error",
    {
      selector: `:matches(CallExpression > MemberExpression.callee, TaggedTemplateExpression > MemberExpression.tag):not(${OWN_OBJECT})`,
      message: "A method call looks on a prototype that a script can change: call the uncurried primordial.",
    },
    {
      selector: "ForOfStatement",
      message: "for-of uses iterators that a script can replace: count with an index.",
    },
    {
      selector: ":matches(ArrayExpression, CallExpression, NewExpression) > SpreadElement",
      message: "Spread uses iterators that a script can replace: use ReflectApply or an index.",
    },
    {
      selector: "ArrayPattern",
      message: "Array destructuring uses iterators that a script can replace: read by index.",
    },
    {
      selector: "BinaryExpression[operator='instanceof']",
      message: "instanceof asks Symbol.hasInstance, which a script can define: check a brand instead.",
    },
  ],
};

export default [
  { ignores: ["runtime_js/vendor/"] }, // as others have written it
  js.configs.recommended,
  { linterOptions: { reportUnusedDisableDirectives: "error" }, rules: COMMON_RULES },
  {
    // Plain scripts, each one expression: (function (core) { "use strict"; … })
    files: ["runtime_js/*.js", "runtime_js/typescript/*.js"],
    languageOptions: { sourceType: "script", globals: { Temporal: "readonly" } },
    rules: {
      strict: ["error", "function"],
      "no-shadow-restricted-names": ["error", { reportGlobalThis: false }], // it is a primordial too
    },
  },
  {
    files: ["runtime_js/*.js"],
    ignores: ["runtime_js/00_primordials.js"], // it runs before any script, and captures what the others use
    rules: TAMPERING_RULES,
  },
  {
    // Scripts as a caller sends them: strict bodies with top-level await.
    files: ["tests/js/**/*.js"],
    languageOptions: {
      sourceType: "module",
      globals: Object.fromEntries(SCRIPT_GLOBALS.map((name) => [name, "readonly"])),
    },
  },
  {
    files: ["tests/js/*.mjs"],
    languageOptions: { sourceType: "module", globals: globals.node },
  },
  {
    files: ["eslint.config.js"],
    languageOptions: { sourceType: "module" },
  },
  {
    // Runs in Node.
    files: ["tests/unit/**/*.js"],
    languageOptions: { sourceType: "module", globals: globals.node },
  },
];
