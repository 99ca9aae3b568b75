/**
 * What a thing is, as one gauge for each state that it may be in, 1 for the one that holds. A thing is one series here
 * and becomes its lines when it is written: kept line by line, states were half of a large fleet's series.
 */
import type { FamilyOptions, Labelled, Labels } from './families.js'
import { Family, LabelText } from './families.js'

export interface StateOptions extends FamilyOptions {
  /** Which of the labels says the state, and what it may say. */
  readonly states: { readonly label: string; readonly values: readonly string[] }
}

export class StateFamily extends Family<StateSeries> {
  override readonly type = 'gauge'
  readonly states: readonly string[]
  /** `mode="exact",`, as it stands before the label that follows. */
  readonly written: readonly Uint8Array[]
  /** The text up to where the state goes. Walks the values: one of them may read like a label. */
  readonly #before: RegExp

  constructor(options: StateOptions) {
    const { label, values } = options.states
    super({ ...options, labels: (options.labels ?? []).filter((name) => name !== label) })
    const before = this.labelNames.filter((name) => name < label)
    if (before.length === this.labelNames.length) throw new TypeError(`metric ${this.name} has no label after ${label}`)
    this.#before = new RegExp(`\\{${before.map((name) => `${name}="(?:[^"\\\\]|\\\\.)*",`).join('')}`, 'y')
    this.states = values
    this.written = values.map((value) =>
      Buffer.from(new LabelText({ [label]: value }).text.replace(/^\{(.*)\} $/, '$1,')),
    )
  }

  set(labels: Labels | LabelText, state: string): void {
    this.with(labels).set(state)
  }

  /** Where the state goes in the text of the other labels. */
  placeIn(labels: string): number {
    this.#before.lastIndex = 0
    this.#before.test(labels)
    return this.#before.lastIndex
  }

  protected override create(labels: string): StateSeries {
    return new StateSeries(labels)
  }
}

export class StateSeries implements Labelled {
  readonly labels: string
  state = ''

  constructor(labels: string) {
    this.labels = labels
  }

  set(state: string): void {
    this.state = state
  }
}
