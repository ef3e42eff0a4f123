// All kinds of types at once: what runs is the same text with blanks in their place.
// tools: list_repos
// echo all
interface Repo { id: number; name: string; stars?: number; tags: string[] }
type Result<T> = { ok: true; value: T } | { ok: false; error: string };
type Handler = (repo: Repo, index: number) => Promise<void>;
declare const nowhere: unique symbol;
declare function alsoNowhere(): never;
import type { Something } from "somewhere";

const LIMIT: number = 2, seen: Map<string, Repo[]> = new Map<string, Repo[]>();
let later!: string;

async function attempt<T>(work: () => Promise<T>): Promise<Result<T>> {
  try {
    return { ok: true, value: await work() };
  } catch (error: unknown) {
    return { ok: false, error: (error as Error).message };
  }
}

abstract class Base<T> {
  abstract size(): number;
  protected readonly items: T[] = [];
  [key: string]: any;
}
class Counter<T extends string> extends Base<T> implements Iterable<T>, Disposable {
  declare nothing: number;
  private counts: Record<string, number> = {};
  static readonly made: number = 0
  public ["computed"]?: number
  get: string | undefined
  set!: string
  constructor(public_: number, private_?: string);
  constructor(readonly_: number) { super(); this.set = String(readonly_) }
  add(this: Counter<T>, key: T, by?: number): this { this.counts[key] = (this.counts[key] ?? 0) + (by ?? 1); return this }
  override size(): number { return Object.keys(this.counts).length }
  *[Symbol.iterator](): IterableIterator<T> { yield* this.items }
  [Symbol.dispose](): void {}
}
const counter = new Counter<"a" | "b">(7).add("a").add("b", 3);
text(counter.size()); text(counter.set); text(Object.keys(counter));

function overloaded(a: string): void;
function overloaded(a: number): void
function overloaded(a: any): asserts a is any { text(typeof a) }
overloaded(1 as unknown as any);

const list = await attempt<{ limit: number }>(() => tools.list_repos({ limit: LIMIT }) as Promise<any>);
if (!list.ok) exit();
text((list as { value: unknown }).value);
const each: Handler = async (repo, index): Promise<
  void
> => { seen.set(repo.name!, [repo]) };
await each({ id: 1, name: "x", tags: [] } satisfies Repo, 0);
text([...seen.keys()]);
later = <const T,>(x: T): T => x;
text(later`t`![0]!.length);
for (const [key, value] of Object.entries({ a: 1 } as const) as [string, number][]) text(`${key as string}=${value!}`);
let lone = counter as any
[1, 2].forEach((n: number) => text(n))
return (lone satisfies object)!.size() as number
