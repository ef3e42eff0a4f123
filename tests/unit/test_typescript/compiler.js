// Reads texts of TypeScript, each a line of JSON, and answers for each with what the compiler has against it.
import readline from "node:readline";
import ts from "typescript";

const OPTIONS = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  target: ts.ScriptTarget.ES2022,
  lib: ["lib.es2022.d.ts"],
  types: [],
};
const NAME = "/checked.ts";

const host = ts.createCompilerHost(OPTIONS);
const readLibrary = host.getSourceFile;
const library = new Map();
let checked;
host.getSourceFile = (name, version) => {
  if (name === NAME) return checked;
  if (!library.has(name)) library.set(name, readLibrary(name, version));
  return library.get(name);
};
host.fileExists = (name) => name === NAME;

let program;
for await (const line of readline.createInterface({ input: process.stdin })) {
  checked = ts.createSourceFile(NAME, `${JSON.parse(line)}\nexport {};\n`, OPTIONS.target);
  program = ts.createProgram([NAME], OPTIONS, host, program);
  const found = [...program.getSyntacticDiagnostics(checked), ...program.getSemanticDiagnostics(checked)].map(
    (each) => ({
      line: checked.getLineAndCharacterOfPosition(each.start).line + 1,
      text: ts.flattenDiagnosticMessageText(each.messageText, " "),
    }),
  );
  process.stdout.write(`${JSON.stringify(found)}\n`);
}
