/**
 * The turns of a template's loops, as one rendering makes them and the next takes them over. A turn is taken over when its item
 * and everything that it read outside (`turn-plan.ts`) are what they were; then its text is a range of the earlier one's
 * bytes. Every turn is judged by itself, so a message that is edited, or that the end of the list now shows in another way, is
 * rendered again and the others are not.
 */
import type { Flow, Run, Scope } from './run.js'
import { TemplateLimitError } from './run.js'
import { isSameData, sizeOfAll } from './same-data.js'
import type { Value } from './values.js'
import { isTrue, LoopState, Namespace } from './values.js'

type Body = (scope: Scope, run: Run) => Flow
export type Read = (scope: Scope, run: Run) => Value

export interface SiteGuard {
  readonly read: Read
  readonly isTest: boolean
  readonly isFixed: boolean
}

/** A loop whose turns may be taken over; the words are those of `TurnPlan`. */
export interface TurnSite {
  readonly id: number
  readonly guards: readonly SiteGuard[]
  readonly names: readonly number[]
  readonly attributes: readonly Read[]
  readonly effects: readonly { readonly name: number; readonly attribute: string }[]
}

export interface Turn {
  readonly item: Value
  /** The guards that it read, and what they said. */
  readonly guards: readonly number[]
  readonly seen: readonly Value[]
  readonly attributes: readonly Value[]
  readonly flow: Flow
  /** What it left in the namespaces that it may set. */
  readonly effects: readonly Value[]
  /** Of its text, in bytes and in UTF-16 units. */
  readonly length: number
  readonly units: number
  /** That it holds in memory, about. */
  readonly bytes: number
}

export interface LoopTurns {
  /** What the names said that are compared before the first turn. */
  readonly names: readonly Value[]
  /** Where in the text the loop's own begins, in bytes. */
  readonly from: number
  readonly turns: readonly Turn[]
}

/** An earlier rendering: its text as UTF-8, and the turns of its loops by the loop's number. */
export interface Rendered {
  readonly bytes: Uint8Array
  readonly loops: readonly (LoopTurns | undefined)[]
}

/** Longer loops are replayed up to here. */
const turnsMax = 4096
const turnBytes = 160

/** For one rendering: what an earlier one made, and what this one makes. */
export class Turns {
  readonly made: (LoopTurns | undefined)[] = []
  reused = 0
  /** That the turns hold. */
  bytes = 0
  /** So many leading bytes are those of the earlier text; what is written comes after them. */
  head = 0
  readonly #known: Rendered | undefined

  constructor(known?: Rendered) {
    this.#known = known
  }

  /** Called when a loop begins; nothing when a name that matters holds what cannot be compared. */
  open(site: TurnSite, scope: Scope, run: Run): LoopReplay | undefined {
    const names = site.names.map((name) => scope.get(name))
    const bytes = sizeOfAll(names)
    if (bytes === undefined || !run.out.isWellFormed()) return undefined
    this.bytes += bytes
    const known = this.#known?.loops[site.id]
    const isUsable = known !== undefined && areSame(known.names, names)
    return new LoopReplay(this, site, run, names, isUsable ? known : undefined)
  }

  /** Takes over a range of the earlier text: into the head where it goes on from there, else as a text. */
  take(from: number, to: number, units: number, run: Run): void {
    const { bytes } = this.#known!
    if (isText(run.out, bytes, this.head, from)) {
      run.before += run.out.length + units
      run.out = ''
      this.head = to
      run.write('') // the limit holds for what is taken, too
    } else run.write(textOf(bytes, from, to))
  }
}

class LoopReplay {
  readonly #owner: Turns
  readonly #site: TurnSite
  readonly #run: Run
  readonly #known: readonly Turn[]
  readonly #made: Turn[] = []
  /** Guards that are the same for every turn, once one was read. */
  readonly #fixed: Value[] = []
  #isRecording = true
  /** Of the earlier text, what is taken over and not yet written. */
  #from: number
  #to: number
  #units = 0

  constructor(owner: Turns, site: TurnSite, run: Run, names: readonly Value[], known: LoopTurns | undefined) {
    this.#owner = owner
    this.#site = site
    this.#run = run
    this.#known = known?.turns ?? []
    this.#from = known?.from ?? 0
    this.#to = this.#from
    owner.made[site.id] = { names, from: owner.head + Buffer.byteLength(run.out), turns: this.#made }
  }

  run(index: number, item: Value, scope: Scope, body: Body): Flow {
    const attributes = this.#readAttributes(scope)
    const old = this.#known[index]
    if (old && areSame(old.attributes, attributes) && isSameData(old.item, item) && this.#agrees(old, scope)) {
      this.#to += old.length
      this.#units += old.units
      this.#owner.reused++
      this.#apply(old.effects, scope)
      if (this.#isRecording) this.#keep(old)
      return old.flow
    }
    this.close()
    this.#to += old?.length ?? 0
    this.#from = this.#to
    if (!this.#isRecording) return body(scope, this.#run)
    return this.#render(item, attributes, scope, body)
  }

  /** Renders a turn apart from the rest, to know its own text, and keeps what it did. */
  #render(item: Value, attributes: readonly Value[], scope: Scope, body: Body): Flow {
    const run = this.#run
    const { out } = run
    run.before += out.length
    run.out = ''
    run.notes = []
    const flow = body(scope, run)
    const { notes, out: text } = run
    run.notes = undefined
    run.before -= out.length
    run.out = out + text
    this.#record(item, attributes, notes, flow, scope, text)
    return flow
  }

  /** Writes what is taken over so far. */
  close(): void {
    if (this.#from < this.#to) this.#owner.take(this.#from, this.#to, this.#units, this.#run)
    this.#from = this.#to
    this.#units = 0
  }

  /** Whether everything that the turn read outside still says the same; then it would take the same way again. */
  #agrees({ guards, seen }: Turn, scope: Scope): boolean {
    for (let index = 0; index < guards.length; index++) {
      const value = this.#read(guards[index]!, scope)
      if (value !== seen[index] && !isSameData(value, seen[index])) return false
    }
    return true
  }

  #read(place: number, scope: Scope): Value {
    const { read, isTest, isFixed } = this.#site.guards[place]!
    if (place in this.#fixed) return this.#fixed[place]
    const value = attempt(read, scope, this.#run)
    const seen = isTest && value !== unreadable ? isTrue(value) : value
    if (isFixed) this.#fixed[place] = seen
    return seen
  }

  #readAttributes(scope: Scope): readonly Value[] {
    const { attributes } = this.#site
    return attributes.length === 0 ? none : attributes.map((read) => attempt(read, scope, this.#run))
  }

  #apply(effects: readonly Value[], scope: Scope): void {
    for (let index = 0; index < effects.length; index++) {
      const { name, attribute } = this.#site.effects[index]!
      const target = scope.get(name)
      if (target instanceof Namespace) target.values.set(attribute, effects[index])
    }
  }

  /** Turns are compared by their place, so the first that cannot be kept ends what is kept. */
  #record(
    item: Value,
    attributes: readonly Value[],
    notes: readonly Value[],
    flow: Flow,
    scope: Scope,
    text: string,
  ): void {
    const guards: number[] = []
    const seen: Value[] = []
    notes.forEach((value, place) => {
      guards.push(place)
      seen.push(this.#site.guards[place]!.isTest ? isTrue(value) : value)
    })
    const effects = this.#readEffects(scope)
    const bytes = sizeOfAll([item, ...attributes, ...seen, ...effects])
    // Two halves of a character in two turns would have another length together.
    if (bytes === undefined || !text.isWellFormed()) this.#isRecording = false
    else {
      const sizes = { length: Buffer.byteLength(text), units: text.length, bytes: bytes + turnBytes }
      this.#keep({ item, guards, seen, attributes, flow, effects, ...sizes })
    }
  }

  #readEffects(scope: Scope): readonly Value[] {
    const { effects } = this.#site
    if (effects.length === 0) return none
    return effects.map(({ name, attribute }) => {
      const target = scope.get(name)
      return target instanceof Namespace ? target.values.get(attribute) : undefined
    })
  }

  #keep(turn: Turn): void {
    this.#made.push(turn)
    this.#owner.bytes += turn.bytes
    if (this.#made.length === turnsMax) this.#isRecording = false
  }
}

const none: readonly Value[] = []

/** Stands for a value that could not be read: no list of our own making is ever the same as another. */
const unreadable: Value = new LoopState([])

function attempt(read: Read, scope: Scope, run: Run): Value {
  try {
    return read(scope, run)
  } catch (error) {
    if (error instanceof TemplateLimitError) throw error
    return unreadable
  }
}

function areSame(a: readonly Value[], b: readonly Value[]): boolean {
  for (let index = 0; index < a.length; index++) {
    if (a[index] !== b[index] && !isSameData(a[index], b[index])) return false
  }
  return true
}

function isText(text: string, bytes: Uint8Array, from: number, to: number): boolean {
  if (text.length > to - from) return false
  return Buffer.from(text).equals(bytes.subarray(from, to))
}

function textOf(bytes: Uint8Array, from: number, to: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from).toString('utf8')
}
