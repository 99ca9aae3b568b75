/** Users who chat with both sides at once: the same words at the same moment, each side with its own answers. */
import { setMaxListeners } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { Agent } from 'undici'
import { ask } from './ask.js'
import type { ChatMessage } from './chats.js'
import { createChat, seededDraw } from './chats.js'
import { demoModel } from './fleet.js'
import type { Score } from './score.js'
import { ScoreKeeper } from './score.js'

export interface TrafficOptions {
  /** One gateway per side. */
  readonly urls: readonly string[]
  readonly users: number
  readonly onFirstAnswer: () => void
}

const answerTokens = 24
const thinkMs: readonly [least: number, most: number] = [200, 600]

export class Traffic {
  readonly #options: TrafficOptions
  readonly #agent = new Agent({ keepAliveTimeout: 1_000, connections: 128 })
  readonly #stop = new AbortController()
  readonly #scores: readonly ScoreKeeper[]
  readonly #users: readonly Promise<void>[]
  #hasAnswer = false

  constructor(options: TrafficOptions) {
    this.#options = options
    setMaxListeners(0, this.#stop.signal) // every user waits on it
    this.#scores = options.urls.map(() => new ScoreKeeper())
    this.#users = Array.from({ length: options.users }, (_, user) => this.#live(seededDraw(user + 1)))
  }

  scores(): Score[] {
    return this.#scores.map((keeper) => keeper.score())
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await Promise.all(this.#users)
    await this.#agent.destroy()
  }

  async #live(draw: () => number): Promise<void> {
    while (!this.#isOver) {
      const { system, questions } = createChat(draw)
      const histories: ChatMessage[][] = this.#options.urls.map(() => [{ role: 'system', content: system }])
      for (const question of questions) {
        await this.#think(draw)
        if (this.#isOver) return
        const turns = await Promise.all(histories.map((history, side) => this.#turn(side, history, question)))
        if (turns.includes(false)) break // a side that missed a turn would chat about something else from here on
      }
    }
  }

  get #isOver(): boolean {
    return this.#stop.signal.aborted
  }

  async #think(draw: () => number): Promise<void> {
    const [least, most] = thinkMs
    const waitMs = least + draw() * (most - least)
    await pause(waitMs, undefined, { signal: this.#stop.signal }).catch(() => undefined)
  }

  async #turn(side: number, history: ChatMessage[], question: string): Promise<boolean> {
    history.push({ role: 'user', content: question })
    const { signal } = this.#stop
    try {
      const url = this.#options.urls[side]!
      const asked = await ask({ url, model: demoModel, messages: history, answerTokens, agent: this.#agent, signal })
      history.push({ role: 'assistant', content: asked.text })
      this.#scores[side]!.add(asked)
      if (side === 0 && !this.#hasAnswer) {
        this.#hasAnswer = true
        this.#options.onFirstAnswer()
      }
      return true
    } catch {
      if (!this.#isOver) this.#scores[side]!.fail()
      return false
    }
  }
}
