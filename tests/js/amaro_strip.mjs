// What amaro, which Node.js takes types out with, makes of each source on standard input: a JSON string a line, and null for
// what it refuses.
import { createInterface } from "node:readline";
import amaro from "amaro";

for await (const line of createInterface({ input: process.stdin })) {
    let code = null;
    try {
        ({ code } = amaro.transformSync(JSON.parse(line), { mode: "strip-only" }));
    } catch {
        // It says why on its own terms.
    }
    console.log(JSON.stringify(code));
}
