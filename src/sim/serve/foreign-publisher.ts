/**
 * Another process on an engine's event ports, as when a second engine on the host was given the same ones: it has its own
 * numbers, its own replay, and blocks of prompts that nobody sent to the engine. By seed.
 */
import type { Clock } from '../clock.js'
import { createBlockChain } from './block-chain.js'
import type { EngineName } from './engine-name.js'
import type { KvEvent } from './kv-event.js'
import { encodeBatch } from './kv-wire.js'
import type { PublisherOptions } from './publisher.js'
import { KvPublisher } from './publisher.js'
import { TokenContent } from './token-content.js'

export interface ForeignOptions {
  readonly engine: EngineName
  readonly blockTokens: number
  readonly seed: number
  /** Between two of its batches. */
  readonly everyMs: number
}

const blocksPerBatch = 3
/** Beyond what any simulated tokenizer gives a prompt. */
const firstToken = 2 ** 20

export class ForeignPublisher {
  readonly #options: ForeignOptions
  readonly #clock: Clock
  readonly #publisher: KvPublisher
  #draws: number
  #isClosed = false

  /** Undefined: the ports were taken again before it had them. */
  static async open(
    ports: PublisherOptions,
    options: ForeignOptions,
    clock: Clock,
  ): Promise<ForeignPublisher | undefined> {
    const publisher = await KvPublisher.open(ports, true).catch(() => undefined)
    return publisher && new ForeignPublisher(publisher, options, clock)
  }

  private constructor(publisher: KvPublisher, options: ForeignOptions, clock: Clock) {
    this.#publisher = publisher
    this.#options = options
    this.#clock = clock
    this.#draws = options.seed >>> 0
    this.#speak()
  }

  close(): void {
    this.#isClosed = true
    this.#publisher.retire()
  }

  #speak(): void {
    if (this.#isClosed) return
    const payload = encodeBatch(this.#publisher.options.form, Date.now() / 1000, [this.#stored()], 0)
    this.#publisher.send(this.#publisher.number(payload))
    this.#clock.at(this.#clock.now() + Math.max(1, this.#options.everyMs), () => this.#speak())
  }

  #stored(): KvEvent {
    const { engine, blockTokens } = this.#options
    const tokens = Array.from({ length: blocksPerBatch * blockTokens }, () => firstToken + (this.#draw() >>> 16))
    const content = new TokenContent(tokens, blockTokens, createBlockChain(engine, {}, 'another engine'))
    const hashes = Array.from({ length: blocksPerBatch }, (_, index) => content.digestAt(index))
    return { kind: 'stored', hashes, parent: undefined, tokens, blockTokens, medium: 'GPU', firstBlock: 0 }
  }

  #draw(): number {
    return (this.#draws = (Math.imul(this.#draws, 1664525) + 1013904223) >>> 0)
  }
}
